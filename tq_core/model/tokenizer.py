"""A model's tokenizer, here from a GGUF file's metadata: text to token ids and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from tokenizers import AddedToken, Tokenizer

from tq_core.cache.canonical import digest, plain
from tq_core.errors import DTypeError, ValueRangeError, check
from tq_core.model import byte_level, sentence_piece
from tq_core.model.gguf_file import GgufFile
from tq_core.model.gguf_header import require
from tq_core.model.vocabulary import CONTROL, USER_DEFINED, Vocabulary

_RECIPES = {"gpt2": byte_level.recipe, "llama": sentence_piece.recipe}


@dataclass(frozen=True)
class TextTokenizer:
    """Text to token ids and back. ``end_ids`` end a text; ``special`` maps special tokens to ids.

    ``begin`` is what a text begins with: one id, or none. ``digest`` is of everything that decides the ids.
    ``template`` is the source of the model's conversation template, empty for a model without one.
    """

    end_ids: tuple[int, ...]
    begin: tuple[int, ...]
    special: dict[str, int]
    vocab_size: int
    digest: str
    template: str = field(repr=False)
    _parsing: Tokenizer = field(repr=False)
    _literal: Tokenizer = field(repr=False)
    _merge: Callable[[Sequence[int]], Sequence[int]] = field(repr=False)

    @classmethod
    def from_gguf(cls, file: GgufFile) -> TextTokenizer:
        """Build from the ``tokenizer.*`` metadata; ModelFileError names the field that is wrong."""
        key = "tokenizer.ggml.model"
        kind = file.metadata(key, str)
        require(kind in _RECIPES, key, f"one of {', '.join(_RECIPES)}", repr(kind))
        vocabulary = Vocabulary.from_gguf(file)
        made = _RECIPES[kind](file, vocabulary)
        special = vocabulary.of_kinds(CONTROL, USER_DEFINED)
        always = set(vocabulary.of_kinds(*made.always))
        parsing, literal = made.make(), made.make()
        for tokenizer in (parsing, literal):
            tokenizer.add_tokens(
                [AddedToken(token, normalized=False, special=token not in always) for token in special]
            )
        literal.encode_special_tokens = True  # those with special=False stay single ids
        end_id, begin = vocabulary.id_of(file, "eos"), tuple[int, ...]()
        if file.metadata("tokenizer.ggml.add_bos_token", bool, made.adds_begin):
            begin = (vocabulary.id_of(file, "bos"),)
        facts = made.facts | {"tokens": vocabulary.tokens, "kinds": plain(vocabulary.kinds), "end": end_id}
        if begin:
            facts["begin"] = begin[0]
        size = len(vocabulary.tokens)
        template = file.metadata("tokenizer.chat_template", str, "")
        return cls((end_id,), begin, special, size, digest(facts), template, parsing, literal, made.merge)

    @property
    def end_id(self) -> int:
        """The first of ``end_ids``."""
        return self.end_ids[0]

    def encode(self, text: str, parse_special: bool = True) -> list[int]:
        """Token ids of ``text``, ``begin`` not included. Without ``parse_special``, "<|im_end|>" in it is ordinary characters.

        Text from outside goes in without parse_special, so that it cannot end its own turn. Bytes that the
        vocabulary lacks (SmolLM2: some control characters) are dropped, as other runtimes do.
        """
        check(isinstance(text, str), "text", "str", type(text).__name__, DTypeError)
        tokenizer = self._parsing if parse_special else self._literal
        return list(self._merge(tokenizer.encode(text, add_special_tokens=False).ids))

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """Text of ids, special tokens included; ValueRangeError for an id outside the vocabulary."""
        numbers = [int(token_id) for token_id in ids]
        for token_id in numbers:
            inside = 0 <= token_id < self.vocab_size
            check(inside, "ids", f"0..{self.vocab_size - 1}", token_id, ValueRangeError)
        return self._parsing.decode(numbers, skip_special_tokens=False)
