"""Codecs whose pages are rows: bits by their streams, long histories, input that must not reach a page."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.aither import AitherKeys
from tq_core.codecs.arms import get_arm
from tq_core.codecs.checkbench import Bench
from tq_core.codecs.eden import EdenKeys, ExactEdenKeys
from tq_core.codecs.mapped import MappedCodec
from tq_core.codecs.polarquant import PolarKeys
from tq_core.codecs.qjl import QjlKeys
from tq_core.codecs.rabitq import RaBitQKeys
from tq_core.codecs.rotation_arms import ROTATION_ARMS
from tq_core.codecs.turboquant_mse import MseKeys
from tq_core.codecs.turboquant_prod import ProdKeys
from tq_core.codecs.turbovec import TurboVecKeys
from tq_core.codecs.vllm_turbo import PRESETS
from tq_core.errors import CodecError, TqError, ValueRangeError
from tq_core.kernels.backend import NumpyBackend
from tq_core.math.quantize import QUERY_MAX
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import exact_attention

CODECS = {
    f"{name}-{side}": getattr(get_arm(name), f"{side}_codec")
    for name in ROTATION_ARMS
    for side in ("key", "value")
    if isinstance(getattr(get_arm(name), f"{side}_codec"), MappedCodec)
}


def bits_all_in(codec: Any, head_dim: int = 128) -> float:
    return 8 * sum(n for _, n in codec.streams(head_dim)) / (codec.page_tokens * head_dim)


@pytest.mark.parametrize(
    "codec, want",
    [(MseKeys(b), b + 0.125) for b in (1, 2, 3, 4)]
    + [(ExactEdenKeys(1), 1.125), (EdenKeys(2.5), 2.625), (RaBitQKeys(3), 3.125)]
    + [(ProdKeys(b), b + 1 + 32 / 128) for b in (1, 2, 3)]
    + [(PolarKeys(), 3.875), (TurboVecKeys(4), 4.25), (TurboVecKeys(2), 2.25)]
    + [(QjlKeys(), (256 + 256 + 32 + 2) / 128), (QjlKeys(4, 1), (512 + 128 + 32 + 2) / 128)]
    + [(AitherKeys("tq35"), 4.0), (AitherKeys("tq25"), 2.75)],
    ids=repr,
)
def test_bits_per_channel_from_the_streams(codec: Any, want: float) -> None:
    assert bits_all_in(codec) == want


@pytest.mark.parametrize(
    "preset, slot", [("k8v4", 196), ("4bit_nc", 134), ("k3v4_nc", 118), ("3bit_nc", 102)]
)
def test_slot_bytes_of_vllms_presets(preset: str, slot: int) -> None:
    arm = get_arm("vllm-turboquant", preset=preset)
    assert sum(bits_all_in(c) * 128 / 8 for c in (arm.key_codec, arm.value_codec)) == slot
    assert (arm.key_codec.nominal_bits(128), arm.value_codec.nominal_bits(128)) == PRESETS[preset]


def test_polarquant_needs_no_padding() -> None:
    """46 code bits and a radius per block of 16, whatever the number of blocks."""
    for head_dim in (16, 32, 64, 80, 128):
        assert bits_all_in(PolarKeys(), head_dim) == 3.875


@pytest.mark.parametrize("label", CODECS)
def test_histories_longer_than_one_unpacked_run(label: str) -> None:
    bench = Bench(CODECS[label], NumpyBackend(), head_dim=16, n_kv_heads=2, group=2)
    n = bench.codec.page_tokens * 4 + 32
    stored, given = bench.store(bench.tokens(n)), bench.question(n)
    want, size = bench.exact(bench.decode(stored, n), given)
    # Kernels round the query, or a page's weights, to integers up to QUERY_MAX.
    limit = bench.codec.tags.read_tolerance or (2 / QUERY_MAX if bench.codec.tags.same_bits else 2e-5)
    assert float((np.abs(bench.read(stored, n, given) - want) / size).max()) < limit


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("label", CODECS)
def test_what_is_not_finite_reaches_no_page(label: str, bad: float) -> None:
    codec = CODECS[label]
    bench = Bench(codec, NumpyBackend(), head_dim=32)
    x, pages = bench.tokens(codec.flush_tokens), bench.pages(codec.page_tokens)
    x[-1, 1, 3] = bad
    with pytest.raises(ValueRangeError, match="^x: expected finite values"):
        codec.append(bench.backend, pages, 0, x)
    assert not pages.pool.any()


@pytest.mark.parametrize("label", [label for label in CODECS if not label.startswith("turbovec")])
def test_norms_beyond_float16_are_refused_before_anything_is_written(label: str) -> None:
    codec = CODECS[label]
    bench = Bench(codec, NumpyBackend(), head_dim=32)
    pages = bench.pages(codec.page_tokens)
    x = bench.tokens(codec.flush_tokens)
    x[-1] *= np.float32(1e6)
    with pytest.raises(ValueRangeError, match="^x: expected .* within the float16 range"):
        codec.append(bench.backend, pages, 0, x)
    assert not pages.pool.any()


@pytest.mark.parametrize("label", CODECS)
@pytest.mark.parametrize("size", [1e-45, 1e-38, 6e-8, 1e-4])
def test_subnormals_decode_to_something_small(label: str, size: float) -> None:
    codec = CODECS[label]
    bench = Bench(codec, NumpyBackend(), head_dim=32)
    x = np.full((codec.flush_tokens, 2, 32), size, np.float32)
    x[:, :, ::3] *= -1
    pages = bench.store(x)
    got = bench.decode(pages, len(x))
    assert np.isfinite(bench.read(pages, len(x), bench.question(len(x)))).all()
    assert np.abs(got).max() <= 4 * size + 1e-30 or size < 1e-4  # float16 scales end at 6e-8
    assert np.abs(got).max() < 1e-3


@pytest.mark.parametrize("name", ROTATION_ARMS)
def test_every_arm_attends_as_its_decoded_tokens_would(name: str) -> None:
    """Sinks, pages and window meet in one softmax, on one scale of logits; there is room for the table's rounding."""
    shape, rng = ModelShape(1, 4, 2, 32), np.random.default_rng(1)
    cache = PagedCache(shape, get_arm(name, window=8, sinks=2), NumpyBackend())
    x = rng.standard_normal((2, 90, 2, 32)).astype(np.float32)
    cache.append(0, x[0], x[1])
    q, k, v = (rng.standard_normal((1, h, 32)).astype(np.float32) for h in (4, 2, 2))
    out = cache.attend(0, q, k, v)[0]
    want = exact_attention(shape, q[0], *cache.decode(0))
    assert np.abs(out - want).max() < (2e-2 if name == "turbovec" else 2e-4)
    ledger = cache.ledger()
    assert ledger.tokens_compressed >= 64 and ledger.decoded_shadow <= 2 * cache.buffers()["scratch"]


