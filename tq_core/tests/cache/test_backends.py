"""The cache on native backends gives the numpy backend's bits, from the pages to the attention's output."""

from __future__ import annotations

import pytest

from tq_core.cache.paged_cache import PagedCache
from tq_core.codecs.arms import get_arm
from tq_core.kernels.backend import NumpyBackend, available_backends, get_backend
from tq_core.shapes import ModelShape
from tq_core.tests.cache.worlds import tokens


@pytest.mark.slow  # compiles the kernels of each target
@pytest.mark.kernels
@pytest.mark.parametrize(
    "head_dim, options", [(64, {}), (80, {"key_bits": 2.5, "value_bits": 4, "sinks": 3})]
)
def test_attend_is_bit_equal(head_dim: int, options: dict) -> None:
    native = [name for name in available_backends() if name.startswith("native-")]
    if not native:
        pytest.skip("not exercised: no native backend here")
    shape = ModelShape(1, 6, 2, head_dim)
    arm, (q, k, v) = get_arm("structured-turbo", window=20, **options), tokens(150, shape)
    reference = PagedCache(shape, arm, NumpyBackend())
    reference.append(0, k[:140], v[:140])
    want = reference.attend(0, q[140:], k[140:], v[140:])
    for name in (native[0], native[-1]):  # scalar and the widest; the parity test takes all, kernel by kernel
        cache = PagedCache(shape, arm, get_backend(name))
        cache.append(0, k[:140], v[:140])
        assert cache.attend(0, q[140:], k[140:], v[140:]).tobytes() == want.tobytes(), name
        for kind, store in cache.stores.items():
            assert store.pool.buffer.tobytes() == reference.stores[kind].pool.buffer.tobytes(), (name, kind)
