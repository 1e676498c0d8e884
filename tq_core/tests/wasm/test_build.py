"""The build: reproducible, cached, atomic, and honest about being out of date."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import pytest

from tq_core.kernels.table import Kernel
from tq_core.tests.wasm.toytable import TOY_KERNELS, toy_recipe
from wasm.build import MANIFEST, WasmBuildError, build, is_current, main
from wasm.exports import command_table_source, exports_source
from wasm.opcodes import OpcodeDenied
from wasm.recipe import ROOT

pytestmark = pytest.mark.kernels
FILES = ("tq_scalar.wasm", "tq_scalar_command.wasm", "tq_simd128.wasm", "tq_simd128_command.wasm")


def contents(folder: Path) -> dict[str, bytes]:
    return {name: (folder / name).read_bytes() for name in (*FILES, MANIFEST)}


@pytest.fixture
def copied(toy_modules: Path, tmp_path: Path) -> Path:
    """The toy build in a folder of its own, compiler cache left behind."""
    for name in (*FILES, MANIFEST):
        shutil.copy(toy_modules / name, tmp_path)
    return tmp_path


def test_two_builds_have_the_same_bytes(toy_modules: Path, tmp_path: Path) -> None:
    build(toy_recipe(tmp_path))
    assert contents(tmp_path) == contents(toy_modules)


def test_modules_name_no_folder_of_this_machine(toy_modules: Path) -> None:
    for name in FILES:
        data = (toy_modules / name).read_bytes()
        assert str(ROOT).encode() not in data
        assert str(toy_modules).encode() not in data


def test_nothing_is_built_twice(copied: Path) -> None:
    assert build(toy_recipe(copied)) is False
    assert not (copied / "zig-cache").exists()


@pytest.mark.parametrize("damage", [lambda p: p.write_bytes(p.read_bytes()[:-1]), Path.unlink])
def test_a_damaged_module_is_built_again(copied: Path, damage: object) -> None:
    before = contents(copied)
    damage(copied / FILES[2])  # type: ignore[operator]
    assert not is_current(toy_recipe(copied))
    assert build(toy_recipe(copied))
    assert contents(copied) == before


def test_an_unreadable_manifest_means_out_of_date(copied: Path) -> None:
    (copied / MANIFEST).write_text("[")
    assert not is_current(toy_recipe(copied))


def test_a_changed_source_or_signature_means_out_of_date(
    copied: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    recipe = toy_recipe(copied)
    changed = tmp_path_factory.mktemp("sources")
    shutil.copytree(recipe.include, changed, dirs_exist_ok=True)
    assert is_current(dataclasses.replace(recipe, include=changed))
    with (changed / recipe.header).open("a") as header:
        header.write("// changed\n")
    assert not is_current(dataclasses.replace(recipe, include=changed))
    fewer = {name: k for name, k in TOY_KERNELS.items() if name != "trap"}
    assert not is_current(dataclasses.replace(recipe, kernels=fewer))


def test_a_failed_build_leaves_the_installed_modules(copied: Path) -> None:
    before = contents(copied)
    unknown = Kernel("absent", TOY_KERNELS["spin"].args, ("n",), (), "exact_bytes")
    broken = dataclasses.replace(toy_recipe(copied), kernels={**TOY_KERNELS, "absent": unknown})
    with pytest.raises(WasmBuildError, match="absent"):
        build(broken)
    assert contents(copied) == before
    assert not list(copied.glob("building-*"))


def test_a_denied_instruction_fails_the_build(copied: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    before = contents(copied)
    include = tmp_path_factory.mktemp("planted")
    (include / "toy").mkdir()
    (include / "toy" / "toy.h").write_text(
        "#include <stdint.h>\n"
        "#ifdef __wasm_simd128__\n#include <wasm_simd128.h>\n"
        "namespace tq { namespace wasm128 { inline void spin(uint8_t* y, uint32_t n) {\n"
        "  wasm_v128_store(y, wasm_i8x16_popcnt(wasm_v128_load(y + n))); } } }\n#endif\n"
        "namespace tq { namespace scalar { inline void spin(uint8_t* y, uint32_t n) { *y = uint8_t(n); } } }\n"
    )
    planted = dataclasses.replace(toy_recipe(copied), kernels={"spin": TOY_KERNELS["spin"]}, include=include)
    with pytest.raises(OpcodeDenied, match=r"tq_simd128.wasm: function \d+ \(spin\) contains i8x16.popcnt"):
        build(planted)
    assert contents(copied) == before


def test_sources_follow_the_table() -> None:
    exports = exports_source(TOY_KERNELS, "tq::scalar", "toy/toy.h")
    table = command_table_source(TOY_KERNELS)
    for name, kernel in TOY_KERNELS.items():
        parameters = ", ".join(f"{t} {n}" for t, n in kernel.c_parameters())
        assert f'export_name("{name}"))) void tq_export_{name}({parameters})' in exports
        assert f"void tq_export_{name}({parameters});" in table


def test_command_line_says_what_it_did(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("wasm.build.ROOT", tmp_path)
    monkeypatch.setattr("wasm.build.Recipe", lambda: toy_recipe(tmp_path / "build"))
    assert main(["--check"]) == 1
    assert "out of date; run `make wasm`" in capsys.readouterr().out
    assert main([]) == 0
    assert "gate passed" in capsys.readouterr().out
    assert main([]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert main(["--check"]) == 0
    assert json.loads((tmp_path / "build" / MANIFEST).read_text())["modules"].keys() == set(FILES)
