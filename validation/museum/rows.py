"""TurboQuant_mse in numpy alone: each step of it can be replaced, which is how faults are planted.

The library's own codec of this name encodes and reads in kernels. Its reconstructions are those of these rows; the
layout of the codes is another one, so their pages are not to be mixed.
"""

from __future__ import annotations

from dataclasses import dataclass

from tq_core.codecs.mapped import MappedKeys, MappedValues
from tq_core.codecs.turboquant_mse import ScalarRows


@dataclass(frozen=True)
class RowKeys(MappedKeys, ScalarRows):
    """Keys of TurboQuant_mse."""


@dataclass(frozen=True)
class RowValues(MappedValues, ScalarRows):
    """Values of TurboQuant_mse."""

    seed: int = 2
