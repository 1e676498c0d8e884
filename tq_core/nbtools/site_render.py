"""Notebooks, Markdown and source files as pieces of HTML, with formulas as MathML and headings as GitHub names them."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from pygments import highlight
from pygments.formatters.html import HtmlFormatter
from pygments.lexers import get_lexer_for_filename
from pygments.lexers.special import TextLexer
from pygments.util import ClassNotFound

from tq_core.nbtools.normalise import strip_live
from tq_core.nbtools.site_math import mathml

_TAG = re.compile(r"<[^>]+>")
HEADING = re.compile(r'<h([1-6]) id="([^"]+)">(.*?)</h\1>', re.S)


def slug(text: str, taken: set[str]) -> str:
    """The id of a heading: as on GitHub, so that links between committed pages hold in both places."""
    base = re.sub(r"[^\w\- ]", "", _TAG.sub("", text).strip().lower()).replace(" ", "-") or "section"
    name, n = base, 0
    while name in taken:
        n += 1
        name = f"{base}-{n}"
    taken.add(name)
    return name


class _Renderer(IPythonRenderer):
    def __init__(self, taken: set[str]) -> None:
        super().__init__(escape=False)
        self._taken = taken

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        return f'<h{level} id="{slug(text, self._taken)}">{text}</h{level}>\n'

    def block_math(self, body: str) -> str:
        return mathml(body, block=True)

    def inline_math(self, body: str) -> str:
        return mathml(body, block=False)

    def latex_environment(self, name: str, body: str) -> str:
        return mathml(rf"\begin{{{name}}}{body}\end{{{name}}}", block=True)

    def block_code(self, code: str, info: str | None = None) -> str:
        return str(super().block_code(code, info)).replace("<pre>", '<pre tabindex="0">')


def markdown_body(text: str, taken: set[str] | None = None) -> str:
    """Markdown as HTML; ``taken`` collects the ids of headings over several calls for one page."""
    return str(MarkdownWithMath(renderer=_Renderer(set() if taken is None else taken)).render(text))


class _Exporter(HTMLExporter):
    """nbconvert's bare template: no script, no style sheet; the page around it brings one for all."""

    def __init__(self, taken: set[str], **options: Any) -> None:
        blank = {f"{name}_url": "" for name in ("require_js", "jquery", "mathjax", "mermaid_js")}
        quiet = {"exclude_input_prompt": True, "exclude_output_prompt": True}
        super().__init__(template_name="basic", **blank, **quiet, **options)
        self.register_filter("markdown2html", lambda source: markdown_body(source, taken))


def notebook_body(path: Path) -> str:
    """A notebook as HTML: text, code and the outputs that it holds, without live widgets."""
    notebook = strip_live(nbformat.read(path, as_version=4))
    body, _ = _Exporter(set()).from_notebook_node(notebook)
    return str(body).replace("<pre>", '<pre tabindex="0">')


def source_body(path: Path, name: str) -> str:
    """A text file with highlighted syntax, or the names in a folder; ``name`` is its heading."""
    if path.is_dir():
        names = "\n".join(sorted(p.name for p in path.iterdir() if not p.name.startswith(("__", "."))))
        return f'<h1 id="top">{escape(name)}</h1>\n<pre tabindex="0">{escape(names)}</pre>'
    text = path.read_text(encoding="utf-8")
    try:
        lexer = get_lexer_for_filename(path.name)
    except ClassNotFound:
        lexer = TextLexer()
    code = highlight(text, lexer, HtmlFormatter()).replace("<pre>", '<pre tabindex="0">')
    return f'<h1 id="top">{escape(name)}</h1>\n{code}'


def headings(body: str) -> list[tuple[int, str, str]]:
    """(level, id, text) of the headings, in order."""
    return [(int(level), name, _TAG.sub("", text).strip()) for level, name, text in HEADING.findall(body)]


def highlight_css() -> str:
    """Colours of code for a light and a dark page; both styles keep a contrast of 4.5 on the ground of `pre`."""
    light = HtmlFormatter(style="xcode").get_style_defs(".highlight")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".highlight")
    return f"{light}\n@media screen and (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
