"""The notebook tools on small made-up notebooks: what is dropped, what is found, what a failure names."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat import v4

from tq_core.nbtools.__main__ import main
from tq_core.nbtools.lint import SETUP, problems
from tq_core.nbtools.normalise import LIVE, MACHINE_TEXT, WIDGET_VIEW, normal_text, normalise
from tq_core.paths import ROOT

HEAD = "# Title\n\n> Subtitle\n\n**You will be able to decide** x\n\n## Summary\n\n## What this does not show"


def notebook(*cells: Any) -> nbformat.NotebookNode:
    return v4.new_notebook(cells=[v4.new_markdown_cell(HEAD), v4.new_code_cell(SETUP), *cells])


def with_outputs(*outputs: Any, tags: tuple[str, ...] = ()) -> Any:
    cell = v4.new_code_cell("1 + 1", outputs=list(outputs))
    cell.metadata["tags"] = list(tags)
    return cell


def stream(text: str, name: str = "stdout") -> Any:
    return v4.new_output("stream", text=text, name=name)


def picture(**more: Any) -> Any:
    data = {"image/png": "AAAA", "text/plain": "a picture", **more}
    return v4.new_output(
        "display_data", data=data, metadata={"image/png": {"alt": "a picture", "width": 3}, LIVE: True}
    )


def test_live_parts_go_and_the_static_picture_stays() -> None:
    made = notebook(with_outputs(picture(**{"text/html": "<svg/>", WIDGET_VIEW: {"model_id": "1"}})))
    made.metadata["widgets"] = {"state": {}}
    (output,) = normalise(made).cells[2].outputs
    assert output.data == {"image/png": "AAAA", "text/plain": "a picture"}
    assert output.metadata == {"image/png": {"alt": "a picture"}}
    assert "widgets" not in made.metadata


def test_a_bare_widget_leaves_nothing() -> None:
    data = {WIDGET_VIEW: {"model_id": "1"}, "text/plain": "VBox(...)"}
    assert normalise(notebook(with_outputs(v4.new_output("display_data", data=data)))).cells[2].outputs == []


def test_machine_cells_lose_their_figures() -> None:
    (output,) = normalise(notebook(with_outputs(stream("12 ms"), tags=("machine",)))).cells[2].outputs
    assert output.text == MACHINE_TEXT


def test_counts_ids_and_metadata_are_stable() -> None:
    made = notebook(v4.new_code_cell("a = 1"), v4.new_code_cell("a = 1"))
    for cell in made.cells:
        cell.id = "same"
        cell.metadata["execution"] = {"iopub.status.busy": "2026-01-01"}
    made.cells[2].execution_count = 17
    once = normal_text(json.dumps(made))
    again = normal_text(once)
    assert once == again
    assert once.endswith("}\n")
    read = nbformat.reads(once, as_version=4)
    assert [c.execution_count for c in read.cells if c.cell_type == "code"] == [1, 2, 3]
    assert len({c.id for c in read.cells}) == len(read.cells)
    assert "2026" not in once


def test_consecutive_streams_are_one() -> None:
    (output,) = normalise(notebook(with_outputs(stream("a\n"), stream("b\n")))).cells[2].outputs
    assert output.text == "a\nb\n"


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        (v4.new_code_cell("\n".join(["x = 1"] * 13)), "13 lines of code"),
        (v4.new_code_cell(" "), "the cell is empty"),
        (with_outputs(stream("careful", "stderr")), "wrote to stderr"),
        (with_outputs(stream("x" * 200_000)), "at most 150000"),
        (with_outputs(stream("in /home/someone/x.py")), "an absolute path"),
        (with_outputs(stream(f"in {ROOT}")), "the path of this source tree"),
        (with_outputs(stream("<f at 0x7f1234567890>")), "a memory address"),
        (with_outputs(v4.new_output("error", ename="ValueError", evalue="", traceback=[])), "is an error"),
    ],
)
def test_lint_finds(cell: Any, message: str) -> None:
    (problem,) = problems(notebook(cell))
    assert problem.startswith("cell 3: ")
    assert message in problem


@pytest.mark.parametrize(
    ("text", "figure"),
    [
        ("ready after 3.5 s", "3.5 s"),
        ("12ms a call", "12ms"),
        ("1,200 tok/s", "1,200 tok/s"),
        ("<td>40</td> of 2.5 µs", "2.5 µs"),
        ("it reads 31.2 GB/s", "31.2 GB/s"),
        ("in the 1980s, 8 slots, head 3 shares, 4 MiB, 5 steps", ""),
    ],
)
def test_lint_finds_times_and_speeds_that_no_source_states(text: str, figure: str) -> None:
    cell = with_outputs(v4.new_output("display_data", data={"text/html": text}))
    found = problems(notebook(cell))
    assert [repr(figure) in problem for problem in found] == ([True] if figure else [])
    if figure:
        assert problems(notebook(with_outputs(stream(text), tags=("machine",)))) == []
        cell.source = f"limit = '{figure}'"  # a fact that the notebook quotes
        assert problems(notebook(cell)) == []


def test_lint_wants_title_setup_and_limits() -> None:
    found = "\n".join(problems(v4.new_notebook(cells=[v4.new_markdown_cell("text"), v4.new_code_cell("1")])))
    for words in (
        "a title",
        "the first code cell",
        "You will be able to decide",
        "## What this does not show",
    ):
        assert words in found
    assert problems(notebook()) == []


def write(folder: Path, name: str, *sources: str) -> Path:
    path = folder / name
    nbformat.write(notebook(*[v4.new_code_cell(s) for s in sources]), path)
    return path


def test_check_changes_nothing_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, "a.ipynb", "1")
    before = path.read_bytes()
    assert main(["normalise", "--check", str(tmp_path)]) == 1
    assert path.read_bytes() == before
    assert "not in its committed form" in capsys.readouterr().out
    assert main(["normalise", str(tmp_path)]) == 0
    assert main(["normalise", "--check", str(tmp_path)]) == 0


def test_a_file_that_is_no_notebook_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.ipynb").write_text("{")
    (tmp_path / "b.ipynb").write_text("{}")
    assert main(["normalise", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "a.ipynb: notebook: expected JSON of format 4" in said
    assert "b.ipynb: notebook: expected JSON of format 4" in said
    assert (tmp_path / "a.ipynb").read_text() == "{"


def test_bad_input_is_exit_2(tmp_path: Path) -> None:
    for paths in ([str(tmp_path / "missing")], [str(tmp_path)]):
        with pytest.raises(SystemExit) as stop:
            main(["execute", *paths])
        assert stop.value.code == 2


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_stopping_ends_the_kernel_and_starts_no_other(tmp_path: Path, how: signal.Signals) -> None:
    write(
        tmp_path,
        "a.ipynb",
        "import os; open('pid', 'w').write(str(os.getpid()))\nimport time; time.sleep(60)",
    )
    write(tmp_path, "b.ipynb", "open('second', 'w')")
    command = [sys.executable, "-m", "tq_core.nbtools", "execute", str(tmp_path)]
    run = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (pid := tmp_path / "pid").exists() or not pid.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    run.send_signal(how)
    said, _ = run.communicate(timeout=30)
    assert run.returncode == 130, said
    assert "stopped" in said
    assert not (tmp_path / "second").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@pytest.mark.slow
def test_execute_names_the_cell_that_failed_and_goes_on(tmp_path: Path) -> None:
    write(tmp_path, "a.ipynb", "x = 1", "raise ValueError('planted')")
    write(tmp_path, "b.ipynb", "import os", "os._exit(3)")
    write(tmp_path, "c.ipynb", "while True: pass")
    good = write(
        tmp_path,
        "d.ipynb",
        f"import os, sys, tq_core; print(sys.executable == {sys.executable!r}, os.getpid())",
    )
    command = [
        sys.executable,
        "-m",
        "tq_core.nbtools",
        "execute",
        str(tmp_path),
        "--out",
        str(tmp_path / "out"),
    ]
    done = subprocess.run([*command, "--write", "--timeout", "15"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "a.ipynb: cell 4, \"raise ValueError('planted')\": ValueError: planted" in done.stdout
    assert "b.ipynb: cell 4, 'os._exit(3)': the kernel died" in done.stdout
    assert "c.ipynb: cell 3, 'while True: pass': no answer within 15 s" in done.stdout
    assert "1 of 4 notebooks ran top to bottom" in done.stdout
    (text,) = json.loads(good.read_text())["cells"][2]["outputs"][0]["text"]
    same, kernel = text.split()
    assert same == "True", "the kernel is of this interpreter"
    with pytest.raises(ProcessLookupError):  # the kernel ended with its notebook
        os.kill(int(kernel), 0)
    assert (tmp_path / "out" / "a.ipynb").exists()
    assert json.loads((tmp_path / "a.ipynb").read_text())["cells"][3]["outputs"] == []
