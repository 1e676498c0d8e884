"""SpinQuant's KV part (2405.16406): QuaRot's integers under a rotation that is learned on calibration vectors.

The paper merges learned rotations into the weights and keeps a Hadamard matrix on queries and keys; here the head's
own rotation is learned, from that Hadamard matrix on, with the paper's optimizer and the quantization error of
captured vectors as the loss. Without calibration it is that start, so QuaRot in groups of 128 channels. Asymmetric 4
bits: 4 + 32 / min(head_dim, 128) bits per channel, plus one matrix per layer and KV head.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tq_core.codecs.base import F32, CodecTags, Pages
from tq_core.codecs.calibration import Calibration, check_calibration, check_fit
from tq_core.codecs.quarot import AffineRows, hadamard
from tq_core.codecs.rows import KeySide, ValueSide
from tq_core.errors import CodecError, check
from tq_core.math.stiefel import cayley_step

GROUP_CHANNELS = 128
METHOD = "spinquant"
RATE, STEPS, FIT_ROWS = 1.5, 100, 512
F64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _SpinQuant(AffineRows):
    calibration: Calibration | None = None

    name = METHOD
    tags = CodecTags(same_bits=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_calibration(self.calibration, METHOD, required=False)

    def _group(self, head_dim: int) -> int:
        return min(head_dim, GROUP_CHANNELS)

    def to_codes(self, x: F32, pages: Pages) -> F32:
        if self.calibration is None:
            return hadamard(x)
        return np.einsum("hij,nhj->nhi", self.calibration.table("rotation", pages), x, optimize=True)

    def from_codes(self, y: F32, pages: Pages) -> F32:
        if self.calibration is None:
            return hadamard(y, inverse=True)
        return np.einsum("hij,nhi->nhj", self.calibration.table("rotation", pages), y, optimize=True)


@dataclass(frozen=True)
class SpinQuantKeys(KeySide, _SpinQuant):
    """Keys under a learned rotation."""


@dataclass(frozen=True)
class SpinQuantValues(ValueSide, _SpinQuant):
    """Values under a learned rotation."""


def range_loss(rotation: F64, x: F64, bits: int) -> tuple[float, F64]:
    """Relative error of quantizing ``rotation @ x`` for rows x (n, d), and its gradient (d, d).

    The rounding residuals (in steps) are held constant, so what the gradient lowers is the steps: the range.
    """
    y = x @ rotation.T
    top, energy = (1 << bits) - 1, float((x * x).sum())
    loss, slope = 0.0, np.zeros_like(y)
    for start in range(0, y.shape[1], GROUP_CHANNELS):
        part = y[:, start : start + GROUP_CHANNELS]
        rows, high, low = np.arange(len(part)), part.argmax(axis=1), part.argmin(axis=1)
        step = (part[rows, high] - part[rows, low]) / top
        units = (part - part[rows, low][:, None]) / np.where(step > 0, step, 1.0)[:, None]
        residual = ((np.rint(units) - units) ** 2).sum(axis=1)
        loss += float((residual * step * step).sum()) / energy
        push = 2 * residual * step / (top * energy)
        slope[rows, start + high] += push
        slope[rows, start + low] -= push
    return loss, slope.T @ x


def learn_rotation(x: F64, bits: int = 4, steps: int = STEPS, rate: float = RATE) -> tuple[F64, list[float]]:
    """The best of ``steps`` Cayley steps from the Hadamard matrix on, for rows x (n, d); and the loss at each.

    The learning rate falls with a cosine. Rows that are all zero leave the Hadamard matrix.
    """
    best = start = hadamard(np.eye(x.shape[1], dtype=np.float32)).T.astype(np.float64)
    if not x.any():
        return start, [0.0]
    rotation, momentum, losses = start, np.zeros_like(start), []
    for i in range(steps + 1):
        loss, gradient = range_loss(rotation, x, bits)
        losses.append(loss)
        if loss <= min(losses):
            best = rotation
        rotation, momentum = cayley_step(
            rotation, gradient, momentum, rate * 0.5 * (1 + np.cos(np.pi * i / (steps + 1)))
        )
    return best, losses


def fit_spinquant(vectors: F32, bits: int = 4, steps: int = STEPS) -> Calibration:
    """One rotation per layer and KV head from vectors (n_layers, n_tokens, n_kv_heads, head_dim), head_dim tokens or more.

    At most FIT_ROWS tokens, evenly spread, are used. Raises CodecError for steps below 1, and the errors of check_fit.
    """
    check(isinstance(steps, int) and steps >= 1, "steps", "1 or more", repr(steps), CodecError)
    x = check_fit(vectors, getattr(vectors, "shape", (0,))[-1])
    spread = np.unique(np.linspace(0, x.shape[1] - 1, FIT_ROWS).astype(int))
    learned = [
        [
            learn_rotation(x[layer, spread, head].astype(np.float64), bits, steps)[0]
            for head in range(x.shape[2])
        ]
        for layer in range(len(x))
    ]
    return Calibration(METHOD, x.shape[3], {"rotation": np.array(learned)})
