"""pyproject.toml, the lock files and the two conda files say the same thing.

A conda solve needs conda's channels; this test stands in for it as far as names and
bounds go.
"""

import ast
import importlib.metadata
import sys
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.10", "3.11", "3.12", "3.13")

# conda-forge's name -> PyPI's name, where they differ.
PYPI_NAME = {
    "matplotlib-base": "matplotlib",
    "wasmtime-py": "wasmtime",
    "python-wasmer": "wasmer",
    "python-wasmer-compiler-cranelift": "wasmer-compiler-cranelift",
}
# Module name -> distribution name, where they differ.
DISTRIBUTION = {"yaml": "pyyaml", "pil": "pillow", "PIL": "pillow"}
# What conda must bring and pip expects from the system.
SYSTEM_PACKAGES = {"python", "pip", "git", "make", "cxx-compiler"}
# 1.2 was released on conda-forge only, 1.1.0 is the last one on PyPI.
OTHER_BOUNDS = {"wasmer": SpecifierSet("==1.2"), "wasmer-compiler-cranelift": SpecifierSet("==1.2")}


def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def declared() -> list[Requirement]:
    """Every requirement of the project, all extras included."""
    extras = project()["optional-dependencies"]
    lines = list(project()["dependencies"])
    for name, more in extras.items():
        lines += more if name != "all" else []
    return [Requirement(line) for line in lines]


def applies(requirement: Requirement, version: str, machine: str = "x86_64") -> bool:
    environment = {
        "python_version": version,
        "python_full_version": version + ".9",
        "platform_machine": machine,
    }
    return requirement.marker is None or requirement.marker.evaluate(environment)


def conda_lines(name: str) -> tuple[list[str], list[str]]:
    """(conda's lines, pip's lines) of an environment file."""
    entries = yaml.safe_load((ROOT / name).read_text())["dependencies"]
    pip = [line for entry in entries if isinstance(entry, dict) for line in entry["pip"]]
    return [entry for entry in entries if isinstance(entry, str)], pip


def conda_bounds(name: str) -> dict[str, SpecifierSet]:
    """PyPI name -> bounds, system packages left out."""
    conda, pip = conda_lines(name)
    bounds = {}
    for line in conda:
        package = line.split("=")[0].rstrip("<>")
        if package in SYSTEM_PACKAGES:
            continue
        bound = line[len(package) :]
        # conda's "=3.5.0" is pip's "==3.5.0".
        bound = "=" + bound if bound.startswith("=") else bound
        bounds[canonicalize_name(PYPI_NAME.get(package, package))] = SpecifierSet(bound)
    for requirement in (Requirement(line) for line in pip if not line.startswith("-e")):
        bounds[canonicalize_name(requirement.name)] = requirement.specifier
    return bounds


def pins(version: str) -> dict[str, str]:
    """name -> pinned version for an interpreter, from its lock file."""
    name = {"3.13": "py312"}.get(version, "py" + version.replace(".", ""))
    lines = (ROOT / "requirements" / f"{name}.txt").read_text().splitlines()
    requirements = [Requirement(line) for line in lines if not line.startswith("#")]
    assert all(str(item.specifier).startswith("==") for item in requirements)
    return {
        canonicalize_name(item.name): str(item.specifier)[2:]
        for item in requirements
        if applies(item, version)
    }


def test_conda_has_every_dependency_with_the_same_bounds():
    bounds = conda_bounds("environment.yml")
    wanted = {
        canonicalize_name(item.name): OTHER_BOUNDS.get(canonicalize_name(item.name), item.specifier)
        # python-wasmer exists for conda's 3.11, where the PyPI package is a stub.
        for item in declared()
        if applies(item, "3.11") or canonicalize_name(item.name) in OTHER_BOUNDS
    }
    assert bounds == wanted


# What the benchmark compares with runs in an environment of its own, with requirements of its own.
PEERS = ROOT / "validation" / "bench" / "peers"


def test_every_import_is_declared():
    """A module that only another package brings along would vanish when that package stops needing it."""
    imported = set()
    for path in [
        path for package in ("tq_core", "validation", "wasm") for path in (ROOT / package).rglob("*.py")
    ]:
        if PEERS in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(node.module.split(".")[0])
    own = {"tq_core", "validation", "wasm"} | {path.stem for path in (ROOT / "scripts").glob("*.py")}
    foreign = {canonicalize_name(name) for name in imported - sys.stdlib_module_names - own}
    distributions = {canonicalize_name(DISTRIBUTION.get(name, name)) for name in foreign}
    assert distributions - {canonicalize_name(item.name) for item in declared()} == set()


def test_conda_python_is_supported_and_exact():
    conda, pip = conda_lines("environment.yml")
    # Binder recognises the version only in this form.
    assert "python=3.11" in conda
    assert "3.11" in SpecifierSet(project()["requires-python"])
    assert "-e ." in pip


def test_arm_file_differs_by_python_wasmer_only():
    conda, pip = conda_lines("environment.yml")
    arm_conda, arm_pip = conda_lines("environment-arm64.yml")
    assert arm_conda == [line for line in conda if not line.startswith("python-wasmer")]
    assert arm_pip == pip


@pytest.mark.parametrize("version", VERSIONS)
def test_lock_file_pins_every_requirement_within_its_bounds(version):
    assert version in SpecifierSet(project()["requires-python"])
    pinned = pins(version)
    for item in declared():
        if applies(item, version):
            assert pinned.get(canonicalize_name(item.name), "absent") in item.specifier, item


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "arm64"])
def test_wasmer_is_asked_for_only_where_it_is_real(version, machine):
    asked = {item.name for item in declared() if applies(item, version, machine)}
    real = version == "3.10" and machine == "x86_64"
    assert ("wasmer" in asked) == real
    assert ("wasmer_compiler_cranelift" in asked) == real
    if version != "3.10":
        assert "wasmer" not in pins(version)


def test_no_wasmer_stub_is_installed():
    if sys.version_info < (3, 11):
        pytest.skip("not exercised: on this interpreter the package is real")
    versions = [
        item.version for item in importlib.metadata.distributions() if item.metadata["Name"] == "wasmer"
    ]
    assert "1.1.0" not in versions, "this name and version is an empty stub here: pip uninstall wasmer"
