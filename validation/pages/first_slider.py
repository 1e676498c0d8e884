"""The picture of the first slider that the README shows: the dial of notebook 00 at its first setting."""

from __future__ import annotations

import re
from functools import lru_cache

from tq_core.errors import ValueRangeError, check
from tq_core.kernels.backend import get_backend
from tq_core.model.fixture import make_fixture
from tq_core.show import plates
from tq_core.show.attention import LayerBench
from tq_core.show.dial_panel import DialPanel

PICTURE = "first_slider.png"
MAX_BYTES = 150_000


@lru_cache(maxsize=1)
def _dial() -> tuple[DialPanel, str]:
    fixture = make_fixture(n_outliers=0)
    bench = LayerBench(fixture.queries, fixture.keys, fixture.values, get_backend("numpy"))
    view = DialPanel(bench)
    settings = {control.name: control.default for control in view.controls}
    return view, view.alt(settings, view.update(**settings))


def alt() -> str:
    """What the picture shows, with its numbers."""
    return _dial()[1]


def readme(text: str) -> str:
    """The README's text with the picture's words as they are now. Raises ValueRangeError when it does not show it."""
    line = re.compile(rf"!\[[^\]]*\]\(validation/pages/{re.escape(PICTURE)}\)")
    found = len(line.findall(text))
    check(found == 1, "README.md", f"{PICTURE} once", f"{found} times", ValueRangeError)
    return line.sub(lambda _: f"![{alt()}](validation/pages/{PICTURE})", text)


def png() -> bytes:
    """The picture as a PNG file."""
    return plates.png(_dial()[0].figure)
