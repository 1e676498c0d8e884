"""All notebooks and pages of words as HTML that needs no network: ``python -m tq_core.nbtools site --out build/site``.

The site is made beside its place, checked, and moved there whole: a folder that is there is always one that passed.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import replace
from html import unescape
from pathlib import Path

from tq_core.errors import ValueRangeError, check
from tq_core.nbtools import site_check
from tq_core.nbtools.normalise import notebook_files
from tq_core.nbtools.site_frame import Page, index_html, page_html, source_html
from tq_core.nbtools.site_links import Links
from tq_core.nbtools.site_render import headings, highlight_css, markdown_body, notebook_body, source_body
from tq_core.paths import BUILD, ROOT

WORDS = ("glossary.md", "family.md", "claims.md")
WORDS_FOLDER = "validation/pages"
REPORT = "report.html"
MARK = ".tq-site"  # says that a folder was made here and may be replaced
_QUOTE = re.compile(r"<blockquote>\s*<p>(.*?)</p>", re.S)


def _plain(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html)).strip()


def _page(source: str, file: str, body: str) -> Page:
    titles = [text for level, _, text in headings(body) if level == 1]
    check(len(titles) == 1, source, "one main heading", len(titles), ValueRangeError)
    quote = _QUOTE.search(body)
    return Page(source, file, _plain(titles[0]), _plain(quote[1]) if quote else "", body)


def read_notebooks(notebooks: Path) -> list[Page]:
    """A page for each notebook of a folder, by name; their links are those of the committed ones."""
    pages = []
    for path in notebook_files([notebooks]):
        try:
            pages.append(_page(f"notebooks/{path.name}", f"{path.stem}.html", notebook_body(path)))
        except ValueRangeError as error:
            raise ValueRangeError(f"{path.name}: {error}") from error
    check(bool(pages), "notebooks", "a folder with notebooks", notebooks, ValueRangeError)
    return pages


def read_words(folder: Path) -> list[Page]:
    """The pages of words: glossary, family and claims."""
    made = []
    for name in WORDS:
        text = (folder / name).read_text(encoding="utf-8")
        made.append(_page(f"{WORDS_FOLDER}/{name}", f"{Path(name).stem}.html", markdown_body(text)))
    return made


def write(folder: Path, notebooks: list[Page], words: list[Page], report: Path | None) -> None:
    """Write every file of the site into an empty folder. Raises ValueRangeError for links that lead nowhere."""
    pages = [*notebooks, *words]
    links = Links(ROOT, {page.source: page.file for page in pages})
    for before, page, after in zip([None, *pages[:-1]], pages, [*pages[1:], None]):
        whole = replace(page, body=links.rewrite(page.body, page.source))
        (folder / page.file).write_text(page_html(whole, before, after), encoding="utf-8")
    for source, file in links.wanted.items():
        target = folder / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(source_html(source, source_body(ROOT / source, source)), encoding="utf-8")
    if report is not None:
        shutil.copyfile(report, folder / REPORT)
    index = index_html(notebooks, words, REPORT if report is not None else None)
    (folder / "index.html").write_text(index, encoding="utf-8")
    css = Path(__file__).with_name("site.css").read_text(encoding="utf-8")
    (folder / "site.css").write_text(css + highlight_css(), encoding="utf-8")
    (folder / MARK).write_text("made by make site\n", encoding="utf-8")


def build(
    out: Path,
    notebooks: Path = ROOT / "notebooks",
    words: Path = ROOT / WORDS_FOLDER,
    report: Path = BUILD / "report" / REPORT,
) -> list[Path]:
    """Make the site in ``out`` and return its pages; ``report`` is linked when it exists.

    Raises ValueRangeError for a formula, link or picture that cannot be shown, for a page that would ask for
    something from a network, and when ``out`` holds something else than an earlier site. ``out`` is as before then.
    """
    if out.exists() and (not out.is_dir() or (any(out.iterdir()) and not (out / MARK).exists())):
        raise ValueRangeError(f"out: expected a new folder or an earlier site, got {out}")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}-") as temporary:
        new, old = Path(temporary) / "new", Path(temporary) / "old"
        new.mkdir()
        write(new, read_notebooks(notebooks), read_words(words), report if report.exists() else None)
        found = site_check.problems(new, skip=(REPORT,))
        if found:
            more = f" and {len(found) - 10} more" if len(found) > 10 else ""
            raise ValueRangeError(
                f"site: expected pages that need nothing else, got: {'; '.join(found[:10])}{more}"
            )
        if out.exists():
            out.rename(old)
        new.rename(out)
    return sorted(out.rglob("*.html"))
