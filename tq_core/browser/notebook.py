"""One notebook in JupyterLab's page: run it, read its outputs, ask its kernel, choose the theme."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tq_core.errors import TqError

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUN_SECONDS = 600
LIGHT, DARK = "JupyterLab Light", "JupyterLab Dark"

_READY = """() => {
  const widget = window.jupyterapp && window.jupyterapp.shell.currentWidget;
  const session = widget && widget.context && widget.context.isReady && widget.sessionContext;
  return !!(session && session.isReady && session.session && session.session.kernel);
}"""
_RUN = """async () => {
  const context = window.jupyterapp.shell.currentWidget.sessionContext;
  await context.ready;
  return await window.jupyterapp.commands.execute('notebook:run-all-cells');
}"""
_CELLS = """() => window.jupyterapp.shell.currentWidget.content.widgets.map(cell => cell.model.toJSON())"""
_SCROLL = """async (index) => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = index;
  notebook.mode = 'command';
  await notebook.scrollToItem(index, 'start');
}"""
_ASK = """async (code) => {
  const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
  const future = kernel.requestExecute({code: code, silent: false, store_history: false, stop_on_error: false});
  let said = '';
  future.onIOPub = message => {
    if (message.header.msg_type === 'stream') said += message.content.text;
    if (message.header.msg_type === 'error') said += message.content.evalue;
  };
  const reply = await future.done;
  return {status: reply.content.status, said: said};
}"""


class NotebookError(TqError):
    """The notebook could not be run in the page."""


class Notebook:
    """``Notebook(page, address, "00_start_here.ipynb")`` opens it and waits for its kernel."""

    def __init__(self, page: Page, address: str, name: str) -> None:
        self.page, self.name = page, name
        page.goto(f"{address}/lab/tree/{name}?reset")
        page.wait_for_function(_READY, timeout=1000 * RUN_SECONDS)

    def run_all(self) -> None:
        """Run every cell; returns when the last one is done. Raises NotebookError after RUN_SECONDS."""
        self.page.evaluate(f"() => {{ window.tqRun = ({_RUN})().then(() => 'done', String); }}")
        late = f"new Promise(late => setTimeout(() => late('late'), {1000 * RUN_SECONDS}))"
        said = self.page.evaluate(f"() => Promise.race([window.tqRun, {late}])")
        if said != "done":
            raise NotebookError(f"{self.name}: expected all cells run within {RUN_SECONDS} s, got {said}")

    def cells(self) -> list[dict[str, Any]]:
        """The cells as nbformat has them, outputs included."""
        return self.page.evaluate(_CELLS)

    def complaints(self) -> list[str]:
        """Code cells that did not run, that ended in an error, or that wrote to stderr."""
        found = []
        for number, cell in enumerate(self.cells()):
            if cell["cell_type"] != "code" or not "".join(cell["source"]).strip():
                continue
            where = f"{self.name} cell {number} ({cell['id']})"
            if cell["execution_count"] is None:
                found.append(f"{where}: did not run")
            for output in cell["outputs"]:
                if output["output_type"] == "error":
                    found.append(f"{where}: {output['ename']}: {output['evalue']}")
                if output.get("name") == "stderr":
                    found.append(f"{where}: stderr: {''.join(output['text'])[:300]}")
        return found

    def show_cell(self, words: str) -> int:
        """Scroll to the first code cell whose source has ``words``; returns its number. Raises NotebookError."""
        for number, cell in enumerate(self.cells()):
            if cell["cell_type"] == "code" and words in "".join(cell["source"]):
                self.page.evaluate(_SCROLL, number)
                return number
        raise NotebookError(f"{self.name}: expected a code cell with {words!r}, got none")

    def ask(self, code: str) -> Any:
        """What the kernel prints as JSON when it runs ``code``, after all that was sent to it before.

        Raises NotebookError when it fails.
        """
        answer = self.page.evaluate(_ASK, code)
        if answer["status"] != "ok":
            raise NotebookError(f"{self.name}: expected an answer to {code!r}, got {answer['said']}")
        return json.loads(answer["said"])

    def theme(self, name: str) -> None:
        """Switch JupyterLab's theme and wait until the page has it."""
        self.page.evaluate("(name) => window.jupyterapp.commands.execute('apputils:change-theme', {theme: name})", name)  # fmt: skip
        self.page.wait_for_function("(name) => document.body.dataset.jpThemeName === name", arg=name)
        # Colours fade in; what is measured now would be a mixture.
        self.page.wait_for_timeout(500)

    def close(self) -> None:
        """Shut the kernel down and leave the page."""
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.shutdown()")
        self.page.goto("about:blank")
