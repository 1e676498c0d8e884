"""The SDK host ends what it started: at exit, after a hang, after a guest's death."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tq_core.errors import BackendError, KernelError
from tq_core.kernels.hosts import frames, host_statuses
from tq_core.kernels.hosts.wasmer_sdk_host import SdkInstance, WasmerSdkHost
from tq_core.kernels.table import Arg, Kernel
from tq_core.tests.wasm.toytable import TOY_KERNELS
from wasm.recipe import ROOT

pytestmark = pytest.mark.kernels


@pytest.fixture
def command(toy_modules: Path) -> bytes:
    status = next(s for s in host_statuses() if s.name == "wasmer-sdk")
    if not status.available:
        pytest.skip(f"not exercised: {status.reason}")
    return (toy_modules / "tq_scalar_command.wasm").read_bytes()


def load(command: bytes, seconds: float = 30.0) -> SdkInstance:
    return WasmerSdkHost(seconds).load(command, TOY_KERNELS, "toy")


SCRIPT = """
import sys
import numpy as np
from pathlib import Path
from tq_core.kernels.hosts.wasmer_sdk_host import WasmerSdkHost
from tq_core.tests.wasm.toytable import TOY_KERNELS
module = Path(sys.argv[1]).read_bytes()
left_open = [WasmerSdkHost(2.0).load(module, TOY_KERNELS, "toy") for _ in range(3)]
left_open[0].write(left_open[0].heap_base, np.zeros(4, np.uint8))
{last}
print("end of script")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "last, code",
    [
        ("", 0),
        ("sys.exit(5)", 5),
        (
            "try: left_open[0].call(TOY_KERNELS['spin'], left_open[0].heap_base, 1)\nexcept Exception as e: print(e)",
            0,
        ),
    ],
    ids=["open guests", "exit code", "hung guest"],
)
def test_the_interpreter_ends_cleanly(
    command: bytes, toy_modules: Path, tmp_path: Path, last: str, code: int
) -> None:
    run = [sys.executable, "-c", SCRIPT.format(last=last), str(toy_modules / "tq_scalar_command.wasm")]
    done = subprocess.run(
        run, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == code, done.stderr
    assert done.stderr == ""
    assert not list(tmp_path.iterdir()), "the SDK left a cache behind"


@pytest.mark.slow
def test_a_guest_that_hangs_is_an_error_in_time(command: bytes) -> None:
    instance = load(command, seconds=0.5)
    instance.write(instance.heap_base, np.zeros(4, np.uint8))
    start = time.monotonic()
    with pytest.raises(BackendError, match=r"spin: .*within 0.5 s"):
        instance.call(TOY_KERNELS["spin"], instance.heap_base, 1)
    with pytest.raises(BackendError, match="the guest is closed"):
        instance.call(TOY_KERNELS["overrun"], instance.heap_base, 1, 0)
    instance.close()
    assert time.monotonic() - start < 30


def test_a_closed_guest_is_an_error(command: bytes) -> None:
    instance = load(command)
    instance.close()
    instance.close()
    with pytest.raises(BackendError, match="the guest is closed"):
        instance.read(instance.heap_base, np.uint8, 1)


def test_a_dead_guest_is_an_error(command: bytes) -> None:
    instance = load(command)
    with pytest.raises(KernelError, match="trapped in wasmer-sdk"):
        instance.call(TOY_KERNELS["trap"], instance.heap_base, 1)
    with pytest.raises(BackendError, match="the guest is closed"):
        instance.call(TOY_KERNELS["overrun"], instance.heap_base, 1, 0)


def test_a_guest_of_another_signature_refuses_the_kernel(command: bytes) -> None:
    other = Kernel(
        "axpy", (Arg("x", "i4", "in", ("n",)), Arg("y", "f4", "inout", ("n",))), ("n",), (), "exact_floats"
    )
    instance = WasmerSdkHost().load(command, {"axpy": other}, "toy")
    with pytest.raises(BackendError, match="UNKNOWN_KERNEL"):
        instance.call(other, instance.heap_base, instance.heap_base, 1)


def test_a_large_frame_arrives_whole(command: bytes) -> None:
    instance = load(command)
    data = np.random.default_rng(1).integers(0, 256, 3_000_001, np.uint8)
    instance.grow(instance.heap_base + data.nbytes)
    instance.write(instance.heap_base, data)
    assert np.array_equal(instance.read(instance.heap_base, np.uint8, data.size), data)
    instance.close()


def test_kernel_ids_follow_the_signature() -> None:
    axpy = TOY_KERNELS["axpy"]
    renamed = Kernel("axpz", axpy.args, axpy.sizes, axpy.scalars, axpy.family)
    assert len({frames.kernel_id(k) for k in (*TOY_KERNELS.values(), renamed)}) == len(TOY_KERNELS) + 1
    assert frames.NO_KERNEL not in {frames.kernel_id(k) for k in TOY_KERNELS.values()}


def test_floats_travel_by_their_bits() -> None:
    words = frames.words_of(TOY_KERNELS["axpy"], (1, 2**32 - 1, 3, 4, 5, -0.0))
    assert words.tolist() == [1, 2**32 - 1, 3, 4, 5, 0x80000000]


def test_a_response_that_is_none_is_refused() -> None:
    with pytest.raises(BackendError, match="response frame"):
        frames.response_head(b"hello world, 16B")
