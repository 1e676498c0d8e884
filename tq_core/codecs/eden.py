"""EDEN and DRIVE: rotate, nearest Gaussian centroid, and a scale that is unbiased or of least squared error.

EDEN (2022, proceedings.mlr.press/v162/vargaftik22a) and its 1-bit ancestor DRIVE (2105.08339) send the codes of
t = sqrt(d) T x / ||x|| and one scale S: unbiased ||x||^2 / <T x, c>, which makes <x, x_hat> = ||x||^2 for every vector,
or biased <T x, c> / ||c||^2, the least squared error for every vector. At one bit the two are ||x||^2 / ||T x||_1 and
||T x||_1 / d times the signs. b + 16/d bits per channel. TurboQuant_mse is the same with S = 1.

EdenKeys has 2 to 4 bits on the kernels of structured TurboQuant, whose codes are the same and whose books lie on an
8-bit grid; half rates split the channels, where EDEN draws levels at random. DriveKeys has one bit, on the kernels for
signs. ExactEdenKeys has the exact books, 1 to 4 bits, and is numpy alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tq_core.codecs.base import CodecTags
from tq_core.codecs.mapped import MappedKeys, MappedValues
from tq_core.codecs.tiled import TiledKeys, TiledValues
from tq_core.codecs.turboquant import TurboKeys, TurboValues
from tq_core.codecs.turboquant_mse import ScalarRows, ScalarTiles
from tq_core.errors import CodecError, check

EDEN_RULES = ("unbiased", "min_mse")


class _EdenRule:
    """Admits EDEN's two rules for the scale; the unbiased one makes scores unbiased."""

    norm: str

    def __post_init__(self) -> None:
        check(self.norm in EDEN_RULES, "norm", f"one of {EDEN_RULES}", repr(self.norm), CodecError)
        super().__post_init__()  # type: ignore[misc]

    @property
    def tags(self) -> CodecTags:
        return replace(super().tags, unbiased_scores=self.norm == "unbiased")  # type: ignore[misc]


@dataclass(frozen=True)
class EdenKeys(_EdenRule, TurboKeys):  # type: ignore[override]
    """Keys, unbiased by default."""

    norm: str = "unbiased"
    name = "eden"


@dataclass(frozen=True)
class EdenValues(_EdenRule, TurboValues):  # type: ignore[override]
    """Values, least squared error by default: noise in a sum is not compensated."""

    norm: str = "min_mse"
    name = "eden"


@dataclass(frozen=True)
class _ExactEden(_EdenRule, ScalarRows):
    rotation: str = "structured"
    book: str = "gauss"
    norm: str = "unbiased"
    name = "eden-exact"


@dataclass(frozen=True)
class ExactEdenKeys(MappedKeys, _ExactEden):
    """Keys under exact books, 1 to 4 bits; one bit is DRIVE."""


@dataclass(frozen=True)
class ExactEdenValues(MappedValues, _ExactEden):
    """Values under exact books, 1 to 4 bits; one bit is DRIVE."""

    seed: int = 2
    norm: str = "min_mse"


@dataclass(frozen=True)
class _Drive(_EdenRule, ScalarTiles):
    bits: int = 1
    rotation: str = "structured"
    book: str = "gauss"
    norm: str = "unbiased"
    name = "drive"

    @property
    def tags(self) -> CodecTags:
        return CodecTags(unbiased_scores=self.norm == "unbiased")


@dataclass(frozen=True)
class DriveKeys(_Drive, TiledKeys):  # type: ignore[misc]
    """Keys: DRIVE at its one bit, EDEN's whole rates with more."""


@dataclass(frozen=True)
class DriveValues(_Drive, TiledValues):  # type: ignore[misc]
    """Values, likewise."""

    seed: int = 2
    norm: str = "min_mse"
