"""python -m validation.bench.sliders [--moves 1000] [--only NAME] [--out sliders.json]

Needs Chromium. Opens a JupyterLab of its own, shows each panel in a notebook and moves its sliders by keyboard.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser

from tq_core.browser.lab import copy_checkout, running_lab
from tq_core.browser.moves import Move, Mover, counts
from tq_core.browser.notebook import Notebook
from tq_core.browser.page import chromium, open_page
from tq_core.paths import BUILD
from validation.bench import machine
from validation.bench.sliders.panels import LIMITS, PANELS, Measured

# Without it JupyterLab asks which kernel to take.
KERNEL = {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}
WARM = 50  # moves before the first count: caches fill, the page settles


def statistics(values: list[float]) -> dict[str, float]:
    """Median, 95th percentile and maximum in milliseconds."""
    return {
        "n": len(values),
        "median": round(float(np.median(values)), 2),
        "p95": round(float(np.percentile(values, 95)), 2),
        "max": round(max(values), 2),
    }


def summary(moves: list[Move]) -> dict[str, Any]:
    """Statistics over all moves, and of the picture over settings that were new and over those seen before."""
    parts = {
        "": moves,
        ", new settings": [m for m in moves if m.new],
        ", seen settings": [m for m in moves if not m.new],
    }
    found: dict[str, Any] = {"changed_nothing_shown": sum(m.picture is None for m in moves)}
    for name, part in parts.items():
        for what in ("readout", "picture"):
            took = [ms for m in part if (ms := getattr(m, what)) is not None]
            if took:
                found[f"key_to_{what}_ms{name}"] = statistics(took)
    return found


def measure(panel: Measured, browser: Browser, address: str, files: Path, moves: int) -> dict[str, Any]:
    """One panel: its cell in a notebook of its own, ``moves`` moves, counts before and after."""
    source = f"from tq_core.show import nb\nnb.setup()\n{panel.cell}\npanel = nb.panel(view)"
    cell: dict[str, Any] = {"cell_type": "code", "id": "panel", "metadata": {}, "source": source, "outputs": [], "execution_count": None}  # fmt: skip
    (files / "sliders.ipynb").write_text(
        json.dumps({"cells": [cell], "metadata": {"kernelspec": KERNEL}, "nbformat": 4, "nbformat_minor": 5})
    )
    page, record = open_page(browser)
    notebook = Notebook(page, address, "sliders.ipynb")
    notebook.run_all()
    if notebook.complaints():
        raise SystemExit(f"{panel.name}: {notebook.complaints()}")
    page.locator(".tq-panel .tq-picture svg").wait_for()
    mover = Mover(notebook, panel.sliders)
    warm = [mover.move() for _ in range(WARM)]
    before = counts(notebook)
    rest = [mover.move() for _ in range(moves)]
    after = counts(notebook)
    notebook.close()
    page.context.close()
    growth = {name: after[name] - before[name] for name in before}
    cpu = {name: round(1e3 * growth.pop(f"{name}_cpu_seconds") / moves, 2) for name in ("kernel", "page")}
    found = {"panel": panel.name, "kind": panel.kind, "goal_ms": LIMITS[panel.kind], "moves": moves}
    found |= {**summary(warm + rest), "before": before, "after": after, "growth": growth}
    return found | {"cpu_ms_per_move": cpu, "problems_in_the_page": record.problems}


def write(out: Path, result: dict[str, Any]) -> None:
    """Panel by panel: a run that is stopped leaves those that were done."""
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m validation.bench.sliders", description=__doc__)
    parser.add_argument("--moves", type=int, default=1000)
    parser.add_argument("--only", default="", help="panels whose name contains this")
    parser.add_argument("--out", type=Path, default=BUILD / "bench" / "sliders.json")
    options = parser.parse_args(arguments)
    panels = [panel for panel in PANELS if options.only in panel.name]
    if options.moves < 1:
        parser.error(f"--moves: expected 1 or more, got {options.moves}")
    if not panels:
        names = "; ".join(panel.name for panel in PANELS)
        parser.error(f"--only: expected part of a panel's name ({names}), got {options.only!r}")
    facts = machine.facts()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="tq-sliders-") as folder:
        home = Path(folder)
        files = copy_checkout(home / "files")
        with running_lab(files, home) as address, chromium() as browser:
            facts["versions"]["chromium"] = browser.version
            for panel in panels:
                row = measure(panel, browser, address, files, options.moves)
                rows.append(row)
                facts["host"]["load_after"] = machine.load()
                write(options.out, {"schema": {"name": "tq-sliders", "version": 1}, **facts, "rows": rows})
                took = row["key_to_picture_ms"]
                print(
                    f"{panel.name}: {took}, goal {row['goal_ms']:g} ms; CPU {row['cpu_ms_per_move']}; growth {row['growth']}",
                    flush=True,
                )
    print(f"written: {options.out}")


if __name__ == "__main__":
    main()
