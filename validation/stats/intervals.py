"""What an interval is: its bounds, or the reason why there are none.

Every degenerate case is named instead of computed: an interval of (nan, nan) or of width zero has passed
for certainty before.
"""

from __future__ import annotations

import inspect
from dataclasses import asdict, dataclass

import numpy as np

MIN_DOCUMENTS = 20  # a BCa interval over fewer is too narrow and gives no warning
RESAMPLES = 9999


@dataclass(frozen=True)
class Interval:
    """``low`` and ``high`` are None when no interval can be given; ``note`` then says why.

    ``covers`` names what was resampled, so what the interval speaks about. ``seed`` fixes the resampling.
    """

    low: float | None
    high: float | None
    level: float
    n: int
    method: str
    covers: str
    note: str
    seed: int

    def as_dict(self) -> dict[str, object]:
        """JSON-able form."""
        return asdict(self)


def generator(seed: int, of: str = "bootstrap") -> dict[str, np.random.Generator]:
    """Keyword of a seeded generator for scipy.stats' function ``of``: `rng` from 1.15 on, `random_state` before."""
    from scipy import stats

    known = "rng" if "rng" in inspect.signature(getattr(stats, of)).parameters else "random_state"
    return {known: np.random.default_rng(seed)}
