"""The preflight names everything that is missing at once, and how to install it."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tq_core.browser import chromium

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "preflight.py"


@pytest.fixture(scope="module")
def preflight() -> ModuleType:
    spec = importlib.util.spec_from_file_location("preflight", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_old_interpreters_can_read_it():
    # Its most useful answer is "this Python is too old", so it must get as far as saying so.
    ast.parse(SCRIPT.read_text(), feature_version=(3, 7))


@pytest.mark.parametrize("version", [(3, 10), (3, 11), (3, 12), (3, 13)])
def test_supported_interpreters_pass(preflight, version):
    assert preflight.python_problems(version, "CPython", []) == []


@pytest.mark.parametrize("version, kind", [((3, 9), "CPython"), ((3, 14), "CPython"), ((3, 11), "PyPy")])
def test_other_interpreters_are_named_with_a_way_out(preflight, version, kind):
    (problem,) = preflight.python_problems(version, kind, ["python3.12"])
    assert f"{kind} {version[0]}.{version[1]}" in problem.what
    assert problem.remedy == "make setup PYTHON=python3.12"
    (without,) = preflight.python_problems(version, kind, [])
    assert "PYTHON=" in without.remedy


def test_interpreters_that_do_not_start_are_not_suggested(preflight, tmp_path):
    (tmp_path / ".pyenv" / "versions" / "3.12.1").mkdir(parents=True)
    pyenv = str(tmp_path / ".pyenv" / "versions" / "3.12.1" / "bin" / "python3.12")
    works = {pyenv, "python3.11"}
    assert preflight.other_interpreters(str(tmp_path), works.__contains__) == [pyenv, "python3.11"]
    assert preflight.runs(sys.executable)
    assert not preflight.runs(str(tmp_path / "python3.13"))


def test_every_missing_tool_is_named(preflight, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    problems = preflight.tool_problems(which=lambda name: None, system="linux")
    assert [problem.what for problem in problems] == ["git", "make", "g++"]
    assert preflight.tool_problems(which=lambda name: "/bin/" + name, system="linux") == []


def test_what_is_optional_is_told_and_is_no_problem(preflight):
    notes = preflight.optional_notes(lambda name: name == "apt-get" and "/usr/bin/apt-get", "x86_64")
    emulator, browser = notes
    assert emulator.startswith("optional: qemu-user") and emulator.endswith("; apt-get install qemu-user")
    assert browser.startswith("optional: Chromium") and browser.endswith("; apt-get install chromium")
    assert preflight.optional_notes(lambda name: None, "x86_64") == [note.split(";")[0] for note in notes]
    assert preflight.optional_notes(lambda name: "/bin/" + name, "x86_64") == []
    assert preflight.optional_notes(lambda name: None, "aarch64") == [browser.split(";")[0]]
    assert preflight.optional_notes(lambda name: name == "google-chrome", "aarch64") == []
    tools = str(preflight.tool_problems(which=lambda name: None, system="linux"))
    assert "qemu" not in tools and "Chromium" not in tools


def test_preflight_and_tests_look_for_the_same_browsers(preflight):
    assert preflight.BROWSERS == chromium.NAMES
    assert all(name in (ROOT / ".ci" / "run").read_text() for name in chromium.NAMES)


def test_headers_venv_disk_and_machine(preflight, tmp_path):
    assert preflight.header_problems(str(tmp_path))
    (tmp_path / "Python.h").touch()
    assert not preflight.header_problems(str(tmp_path))
    assert preflight.venv_problems(lambda name: name != "ensurepip")
    assert not preflight.venv_problems(lambda name: True)
    (full,) = preflight.disk_problems(int(2e8), "/somewhere")
    assert "3 GB" in full.what and "0.2 GB are free" in full.what
    assert not preflight.disk_problems(int(4e9), "/somewhere")
    assert not preflight.machine_problems("x86_64", 64, "glibc", "linux")
    assert not preflight.machine_problems("arm64", 64, "", "darwin")
    assert len(preflight.machine_problems("riscv64", 64, "", "linux")) == 2
    assert len(preflight.machine_problems("x86_64", 32, "glibc", "linux")) == 1


@pytest.mark.parametrize(
    "manager, root, expected",
    [
        ("apt-get", True, "apt-get update && apt-get install -y g++ python3.11-dev"),
        ("apt-get", False, "sudo apt-get update && sudo apt-get install -y g++ python3.11-dev"),
        ("dnf", False, "sudo dnf install -y gcc-c++ python3-devel"),
        ("brew", False, "brew install gcc python@3.11"),
    ],
)
def test_one_command_installs_everything(preflight, manager, root, expected):
    problems = [preflight.Problem("g++", "why", "c++"), preflight.Problem("Python.h", "why", "headers")]
    assert preflight.install_command(problems, manager, "3.11", root) == expected


def test_every_manager_knows_every_part(preflight):
    parts = {"git", "make", "c++", "headers", "venv"}
    assert all(set(packages) == parts for packages in preflight.PACKAGES.values())
    assert set(preflight.PACKAGES) == set(preflight.INSTALL)


def test_a_bare_machine_gets_the_whole_list_and_a_failure(tmp_path):
    # Only a package manager is on the PATH: all three tools are missing.
    manager = tmp_path / "apt-get"
    manager.write_text("#!/bin/sh\n")
    manager.chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "CXX"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--venv", str(tmp_path / ".venv")],
        env={**environment, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    for what in ("- git:", "- make:", "apt-get install -y git make g++"):
        assert what in done.stderr
    assert list(tmp_path.iterdir()) == [manager]
