"""The study as a form in a notebook: choose, run, read the verdict, export, compare with an earlier report."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

import ipywidgets as widgets

from tq_core.errors import TqError
from tq_core.model.interface import LanguageModel
from tq_core.model.zoo import load_model, model_names
from tq_core.paths import BUILD
from tq_core.show import html
from tq_core.show.choice import Choice
from validation import report, runner
from validation.diff.compare import compare
from validation.diff.load import load
from validation.diff.text import as_text
from validation.findings import Findings
from validation.plan import make_plan
from validation.schema import Record
from validation.study_file import find_study, shipped
from validation.tables_workloads import samples

MARKS = {"pass": "✔ pass", "fail": "✘ fail", "incomplete": "◐ incomplete", "not exercised": "○ not exercised"}
_WIDE = {"description_width": "8em"}


class Stopped(BaseException):
    """The run was stopped by its button. Not an Exception: nothing on the way may take it for a failure."""


class StudyForm:
    """``widget`` is the form. ``run``, ``export`` and ``compare`` are what its buttons do; ``record`` is the last run's.

    ``prompts`` and ``parity`` ("off", "quick", "full") take the place of the study's, which makes a run exploratory.

    A run goes on in a thread, so that the page stays alive and the stop button works; what was read is kept, and the next
    run goes on from there.
    """

    def __init__(
        self, model: str = "tiny", study: str = "tiny-episodes", arm: str = "structured-turbo", prompts: int | None = None,
        parity: str | None = None, out: Path = BUILD / "report-notebook",
    ) -> None:  # fmt: skip
        self.out, self.parity = out, parity
        self.record: Record | None = None
        self.found: Findings | None = None
        self._model: LanguageModel | None = None
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self.model = _menu("Model", model_names(), model)
        self.study = _menu("Study", sorted(shipped()), study)
        self.arm = _menu("Arm", find_study(study).arms, arm)
        self.amount = widgets.BoundedIntText(
            prompts or 0, min=0, max=1000, description="Prompts", style=_WIDE, tooltip="at most so many per workload; 0: as registered"
        )  # fmt: skip
        self.progress = widgets.IntProgress(0, 0, 1, description="Progress", style=_WIDE)
        self.status, self.verdict = widgets.HTML(html.status("Nothing was run yet.")), widgets.HTML()
        self.earlier = widgets.Text(
            "", description="Earlier report", style=_WIDE, placeholder="a folder, .json or .html"
        )
        self.buttons = {
            n: widgets.Button(description=n, disabled=n != "Run")
            for n in ("Run", "Stop", "Export", "Compare")
        }
        for name, action in (
            ("Run", self.start),
            ("Stop", self.stop),
            ("Export", self.export),
            ("Compare", self.compare),
        ):
            self.buttons[name].on_click(lambda _, act=action: act())
            self.buttons[name].add_class(f"tq-{name.lower()}")
        self.study.observe(self._study_changed, names="value")
        rows = [
            self.model,
            self.study,
            self.arm,
            self.amount,
            widgets.HBox([self.buttons["Run"], self.buttons["Stop"]]),
        ]
        rows += [
            self.progress,
            self.status,
            self.verdict,
            widgets.HBox([self.buttons["Export"], self.buttons["Compare"]]),
        ]
        self.widget = widgets.VBox([*rows, self.earlier])
        self.widget.add_class("tq-form")

    def _study_changed(self, _: Any) -> None:
        self.arm.offer(find_study(self.study.value).arms)

    def _say(self, text: str, alert: bool = False) -> None:
        self.status.value = html.status(text, alert)

    def start(self) -> None:
        """Run in a thread; a second call while one runs does nothing."""
        if self._thread is not None and self._thread.is_alive():
            return
        self._stop.clear()
        self._thread = threading.Thread(target=self.run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End the run after the reading in progress."""
        self._stop.set()
        self._say("Stopping after the reading in progress; what was read is kept.")

    def wait(self, seconds: float | None = None) -> None:
        """Until the thread has ended, for tests and for code that reads ``record`` next."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _progressed(self, what: str, done: int, total: int) -> None:
        if self._stop.is_set():
            raise Stopped
        self.progress.max, self.progress.value = max(total, 1), done
        self._say(f"{what}: {done} of {total}")

    def run(self) -> None:
        """Run the chosen study; the verdict, or what is wrong with the choice, appears in the form."""
        self.buttons["Run"].disabled, self.buttons["Stop"].disabled = True, False
        try:
            if self._stop.is_set():
                raise Stopped
            plan = make_plan(
                self.model.value,
                [self.arm.value],
                study=find_study(self.study.value),
                prompts=self.amount.value or None,
                parity=self.parity,
            )
            self._model = load_model(self.model.value)
            self.record, self.found = runner.examine(
                plan, self._model, self._progressed, _command(plan.model, plan.arm, plan.study.name)
            )
            self.progress.value = self.progress.max
            self._say(f"Done: {MARKS[self.record.status]}.")
            self.verdict.value = verdict_html(self.record)
            self.buttons["Export"].disabled = self.buttons["Compare"].disabled = False
        except TqError as error:
            self._say(str(error), alert=True)
        except Stopped:
            self._say("Stopped; run again to go on from there.")
        finally:
            self.buttons["Run"].disabled, self.buttons["Stop"].disabled = False, True

    def export(self) -> dict[str, Path]:
        """Write the report of the last run; its paths by kind, empty with the reason in the form when there is none."""
        if self.record is None or self.found is None or self._model is None:
            self._say("Run a study first.", alert=True)
            return {}
        try:
            paths = report.write(self.record, self.out, samples(self.found, self._model))
        except TqError as error:
            self._say(str(error), alert=True)
            return {}
        self._say(f"Written: {', '.join(sorted(p.name for p in paths.values()))} in {self.out.name}.")
        return paths

    def compare(self) -> str:
        """Hold the earlier report that is named in the form against the last run's; the answer appears in the form."""
        try:
            earlier = load(self.earlier.value)
            paths = self.export()
            said = as_text(compare(earlier, load(paths["json"]))) if paths else ""
        except TqError as error:
            self._say(str(error), alert=True)
            return ""
        if said:
            self.status.value = f'<pre role="status">{escape(said)}</pre>'
        return said


def _menu(label: str, options: Sequence[str], value: str) -> Choice:
    made = Choice(label, options, value)
    made.add_class(f"tq-{label.lower()}")
    return made


def _command(model: str, arm: str, study: str) -> str:
    return f"tq validate --model {model} --arm {arm} --study {study}"


def verdict_html(record: Record) -> str:
    """The verdict in words and the gates as a table."""
    total = count_of(record)
    words = "".join(html.paragraph(line) for line in record.verdict)
    rows = [[g["name"], MARKS[g["status"]], g["claim"]] for g in record.gates]
    return words + html.table(["gate", "verdict", "claim"], rows, total)


def count_of(record: Record) -> str:
    """How many gates there were and how they ended."""
    g = record.summary["gates"]
    return f"{g['total']} gates: {g['pass']} passed, {g['fail']} failed, {g['not_exercised']} not exercised"
