"""The finished site in a browser: narrow, light and dark, on paper, without a request; not exercised without Chromium."""

from __future__ import annotations

from pathlib import Path

import pytest

from tq_core.browser.chromium import BrowserMissing
from tq_core.browser.page import chromium
from tq_core.nbtools import site

pytestmark = pytest.mark.slow
NARROW = {"width": 360, "height": 740}
PAPER = {"width": 700, "height": 1000}

# Elements that reach beyond the window without a box of their own that scrolls.
OVERFLOWING = """() => [...document.querySelectorAll('main *')].filter(e => {
  if (e.getBoundingClientRect().right <= innerWidth + 1) return false;
  for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
    if (getComputedStyle(p).overflowX !== 'visible') return false;
  return true;
}).map(e => e.outerHTML.slice(0, 120))"""

# Text whose contrast with what is behind it is below 4.5 (WCAG 2.2, 1.4.3).
FAINT = """() => {
  const rgb = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = rgb(c).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor;
    if (rgb(c)[3] !== 0) return c; } return 'rgb(255, 255, 255)'; };
  const found = new Set(), words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; (n = words.nextNode());) {
    const e = n.parentElement;
    if (!n.data.trim() || e.closest('svg, .skip') || !e.checkVisibility()) continue;
    const ink = getComputedStyle(e).color, ground = behind(e);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x);
    if ((a + .05) / (b + .05) < 4.5) found.add(`${ink} on ${ground}: <${e.tagName} class="${e.className}">`);
  }
  return [...found];
}"""

CLIPPED = """() => [...document.querySelectorAll('main pre, main table, main math')]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth && getComputedStyle(e).overflowX !== 'visible')
  .map(e => e.outerHTML.slice(0, 120))"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp("browser") / "site"
    site.build(out, report=Path("none"))
    return out


@pytest.fixture(scope="module")
def browser():
    try:
        with chromium() as started:
            yield started
    except BrowserMissing as error:
        pytest.skip(f"not exercised: {error}")


def pages(folder: Path) -> list[Path]:
    found = sorted(folder.glob("*.html"))
    assert len(found) >= 16
    return found


def test_narrow_pages_fit_ask_for_nothing_and_draw_their_formulas(whole, browser):
    context = browser.new_context(viewport=NARROW)
    page = context.new_page()
    asked, said = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda message: said.append(message.text))
    formulas = 0
    for path in pages(whole):
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"], path.name
        assert page.evaluate(OVERFLOWING) == [], path.name
        assert page.evaluate("[...document.images].filter(i => !i.naturalWidth || !i.alt).length") == 0
        boxes = page.evaluate(
            "[...document.querySelectorAll('math')].map(m => m.getBoundingClientRect().height)"
        )
        assert all(height >= 8 for height in boxes), path.name
        formulas += len(boxes)
    context.close()
    assert formulas > 50
    assert [address for address in asked if not address.startswith(("file:", "data:"))] == []
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_is_behind_it(whole, browser, scheme):
    context = browser.new_context(color_scheme=scheme)
    page = context.new_page()
    grounds = set()
    for path in pages(whole):
        page.goto(path.as_uri())
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
        assert page.evaluate(FAINT) == [], path.name
    context.close()
    assert grounds == {"rgb(255, 255, 255)" if scheme == "light" else "rgb(22, 22, 22)"}


def test_on_paper_nothing_is_cut_off_or_folded_and_the_ground_is_white(whole, browser):
    context = browser.new_context(viewport=PAPER, color_scheme="dark")
    page = context.new_page()
    page.emulate_media(media="print")
    for path in pages(whole):
        page.goto(path.as_uri())
        assert page.evaluate(CLIPPED) == [], path.name
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert page.locator("nav").evaluate_all("found => found.filter(n => n.checkVisibility()).length") == 0
        folded = "found => found.filter(d => !d.lastElementChild.checkVisibility()).length"
        assert page.locator("details").evaluate_all(folded) == 0, path.name
    context.close()


def test_ways_lead_through_all_pages_and_back(whole, browser):
    page = browser.new_page()
    page.goto((whole / "index.html").as_uri())
    page.click("ul.contents a >> nth=0")
    seen = [page.url]
    while page.locator("header a[rel=next]").count():
        page.click("header a[rel=next]")
        seen.append(page.url)
    assert len(seen) == len(set(seen)) == len(pages(whole)) - 1
    while page.locator("footer a[rel=prev]").count():
        page.click("footer a[rel=prev]")
    assert page.url == seen[0]
    page.click("header >> text=Contents")
    assert page.url.endswith("index.html")
    page.close()
