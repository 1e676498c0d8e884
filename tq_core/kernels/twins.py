"""The numpy twin of every kernel, by the kernel's name."""

from __future__ import annotations

from tq_core.kernels import (
    reference,
    reference_affine,
    reference_attend,
    reference_bytes,
    reference_polar,
    reference_shaping,
    reference_signs,
)
from tq_core.kernels.table import KERNELS

_MODULES = (
    reference,
    reference_attend,
    reference_signs,
    reference_polar,
    reference_shaping,
    reference_affine,
    reference_bytes,
)

KERNEL_FUNCTIONS = {
    name: next(getattr(module, name) for module in _MODULES if hasattr(module, name)) for name in KERNELS
}
