"""Kernel calls in order over shared arrays: one description, run by numpy, by a native target or by a WebAssembly host.

The arguments are checked once. What is timed afterwards are the bare calls, about a microsecond of Python for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tq_core.codecs.turbo_step import LOG2_E
from tq_core.kernels.arguments import bind
from tq_core.kernels.backend import get_backend
from tq_core.kernels.cling import load_kernels
from tq_core.math.quantize import QUERY_MAX, SMALL_MAX
from tq_core.show.page_set import PageSet

F32 = npt.NDArray[np.float32]
Calls = tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True)
class Runner:
    """``run()`` does the work once and leaves its result in ``output``."""

    run: Callable[[], Any]
    output: F32


@dataclass(frozen=True)
class Work:
    """``resets`` are (array, what it holds before the first call); ``tables`` (layers, pages), of which every run takes the next."""

    calls: Calls
    output: F32
    resets: tuple[tuple[npt.NDArray[Any], npt.NDArray[Any]], ...]
    tables: npt.NDArray[np.uint32]

    def reset(self) -> None:
        for array, fresh in self.resets:
            np.copyto(array, fresh)

    def on_numpy(self) -> F32:
        """A copy of the result of the numpy twins over layer 0."""
        self.reset()
        for kernel, arguments in self.calls:
            get_backend("numpy").call(kernel, **arguments)
        return self.output.copy()

    def native(self, target: str) -> Runner:
        """Bare calls of one native target, the layers in turn. Raises as ``bind`` does."""
        return self.bare(getattr(load_kernels(), target))

    def bare(self, space: Any) -> Runner:
        """The same through the functions of ``space``, one for each kernel's name."""
        layers = [[self._bound(space, *call, table) for call in self.calls] for table in self.tables]
        position = 0

        def run() -> None:
            nonlocal position
            self.reset()
            for function, values in layers[position]:
                function(*values)
            position = (position + 1) % len(layers)

        return Runner(run, self.output)

    @staticmethod
    def _bound(
        space: Any, kernel: str, arguments: dict[str, Any], table: npt.NDArray[np.uint32]
    ) -> tuple[Any, tuple[Any, ...]]:
        bound = bind(kernel, {**arguments, "pages": table} if "pages" in arguments else arguments)
        arrays = [a if a.size else np.zeros(1, a.dtype) for a in bound.arrays]  # cppyy refuses empty ones
        return getattr(space, kernel), (*arrays, *bound.sizes, *bound.scalars)


def _turn(data: PageSet, side: str, x: F32, y: F32) -> tuple[str, dict[str, Any]]:
    rotation = data.rotations[side]
    where = {"x": x, "y": y, "signs": rotation.signs, "hadamard": rotation.hadamard}
    return "rotate", {**where, "inverse": int(side == "value"), "scale": float(rotation.unit)}


def _stored(data: PageSet, side: str) -> dict[str, Any]:
    centre = {"centre_query": np.zeros((len(data.queries), 0), np.float32)} if side == "key" else {}
    return {
        **centre,
        "widths": data.widths(side), "levels": data.books.levels, "book_scale": data.books.scale,
        "pages": data.tables[0], "layout": data.layout.words, "pool": data.pool,
        "n_kv_heads": data.shape.n_kv_heads, "n_tokens": data.tokens, "offset": 0,
    }  # fmt: skip


def _prepare(data: PageSet, scale: float, limit: float) -> tuple[Calls, dict[str, Any]]:
    """Rotation and quantization of the queries, and the kernel arguments that they make."""
    rotated, query = np.empty_like(data.queries), np.empty(data.queries.shape, np.int16)
    made = {"query": query, "step": np.empty(len(query), np.float32)}
    quantize = ("quantize_query", {"x": rotated, **made, "scale": scale, "limit": limit})
    return (_turn(data, "key", data.queries, rotated), quantize), made


def _zeroed(*arrays: F32) -> tuple[tuple[F32, F32], ...]:
    return tuple((a, np.zeros_like(a)) for a in arrays)


def query_work(data: PageSet) -> Work:
    """What precedes the scan: queries rotated and quantized to 16 bits."""
    calls, made = _prepare(data, data.scale, float(QUERY_MAX))
    return Work(calls, made["step"], (), data.tables)


