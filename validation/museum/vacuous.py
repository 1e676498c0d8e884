"""Kind G: nothing was compressed, or nothing was tested, and every number is excellent."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import get_arm
from tq_core.codecs.base import F32, Pages
from tq_core.codecs.checklist import check_declared_bytes_are_the_real_ones
from tq_core.codecs.fp16 import HalfKeys, HalfValues
from tq_core.codecs.int8 import Int8Values
from tq_core.kernels.backend import Backend, NumpyBackend
from validation.controls import arm_for
from validation.findings import ArmFindings
from validation.museum.exhibit import Exhibit, Outcome, Stop, always
from validation.museum.maths import with_keys
from validation.museum.rows import RowKeys
from validation.museum.stops import conformance, rule
from validation.museum.study import WINDOW, Layer, Trial, fixture_layer, gaussian_layer, trial, trial_readings
from validation.parity_report import Certificate, ParityRow


class NeverRead(PagedCache):
    """Packs every token, and attends to an uncompressed cache that it keeps beside the pages."""

    def __init__(self, layer: Layer, arm: Arm) -> None:
        super().__init__(layer.shape, arm, NumpyBackend(), len(layer.keys))
        self.other = PagedCache(layer.shape, get_arm("fp16"), NumpyBackend(), len(layer.keys))

    def attend(self, layer: int, queries: F32, keys: F32, values: F32, *rest: Any, **more: Any) -> F32:
        self.append(layer, keys, values)
        return self.other.attend(layer, queries, keys, values, *rest, **more)


class ReportedBits(HalfKeys):
    """Keys rounded to a coarse grid and stored as float16, reported as 3 bits."""

    def nominal_bits(self, head_dim: int) -> float:
        return 3.0

    def append(self, backend: Backend, pages: Pages, first: int, x: F32) -> None:
        step = np.maximum(np.abs(x).max(axis=2, keepdims=True) / np.float32(3.5), np.float32(1e-6))
        super().append(backend, pages, first, np.asarray(step * np.rint(x / step), np.float32))


def _window(window: int) -> Any:
    return lambda layer: trial(layer, get_arm("quarot", window=window))


def _through(made: Any) -> Any:
    return lambda layer: trial(layer, get_arm("int8", window=WINDOW), made)


def _paged(layer: Layer, arm: Arm) -> PagedCache:
    return PagedCache(layer.shape, arm, NumpyBackend(), len(layer.keys))


def needle_layer(distractors: bool) -> Layer:
    """The first of 72 tokens is what every query looks for, alone or among others that are nearly as good.

    Without distractors the query is the needle's key itself, long enough to win whatever is done to the keys. A value
    is a single one, in a channel of its token, which codes of 2 bits store exactly: keys alone decide.
    """
    plain = gaussian_layer(4, n_tokens=72)
    keys, queries = plain.keys.copy(), np.zeros_like(plain.queries)
    needle = keys[0]
    if distractors:
        keys[1:] = np.float32(0.8) * needle + np.float32(0.6) * keys[1:]
    queries[:] = np.repeat(needle, plain.shape.group_size_heads, axis=0) * np.float32(2 if distractors else 4)
    values = np.zeros_like(keys)
    values[np.arange(72), :, np.arange(72) % 64] = 1
    return Layer(queries, keys, values, 4)


def searched(distractors: bool) -> Trial:
    """An arm under test on a needle, and the planted bad arm beside it."""
    layer = needle_layer(distractors)
    bad = trial(layer, arm_for("planted-bad"))
    beside = ArmFindings("planted-bad", bad.findings.tested.config, [bad.scores])
    return trial(layer, get_arm("quarot", window=WINDOW), planted_bad=beside)


def _certificate(*backends: str) -> Certificate:
    rows = tuple(ParityRow("score_keys", name, 3, 4096, 0, 0) for name in backends)
    return Certificate("all cases", 3, 3, backends, (), rows, (), {})


def _certified(made: Certificate) -> Outcome:
    return Outcome(made.status() != "pass", f"{made.status()}: {made.bits_compared:,} bits compared")


_plain = partial(fixture_layer, n_tokens=80)
_VALUES: dict[int, Any] = {RowKeys.page_tokens: Int8Values(), HalfKeys.page_tokens: HalfValues()}

EXHIBITS = (
    Exhibit(
        "G1", "A window longer than the text", "turboquant-pytorch 14",
        "The recent window holds the whole run in float16; eighteen results were withdrawn.",
        "Tokens in packed pages are counted, and there must be some.",
        _plain, _window(WINDOW), _window(4096), rule("tokens-compressed"), trial_readings,
    ),
    Exhibit(
        "G2", "A cache that is written and never read", "turboquantcpu",
        "Pages are packed as promised; attention reads an uncompressed copy.",
        "Logits must differ from the uncompressed cache's.",
        _plain, _through(_paged), _through(NeverRead), rule("output-changed"), trial_readings,
        "Every count of tokens and bytes in pages is right.",
    ),
    Exhibit(
        "G3", "Quietly float16", "mlx-swift-lm 67, 84 to 86",
        "An arm that does not know the model falls back to float16 rows under its own name.",
        "Everything counted, the arm holds less than the fp16 cache.",
        partial(fixture_layer, n_tokens=136), lambda layer: trial(layer, get_arm("quarot", window=WINDOW)),
        lambda layer: trial(layer, Arm("quarot", HalfKeys(), HalfValues(), WINDOW, 0)), rule("memory"), trial_readings,
    ),
    Exhibit(
        "G4", "Quantized on paper", "veloxquant-mlx 132, kvpress 225, QuaRot 42",
        "Keys are rounded to a grid and stored as float16, reported as 3 bits.",
        "Nominal bits are those of the code stream.",
        _plain, always(RowKeys(3, rotation="structured")), always(ReportedBits()),
        conformance(check_declared_bytes_are_the_real_ones),
        lambda layer, keys: trial_readings(layer, trial(layer, with_keys(keys, _VALUES[keys.page_tokens]))),
    ),
    Exhibit(
        "G6", "A needle that cannot be missed", "0xSero turboquant",
        "The query is the needle's own key: an arm that was ruined on purpose finds it as well.",
        "Distractors; and the same budget must stop a ruined arm.",
        lambda: None, lambda given: searched(True), lambda given: searched(False), rule("negative-control"),
        lambda given, made: trial_readings(made.layer, made),
        "All metrics prefer the useless test.",
    ),
    Exhibit(
        "G9", "Compared with itself", "beellama 140",
        "Each build is compared with its own baseline, so a change moves both and shows in neither.",
        "One reference for all; a backend that was compared with itself alone is no pass.",
        lambda: None, always(_certificate("numpy", "native-scalar")), always(_certificate("numpy")),
        Stop("parity certificate", "validation.parity_report.Certificate.status", _certified),
    ),
)  # fmt: skip
