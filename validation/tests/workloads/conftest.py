"""A stand-in that reads text: one token per character, so that everything about lengths and places can be counted."""

import pytest

from tq_core.shapes import ModelShape


class CharacterModel:
    """Enough of a model for making prompts; it has no conversation format, so it reads transcripts."""

    name, context_length, vocab_size, digest = "characters", 32768, 128, "0" * 64
    shape = ModelShape(1, 1, 1, 16)

    def tokenize(self, text):
        return [ord(c) % 128 for c in text]

    def detokenize(self, ids):
        return "".join(map(chr, ids))


@pytest.fixture(scope="session")
def characters():
    return CharacterModel()
