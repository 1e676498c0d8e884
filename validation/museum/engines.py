"""Kind H: the same source on another engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from tq_core.errors import KernelError
from tq_core.kernels.backend import NumpyBackend
from tq_core.kernels.cases import Case, cases
from tq_core.kernels.hosts.base import MAX_MEMORY_BYTES
from tq_core.kernels.wasm_memory import place
from tq_core.math import lanes
from validation.museum.exhibit import Exhibit, always
from validation.museum.stops import parity, refusal
from wasm.opcodes import OpcodeDenied, gate


class FusedBackend(NumpyBackend):
    """`linear` with one rounding for a product and its sum, as fused multiply-add has it."""

    name = "numpy, fused"

    def call(self, kernel: str, **arguments: Any) -> None:
        super().call(kernel, **arguments)
        if kernel != "linear" or not arguments["y"].size:
            return
        x, w, y = (arguments[name] for name in ("x", "w", "y"))
        pad = -x.shape[1] % lanes.LANES
        a, b = (np.pad(m, ((0, 0), (0, pad))).reshape(len(m), -1, lanes.LANES) for m in (x, w))
        total = np.zeros((len(x), len(w), lanes.LANES), np.float32)
        with np.errstate(over="ignore", invalid="ignore"):
            for block in range(a.shape[1]):
                product = a[:, None, block].astype(np.float64) * b[None, :, block].astype(np.float64)
                total = (product + total).astype(np.float32)
            y[:] = lanes.fold(total)


def linear_cases() -> list[Case]:
    """The parity cases of `linear`."""
    return [c for c in cases() if c.kernel == "linear"]


def module(opcode: bytes, operands: int) -> bytes:
    """A WebAssembly module with one function: ``operands`` zero vectors, one SIMD instruction, drop."""
    zero = b"\xfd\x0c" + bytes(16)
    body = b"\x00" + operands * zero + b"\xfd" + opcode + b"\x1a\x0b"

    def section(number: int, content: bytes) -> bytes:
        return bytes([number, len(content)]) + content

    types, functions = section(1, b"\x01\x60\x00\x00"), section(3, b"\x01\x00")
    return b"\0asm\x01\0\0\0" + types + functions + section(10, b"\x01" + bytes([len(body)]) + body)


def _gated(opcode: bytes, operands: int) -> Any:
    return lambda given: lambda: gate(module(opcode, operands), simd=True)


EXHIBITS = (
    Exhibit(
        "H1", "One rounding here, two there", "eshkol 668",
        "Native code fuses a product with its sum, WebAssembly cannot: the last bit differs.",
        "No fused multiply-add anywhere; numpy's bits on every engine.",
        lambda: None, always(NumpyBackend()), always(FusedBackend()), parity(linear_cases),
        note="The fused result is the more exact one. Equal bits are worth more here than the last bit.",
    ),
    Exhibit(
        "H2", "Relaxed SIMD in a module", "relaxed-simd 44, rust 133844",
        "A compiler flag lets f32x4.relaxed_madd into the module: each engine may round as it likes.",
        "Every instruction of a built module is read, and relaxed ones are refused.",
        lambda: None, _gated(b"\xe6\x01", 2), _gated(b"\x85\x02", 3), refusal(OpcodeDenied, "wasm.opcodes.gate"),
    ),
    Exhibit(
        "H4", "The wall at 4 GiB", "wllama 39",
        "A pool that would pass the end of a 32-bit address space.",
        "Refused with both sizes, before memory is asked for.",
        lambda: None, always(lambda: place([2**20, 2**30], 1024)), always(lambda: place([2**20, MAX_MEMORY_BYTES], 1024)),
        refusal(KernelError, "tq_core.kernels.wasm_memory.place"),
    ),
)  # fmt: skip
