"""Where the vectors come from: a model reading a text, or files; after that nothing differs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tq_core.errors import ShapeError, ValueRangeError, check
from tq_core.math.rotary import Rotary
from tq_core.model.capture import capture_qkv
from tq_core.model.interface import LanguageModel
from validation.diagnose.npy import F32, LEAST_TOKENS, read_npy
from validation.scenarios import documents_for
from validation.workloads.conversation import literal_ids

DEFAULT_TOKENS = 512
MAX_TEXT_BYTES = 1 << 22
RotaryOf = Callable[[int], "Rotary | None"]


@dataclass(frozen=True)
class Vectors:
    """One sequence, its first token at position 0, as a cache receives it: after RoPE.

    keys, values float32 (n_layers, n_tokens, n_kv_heads, head_dim), queries (.., n_query_heads, ..); values and queries
    may be missing. rotary: per layer, None where it is not known. Raises ShapeError when they do not belong together.
    """

    source: str
    keys: F32
    values: F32 | None
    queries: F32 | None
    rotary: tuple[Rotary | None, ...]
    text: str = ""

    def __post_init__(self) -> None:
        shape = self.keys.shape
        if self.values is not None:
            got = self.values.shape
            check(got == shape, "values", f"shape {shape} as the keys", got, ShapeError)
        if self.queries is not None:
            got = self.queries.shape
            same = (got[:2], got[3]) == (shape[:2], shape[3]) and got[2] % shape[2] == 0
            want = f"shape {shape} as the keys, or a multiple of {shape[2]} heads"
            check(same, "queries", want, got, ShapeError)

    @property
    def digest(self) -> str:
        """SHA-256 of everything that is measured."""
        digest = hashlib.sha256()
        for array in (self.keys, self.values, self.queries):
            if array is not None:
                digest.update(f"{array.shape}".encode() + np.ascontiguousarray(array, "<f4").tobytes())
        return digest.hexdigest()


def from_files(
    keys: Path, values: Path | None, queries: Path | None, rotary: Rotary | None, bfloat16: bool = False
) -> Vectors:
    """The vectors of .npy files. Raises the errors of ``read_npy``, naming the file's role."""
    k = read_npy(keys, "keys", bfloat16)
    v = None if values is None else read_npy(values, "values", bfloat16)
    q = None if queries is None else read_npy(queries, "queries", bfloat16)
    return Vectors(keys.name, k, v, q, (rotary,) * len(k))


def from_model(model: LanguageModel, n_tokens: int = DEFAULT_TOKENS, text: Path | None = None) -> Vectors:
    """What a model hands to its cache on a text of its own documents, or of ``text``, with exact attention.

    Raises ValueRangeError for fewer than 32 tokens, more than the text or the context has, or a file that is no text.
    """
    most = model.context_length
    ok = LEAST_TOKENS <= n_tokens <= most
    check(ok, "tokens", f"{LEAST_TOKENS}..{most}", n_tokens, ValueRangeError)
    if text is None:
        document = documents_for(model, 1, n_tokens)[0]
        ids, told = document.tokens, document.name
    else:
        ids, told = np.asarray(literal_ids(model, _read(text), first=True), np.int32), text.name
        check(len(ids) >= n_tokens, "text", f"{n_tokens} tokens or more", len(ids), ValueRangeError)
        ids = ids[:n_tokens]
    layers = capture_qkv(model, ids)
    queries, keys, values = (np.stack(part) for part in zip(*layers, strict=True))
    of: RotaryOf | None = getattr(model, "rotary_of", None)
    rotary = tuple(of(layer) if of else None for layer in range(len(layers)))
    return Vectors(model.name, keys, values, queries, rotary, told)


def _read(path: Path) -> str:
    try:
        check(path.stat().st_size <= MAX_TEXT_BYTES, "text", f"at most {MAX_TEXT_BYTES:,} bytes", path.stat().st_size, ValueRangeError)  # fmt: skip
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ValueRangeError(f"text: expected a readable file, got: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ValueRangeError(f"text: expected UTF-8, got byte {error.object[error.start]:#x}") from error
