"""What must hold for a finished site: nothing is asked of a network, every link arrives, formulas are formulas."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from tq_core.nbtools.site_links import EXTERNAL

# A browser fetches what attributes name, but for these and for <a href>, which waits for a click.
_WORDS = {"alt", "alttext", "aria-label", "title", "xmlns"}
_ADDRESS = re.compile(r"(?:^|[\s,])(?:https?:)?//")
_LATEX = re.compile(r"\\(?:[a-zA-Z]{2,}|[,;{])|\$\$|\$[^$\s][^$]*\$")
_CSS_URL = re.compile(r"url\(\s*['\"]?(?!data:)[^)]*\)|@import")
_CODE = {"pre", "code", "math", "script", "style", "svg"}
NO_ALT = "No description has been provided"


class _Facts(HTMLParser):
    """The ids, links, pictures and stray LaTeX of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.problems: list[str] = []
        self.levels: list[int] = []
        self.lang = ""
        self.title = ""
        self.formulas = 0
        self._inside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if (
            "id" in given and "svg" not in self._inside
        ):  # drawings name their parts alike, and nothing links there
            self.ids.append(given["id"])
        if tag == "html":
            self.lang = given.get("lang", "")
        if tag in _CODE or tag == "title":
            self._inside.append(tag)
        self.formulas += tag == "math"
        if re.fullmatch("h[1-6]", tag):
            self.levels.append(int(tag[1]))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "img" and (not given.get("alt", "").strip() or given["alt"].startswith(NO_ALT)):
            self.problems.append("a picture without a text alternative")
        if (
            tag == "link"
            and given.get("rel") in ("stylesheet", "icon")
            and not given["href"].startswith("data:")
        ):
            self.links.append(given["href"])
        for name, value in given.items():
            words = name in _WORDS or name.startswith("xmlns:") or (tag == "a" and name == "href")
            if not words and _ADDRESS.search(value):
                self.problems.append(f"<{tag}> asks for {value[:80]}")
            if name.startswith("on"):
                self.problems.append(f"a script in {name}")
        if tag == "script" and given.get("type") != "application/json":
            self.problems.append("a script")
        if _CSS_URL.search(given.get("style", "")):
            self.problems.append(f"a style that asks for something: {given['style'][:80]}")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._inside:  # a tag left open inside it ends with it
            while self._inside.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if "title" in self._inside:
            self.title += data
        if "style" in self._inside and _CSS_URL.search(data):
            self.problems.append("a style sheet that asks for something")
        if not self._inside and (found := _LATEX.search(data)):
            self.problems.append(f"LaTeX that was not converted: {found[0][:60]!r}")

    def shape(self) -> list[str]:
        """Language, title, one main heading, no level left out, no id twice."""
        out = [] if self.lang else ["no language"]
        out += [] if self.title.strip() else ["no title"]
        if self.levels.count(1) != 1 or self.levels[0] != 1:
            out.append(
                f"{self.levels.count(1)} main headings, the first heading is of level {self.levels[:1]}"
            )
        out += [
            f"heading level {a} is followed by {b}" for a, b in zip(self.levels, self.levels[1:]) if b > a + 1
        ]
        return out + [
            f"the id {name!r} twice" for name in sorted({i for i in self.ids if self.ids.count(i) > 1})
        ]


def facts(text: str) -> _Facts:
    """A page's facts from its HTML."""
    parser = _Facts()
    parser.feed(text)
    parser.close()
    return parser


def problems(site: Path, skip: tuple[str, ...] = ()) -> list[str]:
    """Everything that is wrong, each with its page; pages in ``skip`` (made elsewhere) are only linked to."""
    pages = {
        path.relative_to(site).as_posix(): facts(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
    }
    found = []
    for name, page in pages.items():
        if name in skip:
            continue
        found += [f"{name}: {problem}" for problem in (*page.shape(), *page.problems)]
        for link in page.links:
            if link.startswith(EXTERNAL):
                continue
            path, _, fragment = unquote(link).partition("#")
            target = (site / name).parent / path if path else site / name
            if not target.is_file():
                found.append(f"{name}: a link to {link}, which does not exist")
                continue
            arrived = pages.get(target.resolve().relative_to(site.resolve()).as_posix())
            if fragment and arrived is not None and fragment not in arrived.ids:
                found.append(f"{name}: a link to {link}, where nothing has that name")
    for sheet in site.rglob("*.css"):
        if _CSS_URL.search(sheet.read_text(encoding="utf-8")):
            found.append(f"{sheet.name}: a style sheet that asks for something")
    return found
