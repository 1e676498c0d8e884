"""SentencePiece's BPE, GGUF's "llama": characters are merged into pieces, best score first.

Kudo and Richardson, "SentencePiece" (arXiv 1808.06226), section 3.1: of all neighbours whose joined text is a piece,
those with the best score are joined first, the leftmost first among equals, with a heap in O(n log n). A space is
written as U+2581; a character that is no piece becomes its UTF-8 bytes. The vocabulary has scores and no list of
merges. Such a list would hold every way to cut every piece in two, half a million for Gemma, which takes longer to
make than the rest of the model; so the library finds special tokens, characters and bytes, and merging is done here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Any

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers

from tq_core.cache.canonical import array_digest
from tq_core.model.gguf_file import GgufFile
from tq_core.model.gguf_header import require
from tq_core.model.vocabulary import BYTE, NORMAL, USER_DEFINED, Recipe, Vocabulary

SPACE = "\u2581"
END = -1


def recipe(file: GgufFile, vocabulary: Vocabulary) -> Recipe:
    """The tokenizer of a file; ModelFileError names the field that is wrong."""
    prefix = file.metadata("tokenizer.ggml.add_space_prefix", bool, True)
    key = "tokenizer.ggml.scores"
    scores = file.metadata(key, list)
    ok = len(scores) == len(vocabulary.tokens) and all(isinstance(score, float) for score in scores)
    require(ok, key, f"{len(vocabulary.tokens)} numbers", f"{len(scores)} entries")
    pieces = vocabulary.of_kinds(NORMAL)
    single = {piece for piece in pieces if len(piece) == 1}
    rare = set("".join(pieces)) - single
    require(
        not rare, "tokenizer.ggml.tokens", "a piece for every character of a piece", f"{len(rare)} without"
    )
    missing = {f"<0x{byte:02X}>" for byte in range(256)} - set(vocabulary.of_kinds(BYTE))
    require(not missing, "tokenizer.ggml.tokens", "a token for every byte", f"{len(missing)} missing")
    ids = vocabulary.all_ids()
    unknown = vocabulary.tokens[vocabulary.id_of(file, "unknown")]

    def make() -> Tokenizer:
        tokenizer = Tokenizer(models.BPE(vocab=ids, merges=[], byte_fallback=True, unk_token=unknown))
        spaces = normalizers.Replace(" ", SPACE)
        parts = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
        if prefix:  # Llama 2: a space before every text, and before what follows a special token
            tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), spaces])
            tokenizer.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)])
        else:
            tokenizer.normalizer = spaces
            tokenizer.decoder = decoders.Sequence(parts)
        return tokenizer

    facts: dict[str, Any] = {"scores": array_digest(np.asarray(scores, "<f8"))}
    if prefix:
        facts["prefix"] = SPACE
    merger = PieceMerger(vocabulary.tokens, scores, pieces)
    return Recipe(make, merger.merge, facts, always=(USER_DEFINED,), adds_begin=True)


@dataclass(frozen=True)
class PieceMerger:
    """``tokens`` by id; ``scores`` by id; ``ids`` of the pieces that text may be merged into, by text."""

    tokens: Sequence[str]
    scores: Sequence[float]
    ids: dict[str, int]

    def merge(self, characters: Sequence[int]) -> list[int]:
        """Ids of pieces from ids of single characters. Other ids, such as of bytes, stay and part their neighbours."""
        symbols = list(characters)
        after = [*range(1, len(symbols)), END]
        before = list(range(-1, len(symbols) - 1))
        heap: list[tuple[float, int, int, int, int]] = []

        def offer(left: int, right: int) -> None:
            if left != END and right != END:
                a, b = symbols[left], symbols[right]
                joined = self.ids.get(self.tokens[a] + self.tokens[b])
                if joined is not None and self.tokens[a] in self.ids and self.tokens[b] in self.ids:
                    heappush(heap, (-self.scores[joined], left, a, b, joined))

        for left in range(len(symbols) - 1):
            offer(left, left + 1)
        while heap:
            _, left, a, b, joined = heappop(heap)
            right = after[left]
            # Since it was offered, one of the two may have become part of something else.
            if symbols[left] != a or right == END or symbols[right] != b:
                continue
            symbols[left], symbols[right] = joined, END
            after[left] = after[right]
            if after[right] != END:
                before[after[right]] = left
            offer(before[left], left)
            offer(left, after[left])
        return [symbol for symbol in symbols if symbol != END]
