"""The bits slider of the math notebook: every move encodes the vectors again with the real kernel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tq_core.kernels.backend import Backend, get_backend
from tq_core.math.books import RATES, load_books
from tq_core.math.quantize import NormMode
from tq_core.math.rotation import StructuredRotation
from tq_core.show import distortion, plates
from tq_core.show.panel import Control, Settings

N_VECTORS = 1024  # encoded again at every move, well within 30 ms
_BINS = np.linspace(-4, 4, 81)
RULES = {"S = 1 (paper)": NormMode.paper, "unbiased": NormMode.unbiased, "least error": NormMode.min_mse}
RULES["matched norm"] = NormMode.matched


class BookPanel:
    """Left: the rotated coordinates and the codebook's entries. Right: error against bits."""

    title = "Bits, scale rule and head size, on the encode_rows kernel"
    controls = (
        Control("bits", "bits", RATES, 3.0, "per channel, before the scale"),
        Control("rule", "scale rule", tuple(RULES), "matched norm", "what the stored float16 preserves"),
        Control("head_dim", "head_dim", (64, 80, 96, 128), 128, "channels of a vector"),
    )
    presets = tuple({"bits": b, "rule": "matched norm", "head_dim": 128} for b in (2.0, 3.0, 4.0))

    def __init__(self, backend: Backend | None = None) -> None:
        self._backend = backend or get_backend()
        self._data = {head_dim: self._vectors(head_dim) for head_dim in self.controls[2].options}
        self.figure, (self._left, self._right) = plates.plate(8.2, 3.1, columns=2)
        self._draw_once()

    def _draw_once(self) -> None:
        centre = (_BINS[1:] + _BINS[:-1]) / 2
        (self._histogram,) = self._left.step(
            centre, np.zeros(80), where="mid", color=plates.STYLES[0]["color"]
        )
        density = np.exp(-(centre**2) / 2) / np.sqrt(2 * np.pi)
        self._left.plot(centre, density, color=plates.GREY, linestyle="--", linewidth=1)
        self._entries = self._left.vlines([], 0, 0.06, color=plates.STYLES[1]["color"], linewidth=2)
        self._left.set(xlabel="rotated coordinate t (standard deviations)", ylabel="density", ylim=(0, 0.5))
        self._left.set_title("coordinates, N(0,1) dashed, entries")
        rates = list(RATES)
        expected = [distortion.expected_mse(r, 128) for r in rates]
        self._right.semilogy(rates, expected, label="closed form D", **plates.STYLES[0])
        (self._point,) = self._right.semilogy(
            [3.0],
            [0.03],
            label="measured now",
            color=plates.STYLES[1]["color"],
            marker="X",
            markersize=11,
            linestyle="",
        )
        self._right.set(
            xlabel="bits per channel", ylabel="relative squared error", ylim=(0.006, 0.2), xlim=(1.8, 4.2)
        )
        self._right.legend(frameon=False)
        self.moving = (self._histogram, self._entries, self._point)

    @staticmethod
    def _vectors(head_dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Vectors and the histogram of their rotated, standardised coordinates."""
        x = distortion.outlier_vectors(N_VECTORS, head_dim)
        y = StructuredRotation(head_dim, distortion.SEED).forward(x)
        t = y * (np.sqrt(head_dim) / np.linalg.norm(x, axis=1, keepdims=True))
        return x, np.histogram(t, _BINS, density=True)[0]

    def update(self, **settings: Any) -> Mapping[str, object]:
        bits, rule, head_dim = settings["bits"], RULES[settings["rule"]], settings["head_dim"]
        x, density = self._data[head_dim]
        loss = distortion.measure(x, distortion.encode(x, bits, rule, self._backend).restored)
        entries = load_books().centroids(int(np.ceil(bits)))
        self._histogram.set_ydata(density)
        self._entries.set_segments([[(c, 0), (c, 0.06)] for c in entries])
        self._point.set_data([bits], [loss.mse])
        return {
            "error": loss.mse,
            "closed form D": distortion.expected_mse(bits, head_dim),
            "slope": loss.slope,
            "length": loss.length,
            "stored bits per channel": distortion.bits_all_in(bits, head_dim),
        }

    def sentence(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            f"{settings['bits']} bits, {settings['rule']}, head_dim {settings['head_dim']}: "
            f"relative squared error {numbers['error']:.3g} (closed form {numbers['closed form D']:.3g}), "
            f"slope {numbers['slope']:.3f}, {numbers['stored bits per channel']:.3f} stored bits per channel"
        )

    def alt(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            "Left: histogram of the rotated coordinates, which follows the normal density, with the codebook's "
            "entries as ticks. Right: relative squared error falls with bits along the closed form; "
            + self.sentence(settings, numbers)
        )
