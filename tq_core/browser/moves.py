"""Moves of a panel's sliders by keyboard: how long the page takes to answer, and what the moves leave behind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from playwright.sync_api import TimeoutError

from tq_core.browser.notebook import Notebook

ANSWER_SECONDS, SAME_SECONDS = 60, 5
STATE = """
import json
print(json.dumps({"settings": panel.settings, "options": {c.name: c.options for c in panel.view.controls}}))
"""
_KERNEL = """
import gc, json, resource, time, ipywidgets
from matplotlib.figure import Figure
cpu = time.process_time()
gc.collect()
with open("/proc/self/statm") as file:
    resident = int(file.read().split()[1]) * resource.getpagesize()
figures = sum(isinstance(o, Figure) for o in gc.get_objects())
widgets = len(ipywidgets.widget._instances)
print(json.dumps({"resident_bytes": resident, "figures": figures, "widgets": widgets, "kernel_cpu_seconds": cpu}))
"""
# The clock starts with the key event and stops when the page's text and picture have been replaced.
_WATCH = """() => {
  const watch = window.tqWatch = {};
  document.addEventListener('keydown', (event) => {
    watch.begun = event.timeStamp;
    watch.readout = watch.picture = null;
  }, true);
  for (const part of ['readout', 'picture']) {
    const seen = () => { if (watch.begun && watch[part] === null) watch[part] = performance.now() - watch.begun; };
    new MutationObserver(seen).observe(document.querySelector('.tq-panel .tq-' + part),
      {childList: true, subtree: true, characterData: true});
  }
}"""
# The kernel sends text, then picture; a text that stays the same is not sent.
_SHOWN = "() => window.tqWatch.picture !== null"


@dataclass(frozen=True)
class Move:
    """Milliseconds from the key to the new text (the picture's, where the text stays) and to the new picture; ``new``:
    these settings were not seen before. None where the move changed nothing that is shown."""

    control: str
    new: bool
    readout: float | None
    picture: float | None


class Mover:
    """Walks the sliders ``names`` (all, when empty) of the panel in an opened notebook, to their ends and back."""

    def __init__(self, notebook: Notebook, names: Sequence[str] = ()) -> None:
        self._notebook, self._page = notebook, notebook.page
        state = notebook.ask(STATE)
        self._options = {n: o for n, o in state["options"].items() if len(o) > 1}
        self._at = {name: options.index(state["settings"][name]) for name, options in self._options.items()}
        self._seen = {tuple(self._at.values())}
        self._keys = {name: _ends_and_back(len(self._options[name]), at) for name, at in self._at.items()}
        self._order = cycle(names or self._options)
        self._page.evaluate(_WATCH)

    def move(self) -> Move:
        """One step of the next slider; returns when text and picture are there, an error after ANSWER_SECONDS."""
        name = next(self._order)
        step = next(self._keys[name])
        self._at[name] += step
        place = tuple(self._at.values())
        new = place not in self._seen
        self._seen.add(place)
        self._page.locator(f".tq-panel .tq-{name} input").focus()
        self._page.keyboard.press("ArrowRight" if step > 0 else "ArrowLeft")
        try:
            self._page.wait_for_function(_SHOWN, timeout=1000 * SAME_SECONDS)
        except TimeoutError:
            if self._shows_settings():
                return Move(name, new, None, None)
            self._page.wait_for_function(_SHOWN, timeout=1000 * ANSWER_SECONDS)
        took = self._page.evaluate("() => window.tqWatch")
        readout = took["picture"] if took["readout"] is None else took["readout"]
        return Move(name, new, readout, took["picture"])

    def _shows_settings(self) -> bool:
        """Whether the kernel has drawn the settings that the sliders have: nothing more will come."""
        told = self._notebook.ask("import json\nprint(json.dumps(panel.drawn == panel.settings))")
        return bool(told)


def _ends_and_back(length: int, start: int) -> Iterator[int]:
    at, step = start, 1
    while True:
        if not 0 <= at + step < length:
            step = -step
        at += step
        yield step


def counts(notebook: Notebook) -> Mapping[str, Any]:
    """What could grow with the moves: in the kernel after its garbage collection, and in the page after its own."""
    session = notebook.page.context.new_cdp_session(notebook.page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {m["name"]: m["value"] for m in session.send("Performance.getMetrics")["metrics"]}
    session.detach()
    page = {"heap_bytes": "JSHeapUsedSize", "nodes": "Nodes", "listeners": "JSEventListeners"}
    found = {**notebook.ask(_KERNEL), **{name: int(metrics[key]) for name, key in page.items()}}
    return found | {"page_cpu_seconds": metrics.get("ProcessTime", 0.0)}
