"""The byte-level BPE tokenizer that a GGUF file carries in its metadata.

Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.2. Text is cut
into words first. For the pre-tokenizer that GGUF calls "smollm", each numeric character stands alone and
the rest is cut by GPT-2's pattern; then the merges are applied inside each word.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tq_core.cache.canonical import digest, plain
from tq_core.errors import DTypeError, ValueRangeError, check
from tq_core.model.gguf_file import GgufFile
from tq_core.model.gguf_header import require

PRE_TOKENIZER = "smollm"
# Values of tokenizer.ggml.token_type for tokens that ordinary text never yields by merging.
_CONTROL, _USER_DEFINED = 3, 4


@dataclass(frozen=True)
class GgufTokenizer:
    """Text to token ids and back. ``end_id`` ends a turn; ``special`` maps special tokens to ids.

    ``digest`` is of everything that decides the ids: tokens, their kinds, merges, pre-tokenizer, ``end_id``.
    """

    end_id: int
    special: dict[str, int]
    vocab_size: int
    digest: str
    _parsing: Tokenizer = field(repr=False)
    _literal: Tokenizer = field(repr=False)

    @classmethod
    def from_gguf(cls, file: GgufFile) -> GgufTokenizer:
        """Build from the ``tokenizer.*`` metadata; ModelFileError names the field that is wrong."""
        for key, expected in (("tokenizer.ggml.model", "gpt2"), ("tokenizer.ggml.pre", PRE_TOKENIZER)):
            got = file.metadata(key, str)
            require(got == expected, key, repr(expected), repr(got))
        tokens = _strings(file, "tokenizer.ggml.tokens")
        joined = _strings(file, "tokenizer.ggml.merges")
        merges = [_pair(merge) for merge in joined]
        kinds = file.metadata("tokenizer.ggml.token_type", list)
        key = "tokenizer.ggml.token_type"
        require(len(kinds) == len(tokens), key, f"{len(tokens)} entries", len(kinds))
        special = {
            token: token_id
            for token_id, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
            if kind in (_CONTROL, _USER_DEFINED)
        }
        end_id = file.metadata("tokenizer.ggml.eos_token_id", int)
        in_range = 0 <= end_id < len(tokens)
        require(in_range, "tokenizer.ggml.eos_token_id", f"0..{len(tokens) - 1}", end_id)
        parsing = _build(tokens, merges, special)
        literal = _build(tokens, merges, special)
        literal.encode_special_tokens = True
        facts = {
            "pre": PRE_TOKENIZER,
            "tokens": tokens,
            "merges": joined,
            "kinds": plain(kinds),
            "end": end_id,
        }
        return cls(end_id, special, len(tokens), digest(facts), parsing, literal)

    def encode(self, text: str, parse_special: bool = True) -> list[int]:
        """Token ids of ``text``. Without ``parse_special``, "<|im_end|>" in it is ordinary characters.

        Text from outside goes in without parse_special, so that it cannot end its own turn. Bytes that the
        vocabulary lacks (SmolLM2: some control characters) are dropped, as other runtimes do.
        """
        check(isinstance(text, str), "text", "str", type(text).__name__, DTypeError)
        return (self._parsing if parse_special else self._literal).encode(text, add_special_tokens=False).ids

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Text of ids, special tokens included; ValueRangeError for an id outside the vocabulary."""
        numbers = [int(token_id) for token_id in ids]
        for token_id in numbers:
            inside = 0 <= token_id < self.vocab_size
            check(inside, "ids", f"0..{self.vocab_size - 1}", token_id, ValueRangeError)
        return self._parsing.decode(numbers, skip_special_tokens=False)


def _strings(file: GgufFile, key: str) -> list[str]:
    values = file.metadata(key, list)
    ok = len(values) > 0 and all(isinstance(value, str) for value in values)
    require(ok, key, "strings", "none or something else")
    return values


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    ok = bool(left and right) and " " not in right
    require(ok, "tokenizer.ggml.merges", "two pieces", repr(merge))
    return left, right


def _build(tokens: list[str], merges: list[tuple[str, str]], special: dict[str, int]) -> Tokenizer:
    vocabulary = {token: token_id for token_id, token in enumerate(tokens)}
    unique = len(vocabulary) == len(tokens)
    require(unique, "tokenizer.ggml.tokens", "each token once", f"{len(vocabulary)} distinct")
    for left, right in merges:
        known = left in vocabulary and right in vocabulary and left + right in vocabulary
        require(known, "tokenizer.ggml.merges", "tokens of the vocabulary", f"{left!r} {right!r}")
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    return tokenizer
