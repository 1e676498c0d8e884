"""The toy modules, built once per run, and the hosts that run here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tq_core.kernels.arguments import Bound
from tq_core.kernels.hosts import HOSTS, Host, Instance, host_statuses
from tq_core.kernels.wasm import WasmBackend
from tq_core.tests.wasm.toytable import TOY_KERNELS, toy_recipe
from wasm.build import build


@pytest.fixture(scope="session")
def toy_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the toy kernels' four modules and their manifest."""
    recipe = toy_recipe(tmp_path_factory.mktemp("toy-wasm"))
    build(recipe)
    return recipe.out


@pytest.fixture(params=list(HOSTS))
def host(request: pytest.FixtureRequest) -> Host:
    """Each known host; one that cannot run here is skipped with its reason."""
    status = next(s for s in host_statuses() if s.name == request.param)
    if not status.available:
        pytest.skip(f"not exercised: {status.reason}")
    return HOSTS[request.param]


@pytest.fixture
def instance(host: Host, toy_modules: Path) -> Iterator[Instance]:
    """A toy SIMD instance on ``host``."""
    name = "tq_simd128_command.wasm" if host.command else "tq_simd128.wasm"
    made = host.load((toy_modules / name).read_bytes(), TOY_KERNELS, name)
    made.grow(made.heap_base + 65536)  # a module may start without any heap
    yield made
    made.close()


@pytest.fixture(params=["scalar", "simd128"])
def backend(request: pytest.FixtureRequest, host: Host, toy_modules: Path) -> Iterator[WasmBackend]:
    """Each target of the toy kernels on each host."""
    made = WasmBackend(request.param, host, toy_modules, TOY_KERNELS)
    yield made
    made.discard()


def toy_call(kernel: str, *values: Any) -> Bound:
    """Arguments of a toy kernel in call order, bound without the checks of the real table."""
    k = TOY_KERNELS[kernel]
    arrays = tuple(v for v in values if isinstance(v, np.ndarray))
    extents = {
        e: n for arg, a in zip(k.args, arrays, strict=True) for e, n in zip(arg.shape, a.shape, strict=True)
    }
    return Bound(k, arrays, tuple(extents[s] for s in k.sizes), tuple(values[len(arrays) :]))
