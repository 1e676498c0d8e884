"""A model's numbers from the metadata of its GGUF file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tq_core.errors import ModelFileError
from tq_core.model.fields import checked_positive, checked_size, every
from tq_core.model.gguf_file import ROPE_TENSOR, GgufFile
from tq_core.model.gguf_header import require

# Options that change the forward pass and that the runtime does not have.
_ABSENT = ("expert_count", "attn_logit_softcapping", "final_logit_softcapping")


class GgufFields:
    """`Fields` of one file."""

    llama_pairing = "adjacent"

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self.name = file.metadata("general.name", str, file.name)
        self.family = file.metadata("general.architecture", str)

    @property
    def vocab_size(self) -> int:
        return len(self._file.metadata("tokenizer.ggml.tokens", list))

    @property
    def tied_output(self) -> bool:
        return "output.weight" not in self._file.header.tensors

    def key(self, name: str) -> str:
        return f"{self.family}.{name}"

    def size(self, name: str, limit: int = 1 << 24, default: int | None = None) -> int:
        return checked_size(self.key(name), self._file.metadata(self.key(name), int, default), limit)

    def positive(self, name: str, default: float | None = None) -> float:
        return checked_positive(self.key(name), self._file.metadata(self.key(name), float, default))

    def rope_divisors(self, head_dim: int) -> tuple[float, ...]:
        """Linear scaling is a factor in the metadata, Llama 3's a tensor with one divisor per channel pair."""
        key = self.key("rope.scaling.type")
        given = key in self._file.header.metadata
        kind = self._file.metadata(key, str, "linear")
        require(kind in ("none", "linear"), key, "none or linear", repr(kind))
        needed = given and kind == "linear"
        factor = self._file.metadata(self.key("rope.scaling.factor"), float, None if needed else 1.0)
        divisors = np.ones(head_dim // 2)
        if ROPE_TENSOR in self._file.header.tensors:
            shape = self._file.header.tensors[ROPE_TENSOR].shape
            require(shape == divisors.shape, f"shape of {ROPE_TENSOR}", f"{divisors.shape}", shape)
            divisors = self._file.tensor(ROPE_TENSOR).astype(np.float64)
            ok = bool((divisors > 0).all())
            require(ok, f"data of {ROPE_TENSOR}", "positive divisors", divisors.min())
        if kind == "linear" and factor != 0.0:  # zero says that there is none
            divisors = divisors * checked_positive(self.key("rope.scaling.factor"), factor)
        return () if (divisors == 1.0).all() else tuple(divisors.tolist())

    def full_layers(self, n_layers: int, default_every: int) -> Sequence[bool]:
        key = self.key("attention.sliding_window_pattern")
        value = self._file.header.metadata.get(key, default_every)
        if isinstance(value, list):
            ok = len(value) == n_layers and all(isinstance(flag, bool) for flag in value)
            require(ok, key, f"{n_layers} flags", f"{len(value)} entries")
            return [not flag for flag in value]
        if not isinstance(value, int) or isinstance(value, bool):
            raise ModelFileError(f"{key}: expected a number or flags, got {type(value).__name__}")
        return every(n_layers, checked_size(key, value, n_layers + default_every))

    def refuse_options(self) -> None:
        for name in _ABSENT:
            value = self._file.header.metadata.get(self.key(name))
            require(value in (None, 0), self.key(name), "no such option", value)
        parts = self._file.header.metadata.get("split.count", 0)
        require(parts in (0, 1), "split.count", "a model in one file", parts)
