"""One value of a few, as a menu and, where that helps, a slider: the browser's own controls, with names.

ipywidgets' slider handle has no accessible name and offers no way to give it one, and JupyterLab takes the arrow
keys away from ipywidgets' menus. Here both controls are named, and the keys that they use stay with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anywidget
import traitlets

_ESM = """
// JupyterLab binds arrows and letters to its cells: an x that is meant to find a menu's entry would cut one.
const keep = (event) => {
  const others = event.ctrlKey || event.metaKey || event.altKey || ['Tab', 'Escape'].includes(event.key);
  if (!others) event.stopPropagation();
};

function part(parent, tag, properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  parent.appendChild(made);
  return made;
}

function render({model, el}) {
  const label = part(el, 'label');
  part(label, 'span', {textContent: model.get('label')});
  const menu = part(label, 'select');
  const slider = model.get('slider') ? part(el, 'input', {type: 'range', min: 0, step: 1}) : null;
  if (model.get('help')) part(el, 'span', {className: 'tq-help', textContent: model.get('help')});

  const show = () => {
    const [options, index] = [model.get('options'), model.get('index')];
    menu.value = index;
    if (!slider) return;
    slider.value = index;
    slider.setAttribute('aria-valuetext', options[index]);
  };
  const offer = () => {
    menu.replaceChildren(...model.get('options').map((text, i) => new Option(text, i)));
    if (slider) slider.max = model.get('options').length - 1;
    show();
  };
  const moved = (event) => {
    model.set('index', Number(event.target.value));
    model.save_changes();
  };
  for (const control of slider ? [menu, slider] : [menu]) {
    control.addEventListener('input', moved);
    control.addEventListener('keydown', keep);
  }
  if (slider) slider.setAttribute('aria-label', model.get('label'));
  model.on('change:options', offer);
  model.on('change:index', show);
  offer();
  return () => {
    model.off('change:options', offer);
    model.off('change:index', show);
  };
}
export default {render};
"""
_CSS = """
.tq-choice { display: flex; flex-flow: row wrap; align-items: center; gap: 2px 12px; margin: 2px; overflow: visible;
  color: var(--jp-ui-font-color1, #222); font-size: var(--jp-ui-font-size1, 13px); }
.tq-choice label { display: flex; align-items: center; gap: 8px; }
.tq-choice label > span { width: 7em; text-align: right; }
.tq-choice select { width: 12em; height: 28px; padding: 0 6px; font: inherit; color: inherit;
  background: var(--jp-layout-color1, #fff); border: 1px solid var(--jp-border-color1, #888); border-radius: 2px; }
.tq-choice input { width: 15em; height: 24px; margin: 0; cursor: pointer; accent-color: var(--jp-brand-color1, #1976d2); }
.tq-choice .tq-help { color: var(--jp-ui-font-color2, #555); }
.tq-choice :focus-visible { outline: 2px solid var(--jp-brand-color1, #1976d2); outline-offset: 1px; }
"""


class Choice(anywidget.AnyWidget):
    """``value`` is one of ``values``; set it, or observe it as with any widget.

    A value that is not among them raises traitlets.TraitError. ``slider`` adds one beside the menu.
    """

    _esm = _ESM
    _css = _CSS
    label = traitlets.Unicode().tag(sync=True)
    help = traitlets.Unicode().tag(sync=True)
    slider = traitlets.Bool(False).tag(sync=True)
    options = traitlets.List(traitlets.Unicode()).tag(sync=True)
    index = traitlets.Int().tag(sync=True)
    value = traitlets.Any()

    def __init__(
        self, label: str, values: Sequence[Any], value: Any, help: str = "", slider: bool = False
    ) -> None:
        self.values = tuple(values)
        options, index = [str(v) for v in self.values], self._place(value, label)
        super().__init__(
            label=label, help=help, slider=slider, options=options, index=index, value=self.values[index]
        )
        self.add_class("tq-choice")

    def offer(self, values: Sequence[Any]) -> None:
        """Other values from now on; the first one is chosen, unless the present one is among them."""
        value = self.value
        self.values = tuple(values)
        with self.hold_sync():
            self.options = [str(v) for v in self.values]
            self.value = value if value in self.values else self.values[0]
            self.index = self.values.index(self.value)

    def _place(self, value: Any, label: str) -> int:
        if value not in self.values:
            raise traitlets.TraitError(f"{label}: expected one of {self.values}, got {value!r}")
        return self.values.index(value)

    @traitlets.validate("value")
    def _among_values(self, proposal: Any) -> Any:
        return self.values[self._place(proposal["value"], self.label)]

    @traitlets.validate("index")
    def _within(self, proposal: Any) -> int:
        if not 0 <= proposal["value"] < len(self.values):
            got = f"{self.label}: expected a place below {len(self.values)}, got {proposal['value']}"
            raise traitlets.TraitError(got)
        return int(proposal["value"])

    @traitlets.observe("index")
    def _index_moved(self, change: Any) -> None:
        self.value = self.values[change["new"]]

    @traitlets.observe("value")
    def _value_set(self, change: Any) -> None:
        self.index = self.values.index(change["new"])
