"""The deny-list against the oldest engine itself: what the gate lets through runs there, and runs right.

Every SIMD instruction that is not denied is put into a function of its own, run on wasmer and on
wasmtime, and the memories are compared: the result, and the operands as they are afterwards. The
operand types are not in the gate's table; they are found by asking wasmtime, which validates
instructions, which of all short operand lists type-checks.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tq_core.kernels.hosts import host_statuses
from tq_core.tests.wasm.test_opcodes import OPERANDS, SPECIAL
from wasm import opcode_table as table

wasmtime = pytest.importorskip("wasmtime", reason="not exercised: no validator (wasmtime)")
pytestmark = pytest.mark.kernels

TYPES = ("v128", "i32", "i64", "f32", "f64")
OPERAND_LISTS = [c for n in range(4) for c in itertools.product(TYPES, repeat=n) if n < 2 or "v128" in c]
ALLOWED = [(name, layout) for name, layout in table.SIMD.values() if name not in table.DENIED]
IMMEDIATES = {**OPERANDS, table.MEMARG: "", table.MEMARG_LANE: " 0", table.LANE: " 1"}
RESULT, AFTERWARDS = 256, 512


def body(code: str, operands: tuple[str, ...], result: str | None) -> str:
    """A function that runs ``code`` on operands from memory, then stores its result and the operands."""
    count = range(len(operands))
    locals_ = " ".join(f"(local ${i} {operands[i]})" for i in count)
    # An i32 operand is an address, a lane value or a shift count: 70 is none of the special cases.
    loads = [
        f"(local.set ${i} {'(i32.const 70)' if operands[i] == 'i32' else f'({operands[i]}.load (i32.const {16 * i}))'})"
        for i in count
    ]
    run = " ".join(f"local.get ${i}" for i in count) + " " + code
    if result:
        run = f"i32.const {RESULT} {run} {result}.store"
    stores = [f"({operands[i]}.store (i32.const {AFTERWARDS + 16 * i}) (local.get ${i}))" for i in count]
    return f'(module (memory (export "memory") 1) (func (export "f") {locals_} {" ".join(loads)} {run} {" ".join(stores)}))'


def typed_module(engine, name: str, layout: int) -> bytes:
    """The one module for this instruction that type-checks."""
    code = SPECIAL.get(name, name + IMMEDIATES.get(layout, ""))
    for operands, result in itertools.product(OPERAND_LISTS, (*TYPES, None)):
        data = bytes(wasmtime.wat2wasm(body(code, operands, result)))
        try:
            wasmtime.Module.validate(engine, data)
        except wasmtime.WasmtimeError:
            continue
        return data
    raise AssertionError(f"{name}: no operand list type-checks")


def inputs() -> np.ndarray:
    """Finite floats whose bytes are also good integers and, in the second vector, small indices."""
    memory = np.random.default_rng(11).uniform(0.5, 99.0, 32).astype(np.float32).view(np.uint8)
    memory[16:32] &= 0x4F
    return memory


def run_wasmtime(engine, data: bytes) -> np.ndarray:
    store = wasmtime.Store(engine)
    exports = wasmtime.Instance(store, wasmtime.Module(engine, data), []).exports(store)
    exports["memory"].write(store, inputs().tobytes())
    exports["f"](store)
    return np.frombuffer(exports["memory"].read(store, 0, 1024), np.uint8)


def run_wasmer(wasmer, store, data: bytes) -> np.ndarray:
    exports = wasmer.Instance(wasmer.Module(store, data)).exports
    memory = np.frombuffer(exports.memory.buffer, np.uint8)
    memory[: inputs().size] = inputs()
    exports.f()
    return memory[:1024].copy()


def test_wasmer_runs_every_simd_instruction_that_the_gate_lets_through() -> None:
    status = next(s for s in host_statuses() if s.name == "wasmer")
    if not status.available:
        pytest.skip(f"not exercised: {status.reason}")
    import wasmer
    from wasmer_compiler_cranelift import Compiler

    store = wasmer.Store(wasmer.engine.Universal(Compiler))
    engine = wasmtime.Engine()
    refused, wrong, clobbered = {}, [], []
    for name, layout in ALLOWED:
        data = typed_module(engine, name, layout)
        expected = run_wasmtime(engine, data)
        try:
            got = run_wasmer(wasmer, store, data)
        except BaseException as error:  # a Rust panic is no Exception
            refused[name] = f"{type(error).__name__}: {error}"
            continue
        if not np.array_equal(got[:AFTERWARDS], expected[:AFTERWARDS]):
            wrong.append(name)
        if not np.array_equal(got[AFTERWARDS:], expected[AFTERWARDS:]):
            clobbered.append(name)
    assert refused == {}
    assert wrong == []
    # The one fault that is let through: the kernels use each index vector once, see swizzle_probe.py.
    assert clobbered == ["i8x16.swizzle"]
    assert len(ALLOWED) > 190
