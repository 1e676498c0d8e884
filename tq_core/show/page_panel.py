"""The page slider: how a page fills, which bytes the last token wrote, and what a token costs so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.colors import ListedColormap

from tq_core.cache.page import HEADER, PageFlags
from tq_core.codecs.arms import Arm, get_arm
from tq_core.show import page_map, plates
from tq_core.show.page_fill import SHAPE, Filling, fill
from tq_core.show.panel import Control, Settings

ARMS = ("structured-turbo", "kivi-control", "fp16")
TOKENS = (0, 1, 2, 3, 4, 8, 15, 16, 17, 31, 32, 33, 48, 64, 96, 127, 128)
STATES = ("zero", "written before", "written by the last token")
_COLOURS = ("#f4f4f4", "#8fb8d8", "#222222")
_LABELS = 8


class PagePanel:
    """Left: every byte of the page. Right: bits per channel that the page costs for the tokens in it."""

    title = "A page, token by token"
    controls = (
        Control("arm", "arm", ARMS, "structured-turbo", "what is written; one KV head, head_dim 32"),
        Control("tokens", "tokens", TOKENS, 17, "appended so far, one at a time"),
    )
    presets = (
        {"arm": "structured-turbo", "tokens": 17},
        {"arm": "structured-turbo", "tokens": 128},
        {"arm": "kivi-control", "tokens": 32},
    )

    def __init__(self) -> None:
        self._made: dict[str, Filling] = {}
        self._rows = max(-(-self.filling(arm).layout.page_bytes // page_map.COLUMNS) for arm in ARMS)
        self.figure, (self._left, self._right) = plates.plate(9.2, 4.4, columns=2)
        empty = page_map.grid(np.zeros(0), self._rows)
        style = {"cmap": ListedColormap(_COLOURS), "vmin": 0, "vmax": 2, "aspect": "auto"}
        self._bytes = self._left.imshow(empty, **style)
        self._names = [
            self._left.text(page_map.COLUMNS, 0, "", fontsize=7.5, va="top") for _ in range(_LABELS)
        ]
        self._left.set(xlabel="byte of a row (black: last token)", ylabel="row of 64 bytes", xlim=(-0.5, 88))
        self._left.set_xticks([0, 16, 32, 48, 63])
        self._left.grid(visible=False)
        (self._line,) = self._right.loglog(TOKENS[1:], TOKENS[1:], **plates.STYLES[0])
        (self._here,) = self._right.loglog([1], [1], "X", color="#A3478C", markersize=11)
        self._right.axhline(16, color=plates.GREY, linestyle="--", linewidth=1)
        self._right.text(1, 16, "fp16 rows", va="bottom", fontsize=8)
        self._right.set(xlabel="tokens in the page", ylabel="bits per channel, whole page", ylim=(2, 2000))
        self._right.set_xticks([1, 2, 4, 8, 16, 32, 64, 128], ["1", "2", "4", "8", "16", "32", "64", "128"])
        self._right.minorticks_off()
        self.moving = (self._bytes, *self._names, self._line, self._here)

    @staticmethod
    def arm(name: str) -> Arm:
        """The arm without a window, so that tokens go where the map looks."""
        return get_arm(name, **({} if name == "fp16" else {"window": 0}))

    def filling(self, name: str) -> Filling:
        """The page of an arm after every token; made once."""
        if name not in self._made:
            self._made[name] = fill(self.arm(name))
        return self._made[name]

    def update(self, **settings: Any) -> Mapping[str, object]:
        filling, wanted = self.filling(settings["arm"]), settings["tokens"]
        t = min(wanted, filling.tokens)
        page, last = filling.pages[t], filling.changed(t)
        state = np.where(last, 2.0, np.where(page != 0, 1.0, 0.0))
        self._bytes.set_data(page_map.grid(state, self._rows))
        for text in self._names:
            text.set_text("")
        for text, region in zip(self._names, page_map.regions(filling.layout)):
            text.set_text(f" {region.name.removeprefix('head 0 ')}")
            text.set_y(region.start / page_map.COLUMNS - (0.5 if region.start else 2.6))
        channels, counts = 2 * SHAPE.n_kv_heads * SHAPE.head_dim, np.array(TOKENS[1:])
        counts = np.minimum(counts, filling.tokens)
        self._line.set_data(counts, 8 * filling.layout.page_bytes / (counts * channels))
        used = int(HEADER.get(page, "used"))
        bits = 8 * filling.layout.page_bytes / (used * channels) if used else float("nan")
        self._here.set_data([max(used, 1)], [bits])
        return {
            "in the page": used,
            "bytes changed by the last token": int(last.sum()),
            "of them in the header": int(last.sum()) - filling.body_bytes(t),
            "page bytes": filling.layout.page_bytes,
            "bits per channel": bits if used else "none",
            "sealed": bool(PageFlags(int(HEADER.get(page, "flags"))) & PageFlags.SEALED),
        }

    def sentence(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        per = numbers["bits per channel"]
        cost = f"{per:.2f} bits per channel" if isinstance(per, float) else "no token yet"
        return (
            f"{settings['arm']}, {settings['tokens']} tokens appended: {numbers['in the page']} in this page of "
            f"{numbers['page bytes']} bytes, the last one changed {numbers['bytes changed by the last token']} bytes "
            f"({numbers['of them in the header']} in the header); {cost}; "
            f"{'sealed with a checksum' if numbers['sealed'] else 'not sealed'}"
        )

    def alt(self, settings: Settings, numbers: Mapping[str, object]) -> str:
        return (
            "Left: the page's bytes in rows of 64, written ones darker, the last token's black. Right: bits per channel of "
            "the whole page fall as tokens fill it. " + self.sentence(settings, numbers)
        )
