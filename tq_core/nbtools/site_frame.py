"""What every page of the site has around its text: head, ways on, contents; and the index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tq_core.nbtools.site_render import headings

NAME = "tq-workbook"


@dataclass(frozen=True)
class Page:
    """A page made from ``source``, a path in the repository; ``subtitle`` is its opening block quote."""

    source: str
    file: str
    title: str
    subtitle: str
    body: str


def _ways(before: Page | None, after: Page | None, up: str) -> str:
    def way(page: Page | None, rel: str, word: str) -> str:
        if page is None:
            return "<span></span>"
        return f'<a rel="{rel}" href="{up}{page.file}">{word}: {escape(page.title)}</a>'

    index = f'<a href="{up}index.html">Contents</a>'
    return f"{way(before, 'prev', 'Previous')}{index}{way(after, 'next', 'Next')}"


def _sections(body: str) -> str:
    found = [(name, text) for level, name, text in headings(body) if level == 2]
    if len(found) < 2:
        return ""
    items = "".join(f'<li><a href="#{name}">{escape(text)}</a></li>' for name, text in found)
    return f'<nav class="toc" aria-label="On this page"><ul>{items}</ul></nav>'


def frame(title: str, inside: str, ways: str = "", up: str = "") -> str:
    """A whole page. ``up`` leads from it to the site's top folder."""
    top = f'<header><nav class="pages" aria-label="Pages">{ways}</nav></header>' if ways else ""
    end = f'<footer><nav class="pages" aria-label="Pages, again">{ways}</nav></footer>' if ways else ""
    full = title if title == NAME else f"{title} - {NAME}"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{escape(full)}</title><link rel="icon" href="data:,"><link rel="stylesheet" href="{up}site.css"></head>\n'
        f'<body><a class="skip" href="#main">Skip to the text</a>{top}\n<main id="main">\n{inside}\n</main>\n{end}</body></html>\n'
    )


def page_html(page: Page, before: Page | None, after: Page | None) -> str:
    """A page with its sections listed below the title, and the ways to its neighbours."""
    start, end, rest = page.body.partition("</blockquote>" if page.subtitle else "</h1>")
    inside = f"{start}{end}{_sections(page.body)}{rest}" if end else page.body
    return frame(page.title, inside, _ways(before, after, ""))


def source_html(name: str, body: str) -> str:
    """The page of a file that others link to."""
    return frame(name, body, _ways(None, None, "../" * (name.count("/") + 1)), "../" * (name.count("/") + 1))


def index_html(notebooks: Sequence[Page], words: Sequence[Page], report: str | None) -> str:
    """The table of contents: notebooks with their sections, pages of words, the report if there is one."""

    def item(page: Page) -> str:
        sections = "".join(
            f'<li><a href="{page.file}#{name}">{escape(text)}</a></li>'
            for level, name, text in headings(page.body)
            if level == 2
        )
        folded = (
            f"<details><summary>Sections of {escape(page.title)}</summary><ul>{sections}</ul></details>"
            if sections
            else ""
        )
        number = f"{page.file[:2]} " if page.file[:2].isdigit() else ""
        return f'<li><a href="{page.file}">{number}{escape(page.title)}</a><br><span class="kind">{escape(page.subtitle)}</span>{folded}</li>'

    linked = (
        f'<p><a href="{report}">The report</a> of the last `tq validate`: every gate, its number and its limit.</p>'.replace(
            "`tq validate`", "<code>tq validate</code>"
        )
        if report
        else "<p>No report has been made here yet; <code>make report</code> makes one, and <code>make site</code> then links it.</p>"
    )
    return frame(
        NAME,
        f'<h1 id="top">{NAME}</h1>\n<p>A workbook on compressing the key-value cache of a transformer. These pages are its '
        "notebooks with the outputs of a clean run; sliders stand at their first setting. They need no network.</p>\n"
        f'<h2 id="notebooks">Notebooks</h2>\n<ul class="contents">{"".join(map(item, notebooks))}</ul>\n'
        f'<h2 id="words">Words</h2>\n<ul class="contents">{"".join(map(item, words))}</ul>\n'
        f'<h2 id="report">Validation report</h2>\n{linked}',
    )
