"""A known answer for ``i8x16.swizzle``: does the engine keep the index vector it was given?

wasmer 1.1 (Cranelift 0.76) overwrites a swizzle's index operand, so the next instruction that uses
the same vector sees another one. The kernels use each index vector once and are right in spite of
it. The probe uses one index twice, on purpose, and tells such an engine from a sound one.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from tq_core.errors import TqError
from tq_core.kernels.hosts.base import Host, HostStatus
from tq_core.kernels.table import Arg, Kernel

# (module (memory (export "memory") 1) (global (export "__heap_base") i32 (i32.const 0))
#   (func (export "probe") (param i32 i32) (local v128)
#     (local.set 2 (v128.load (local.get 0)))
#     (v128.store offset=48 (local.get 0) (i8x16.swizzle (v128.load offset=16 (local.get 0)) (local.get 2)))
#     (v128.store offset=64 (local.get 0) (i8x16.swizzle (v128.load offset=32 (local.get 0)) (local.get 2)))))
MODULE = bytes.fromhex(
    "0061736d0100000001060160027f7f000302010005030100010606017f0041000b072003066d656d6f727902000b5f5f"
    "686561705f6261736503000570726f626500000a2e012c01017b2000fd000400210220002000fd0004102002fd0efd0b"
    "043020002000fd0004202002fd0efd0b04400b"
)
_PROBE = Kernel("probe", (Arg("buffer", "u1", "inout", ("n",)),), ("n",), (), "exact_bytes")
NOTE = "i8x16.swizzle overwrites its index operand; the kernels use each index once"


def swizzle_results(host: Host) -> tuple[bool, bool]:
    """Whether the first and the second swizzle with one index vector are right on this host.

    Only for hosts that call exported functions. Raises as the host does.
    """
    index = np.array([15, 0, 14, 1, 13, 2, 12, 3, 11, 4, 10, 5, 200, 6, 255, 16], np.uint8)
    tables = np.arange(32, dtype=np.uint8).reshape(2, 16) * 7 + 3
    expected = np.where(index < 16, tables[:, index & 15], 0)
    instance = host.load(MODULE, {"probe": _PROBE}, "swizzle probe")
    instance.write(0, np.concatenate([index, tables.reshape(-1)]))
    instance.call(_PROBE, 0, 80)
    right = (instance.read(48, np.uint8, 32).reshape(2, 16) == expected).all(axis=1)
    instance.close()
    return bool(right[0]), bool(right[1])


def swizzle_note(host: Host, status: HostStatus) -> HostStatus:
    """The status with a remark when the engine has this fault, unavailable when one swizzle is wrong."""
    if host.command or not status.available:
        return status
    try:
        first, second = swizzle_results(host)
    except TqError as error:
        return dataclasses.replace(status, available=False, reason=f"swizzle probe failed: {error}")
    if not first:
        return dataclasses.replace(status, available=False, reason="i8x16.swizzle gives wrong results")
    return status if second else dataclasses.replace(status, reason=f"{status.reason}; {NOTE}")
