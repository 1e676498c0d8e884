"""llama.cpp: ggml's flash attention with three kinds of cache, and its route without it, head by head in memory.

The driver and ggml itself are built by ``python -m validation.bench.peers.install``; see ggml/driver.c.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from validation.bench.peers.data import Prepared, Work
from validation.bench.peers.install import DRIVER, ggml_version

# name -> (flash, type of keys, type of values)
ROUTES = {
    "llama.cpp-fa-f16": (1, "f16", "f16"),
    "llama.cpp-fa-q8_0": (1, "q8_0", "q8_0"),
    "llama.cpp-fa-q4_0": (1, "q4_0", "q4_0"),
    "llama.cpp-plain-f16": (0, "f16", "f16"),
    "llama.cpp-plain-q4_0-f16": (0, "q4_0", "f16"),
}
CONTESTANTS = [[name, "decode step"] for name in ROUTES]
_library: Any = None


def versions() -> dict[str, Any]:
    """ggml's version as its build wrote it down."""
    _load()
    return {"ggml": ggml_version()}


def _load() -> Any:
    global _library
    if _library is None:
        library = ctypes.CDLL(str(DRIVER))
        floats, i64 = ctypes.POINTER(ctypes.c_float), ctypes.c_int64
        library.tqb_make.restype = ctypes.c_void_p
        library.tqb_make.argtypes = [
            *[ctypes.c_int] * 3,
            *[i64] * 4,
            ctypes.c_int,
            ctypes.c_float,
            *[floats] * 3,
            ctypes.c_void_p,
        ]
        library.tqb_run.argtypes = library.tqb_out.argtypes = [ctypes.c_void_p]
        library.tqb_stored_bytes.argtypes = library.tqb_free.argtypes = [ctypes.c_void_p]
        library.tqb_out.restype, library.tqb_stored_bytes.restype = floats, ctypes.c_size_t
        library.tqb_type.argtypes = [ctypes.c_char_p]
        _library = library
    return _library


class _Steps:
    """The layers' graphs; freed when the server drops them."""

    def __init__(self, name: str, work: Work) -> None:
        library, (flash, *types) = _load(), ROUTES[name]
        values = work.values if flash else np.ascontiguousarray(work.values.swapaxes(1, 2))
        arrays = [np.ascontiguousarray(a) for a in (work.queries, work.keys, values)]
        pointers = [a.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for a in arrays]
        codes = [library.tqb_type(t.encode()) for t in types]
        sizes = (work.head_dim, work.n_query_heads, work.n_kv_heads, work.tokens, work.threads)

        def make(like: int | None = None) -> int:
            made = library.tqb_make(flash, *codes, *sizes, work.scale, *pointers, like)
            if not made:
                raise MemoryError(f"{name}: ggml could not make a graph of {work.tokens} tokens")
            return made

        self.handles = [make()]
        self.stored = library.tqb_stored_bytes(self.handles[0])
        self.handles += [make(self.handles[0]) for _ in range(work.layers(self.stored) - 1)]
        self._shape, self._last = (work.n_query_heads, work.head_dim), self.handles[0]

    def run(self, layer: int) -> None:
        self._last = self.handles[layer]
        if _library.tqb_run(self._last):
            raise RuntimeError("ggml_graph_compute failed")

    def output(self) -> np.ndarray:
        return np.ctypeslib.as_array(_library.tqb_out(self._last), self._shape).copy()

    def __del__(self) -> None:
        for handle in getattr(self, "handles", ()):
            _library.tqb_free(handle)


def prepare(name: str, work: Work) -> Prepared | str:
    """No mask, which favours ggml: it would be read besides."""
    steps = _Steps(name, work)
    return Prepared(steps.run, steps.stored, len(steps.handles), steps.output)