@pytest.mark.parametrize(
    "name, options, named",
    [
        ("turboquant-mse", {"key_bits": 5}, "key_bits"),
        ("turboquant-mse", {"rotation": "dense"}, "rotation"),
        ("turbo-two-rounds", {"key_norm": "best"}, "key_norm"),
        ("turboquant-prod", {"key_bits": 1}, "key_bits"),
        ("turboquant-prod", {"sketch": "binary"}, "sketch"),
        ("structured-turbo-qjl", {"value_bits": 3.25}, "value_bits"),
        ("qjl", {"ratio": 3}, "ratio"),
        ("qjl", {"outliers": 16}, "outliers"),
        ("polarquant", {"seed": -1}, "seed"),
        ("eden", {"key_norm": "matched"}, "key_norm"),
        ("eden", {"key_centre": "middle"}, "centre"),
        ("drive", {"key_bits": 2}, "options"),
        ("rabitq", {"value_norm": "paper"}, "value_norm"),
        ("turbovec", {"key_bits": 3}, "key_bits"),
        ("vllm-turboquant", {"preset": "turbo"}, "preset"),
        ("aither-hybrid", {"mode": "tq45"}, "mode"),
        ("aither-hybrid", {"version": "fixed"}, "version"),
    ],
)
def test_bad_options(name: str, options: dict[str, Any], named: str) -> None:
    with pytest.raises(TqError, match=rf"^{named}: expected .*, got "):
        get_arm(name, **options)


def test_codecs_check_their_own_fields() -> None:
    for build, named in (
        (lambda: MseKeys(0), "bits"),
        (lambda: MseKeys(book="beta"), "book"),
        (lambda: ProdKeys(4), "code_bits"),
        (lambda: QjlKeys(sketch="structured"), "sketch"),
        (lambda: EdenKeys(norm="paper"), "norm"),
    ):
        with pytest.raises(CodecError, match=f"^{named}: expected one of"):
            build()
