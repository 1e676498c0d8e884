"""Byte-level BPE, GGUF's "gpt2".

Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.2. Text is cut
into words first. For the pre-tokenizer that GGUF calls "smollm", each numeric character stands alone and
the rest is cut by GPT-2's pattern; then the merges are applied inside each word.
"""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tq_core.model.gguf_file import GgufFile
from tq_core.model.gguf_header import require
from tq_core.model.vocabulary import Recipe, Vocabulary, strings

PRE_TOKENIZER = "smollm"


def recipe(file: GgufFile, vocabulary: Vocabulary) -> Recipe:
    """The tokenizer of a file; ModelFileError names the field that is wrong."""
    key = "tokenizer.ggml.pre"
    got = file.metadata(key, str)
    require(got == PRE_TOKENIZER, key, repr(PRE_TOKENIZER), repr(got))
    joined = strings(file, "tokenizer.ggml.merges")
    merges = [_pair(merge) for merge in joined]
    ids = vocabulary.all_ids()
    for left, right in merges:
        known = left in ids and right in ids and left + right in ids
        require(known, "tokenizer.ggml.merges", "tokens of the vocabulary", f"{left!r} {right!r}")

    def make() -> Tokenizer:
        tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges))
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    return Recipe(make, lambda ids: ids, {"pre": PRE_TOKENIZER, "merges": joined})


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    ok = bool(left and right) and " " not in right
    require(ok, "tokenizer.ggml.merges", "two pieces", repr(merge))
    return left, right
