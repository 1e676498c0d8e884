"""The set-up does nothing twice, notices what was interrupted, and deletes only environments."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
HERE = sys.version_info[:2]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def setup(monkeypatch) -> ModuleType:
    monkeypatch.setitem(sys.modules, "stream", load("stream"))
    return load("setup")


@pytest.fixture
def venv(tmp_path) -> Path:
    folder = tmp_path / ".venv"
    folder.mkdir()
    (folder / "pyvenv.cfg").touch()
    return folder


def stamp(setup, venv, **changes):
    text = setup.json.dumps({**setup.recipe(venv, HERE, "all"), **changes})
    (venv / setup.STAMP).write_text(text)


def header(text):
    raise AssertionError(f"a phase ran: {text}")


@pytest.mark.parametrize("version", [(3, 10), (3, 11), (3, 12), (3, 13)])
def test_every_interpreter_has_a_lock_file(setup, version):
    expected = "py312.txt" if version == (3, 13) else "py{}{}.txt".format(*version)
    assert setup.lock_file(version).name == expected


def test_a_current_environment_is_left_alone(setup, venv, monkeypatch):
    monkeypatch.setattr(setup, "working_version", lambda venv: HERE)
    stamp(setup, venv)
    assert setup.make_environment(venv, "all", False, header) is False


@pytest.mark.parametrize("change", [{"digest": "0"}, {"extras": "lab"}, {"python": "3.9"}])
def test_any_change_of_the_recipe_installs_again(setup, venv, monkeypatch, change):
    monkeypatch.setattr(setup, "working_version", lambda venv: HERE)
    stamp(setup, venv, **change)
    with pytest.raises(AssertionError, match="a phase ran"):
        setup.make_environment(venv, "all", False, header)


def test_what_cannot_be_kept(setup, venv):
    assert setup.reason_to_rebuild(venv, HERE, True) is None
    assert "does not run" in setup.reason_to_rebuild(venv, None, False)
    assert "it has CPython 3.1" in setup.reason_to_rebuild(venv, (3, 1), True)
    assert setup.reason_to_rebuild(venv, (3, 1), False) is None
    stamp(setup, venv, folder="/elsewhere")
    assert "another folder" in setup.reason_to_rebuild(venv, HERE, False)
    (venv / setup.MARK).touch()
    assert "interrupted" in setup.reason_to_rebuild(venv, HERE, False)


def test_only_environments_are_deleted(setup, venv, tmp_path):
    setup.remove(venv)
    assert list(tmp_path.iterdir()) == []
    precious = tmp_path / "data"
    precious.mkdir()
    (precious / "file").touch()
    with pytest.raises(SystemExit, match="no Python environment"):
        setup.remove(precious)
    assert (precious / "file").exists()


def test_a_failing_step_ends_the_run_with_its_output(tmp_path, capsys):
    command = [sys.executable, "-c", "print('the reason'); raise SystemExit(7)"]
    with pytest.raises(SystemExit) as stopped:
        load("stream").run(command, tmp_path / "log", cwd=tmp_path)
    assert stopped.value.code == 1
    assert "the reason" in capsys.readouterr().err
    assert "the reason" in (tmp_path / "log").read_text()


def test_pip_progress_is_short(setup, tmp_path):
    lock = tmp_path / "lock.txt"
    lock.write_text("# comment\na==1\nb==2\n")
    progress = setup.PipProgress(lock)
    shown = [progress("Collecting x") for _ in range(20)]
    assert [line for line in shown if line] == [f"{n} of about 2 packages found" for n in (10, 20)]
    assert progress("Installing collected packages: a, b, c") == "installing 3 packages"
    assert progress("  Downloading x") is None