def key_work(data: PageSet, exact: bool = True) -> Work:
    """All logits (n_query_heads, n_tokens): from integers, or by the float32 oracle."""
    scores = np.empty((len(data.queries), data.tokens), np.float32)
    stored = {**_stored(data, "key"), "scores": scores}
    if not exact:
        call = {**stored, "query": data.rotated_queries, "scale": data.scale}
        return Work((("score_keys_f32", call),), scores, (), data.tables)
    before = query_work(data)
    before.on_numpy()
    made = {name: before.calls[1][1][name] for name in ("query", "step")}
    return Work((("score_keys", {**stored, **made}),), scores, (), data.tables)


def value_work(data: PageSet, exact: bool = True) -> Work:
    """Sums (n_query_heads, head_dim) of the values under the page set's weights, in the rotated basis."""
    out = np.empty_like(data.queries)
    kernel = "sum_values" if exact else "sum_values_f32"
    return Work(
        ((kernel, {**_stored(data, "value"), "weights": data.weights, "out": out}),),
        out,
        _zeroed(out),
        data.tables,
    )


def softmax_work(data: PageSet) -> Work:
    """One softmax over all logits of every query head."""
    scores = np.empty(data.true_scores.shape, np.float32)
    fresh = data.true_scores.astype(np.float32)
    return Work(
        (("softmax", {"scores": scores, "n_tokens": data.tokens}),), scores, ((scores, fresh),), data.tables
    )


def output_work(data: PageSet) -> Work:
    """What follows the scan: the sums turned back, and the merging of softmax states (here of one)."""
    out, y = data.true_sums.astype(np.float32), np.empty_like(data.queries)
    return Work(
        _finish(data, np.zeros((1, len(y)), np.float32), np.ones((1, len(y)), np.float32), out, y),
        y,
        (),
        data.tables,
    )


def _finish(data: PageSet, peaks: F32, totals: F32, out: F32, y: F32) -> Calls:
    plain = np.empty((1, *out.shape), np.float32)
    return (
        _turn(data, "value", out, plain[0]),
        (
            "merge_states",
            {
                "peaks": peaks,
                "totals": totals,
                "outs": plain,
                "sink": np.zeros((0, len(y)), np.float32),
                "y": y,
            },
        ),
    )


def separate_step(data: PageSet, exact: bool = True) -> Work:
    """The decode step as separate kernels that keep all logits: scores, softmax, sums."""
    heads, out, y = len(data.queries), np.empty_like(data.queries), np.empty_like(data.queries)
    scores = np.empty((heads, data.tokens), np.float32)
    calls, query = _prepare(data, data.scale, float(QUERY_MAX))
    made: dict[str, Any] = query
    if not exact:
        calls, made = calls[:1], {"query": calls[0][1]["y"], "scale": data.scale}
    suffix = "" if exact else "_f32"
    middle: Calls = (
        ("score_keys" + suffix, {**_stored(data, "key"), **made, "scores": scores}),
        ("softmax", {"scores": scores, "n_tokens": data.tokens}),
        ("sum_values" + suffix, {**_stored(data, "value"), "weights": scores, "out": out}),
    )
    return Work((*calls, *middle, _turn(data, "value", out, y)), y, _zeroed(out), data.tables)


def fused_step(data: PageSet, fast: bool = False, n_tokens: int | None = None) -> Work:
    """The decode step that is really used: one pass over the pages; ``fast`` takes 8-bit queries and weights."""
    heads, y = len(data.queries), np.empty_like(data.queries)
    calls, made = _prepare(data, data.scale * LOG2_E, float(SMALL_MAX if fast else QUERY_MAX))
    peaks, totals = np.empty((1, heads), np.float32), np.empty((1, heads), np.float32)
    out = np.empty_like(data.queries)
    stored = {name: v for name, v in _stored(data, "key").items() if name not in ("widths", "offset")}
    stored |= {f"{side}_widths": data.widths(side) for side in ("key", "value")}
    state = {"peak": peaks[0], "total": totals[0], "out": out}
    count = {"n_tokens": data.tokens if n_tokens is None else n_tokens, "first": 0, "small": int(fast)}
    attend = ("attend_packed", {**stored, **made, **state, **count})
    resets = ((peaks, np.full_like(peaks, -np.inf)), *_zeroed(totals, out))
    return Work((*calls, attend, *_finish(data, peaks, totals, out, y)), y, resets, data.tables)
