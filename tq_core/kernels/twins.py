"""The numpy twin of every kernel, by the kernel's name."""

from __future__ import annotations

from tq_core.kernels import reference, reference_attend
from tq_core.kernels.table import KERNELS

KERNEL_FUNCTIONS = {
    name: getattr(reference, name, None) or getattr(reference_attend, name) for name in KERNELS
}
