"""A model of which only the tokenizer is used: one token per byte, no conversation tokens."""

from validation.tests.test_scenarios import CharacterModel


class ByteModel(CharacterModel):
    """Its conversations are written transcripts, so lengths are those of the text."""

    name, context_length = "bytes", 1 << 15

    def tokenize(self, text):
        return list(text.encode())

    def detokenize(self, ids):
        return bytes(int(i) for i in ids).decode()
