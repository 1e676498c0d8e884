"""Byte-level BPE, GGUF's "gpt2".

Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.2. Text is cut into words
first, by a rule that GGUF only names; then the merges are applied inside each word. The rules are those of the models'
own tokenizer.json: for "smollm" each numeric character stands alone and the rest is cut by GPT-2's pattern;
"llama-bpe" (Llama 3) and "qwen2" (Qwen2 to Qwen3) have a pattern of their own, with up to three digits or with one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from tq_core.model.gguf_file import GgufFile
from tq_core.model.gguf_header import require
from tq_core.model.vocabulary import Recipe, Vocabulary, strings

_PATTERN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}DIGITS| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"


@dataclass(frozen=True)
class _Rule:
    """How text becomes words. whole_words: a word that is a token is not merged from its parts."""

    cut: Callable[[], Any]
    normalizer: Callable[[], Any] | None = None
    whole_words: bool = False


def _smollm() -> Any:
    return pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )


def _by_pattern(digits: str) -> Any:
    split = pre_tokenizers.Split(Regex(_PATTERN.replace("DIGITS", digits)), behavior="isolated")
    to_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    return pre_tokenizers.Sequence([split, to_bytes])


# Qwen's tokenizer.json composes characters first. llama.cpp does not; text that is composed already is the same for both.
_RULES = {
    "smollm": _Rule(_smollm),
    "llama-bpe": _Rule(lambda: _by_pattern("{1,3}"), whole_words=True),
    "qwen2": _Rule(lambda: _by_pattern(""), normalizer=normalizers.NFC),
}


def recipe(file: GgufFile, vocabulary: Vocabulary) -> Recipe:
    """The tokenizer of a file; ModelFileError names the field that is wrong."""
    key = "tokenizer.ggml.pre"
    got = file.metadata(key, str)
    require(got in _RULES, key, f"one of {', '.join(_RULES)}", repr(got))
    rule = _RULES[got]
    joined = strings(file, "tokenizer.ggml.merges")
    merges = [_pair(merge) for merge in joined]
    ids = vocabulary.all_ids()
    for left, right in merges:
        known = left in ids and right in ids and left + right in ids
        require(known, "tokenizer.ggml.merges", "tokens of the vocabulary", f"{left!r} {right!r}")

    def make() -> Tokenizer:
        model = models.BPE(vocab=ids, merges=merges, ignore_merges=rule.whole_words)
        tokenizer = Tokenizer(model)
        if rule.normalizer is not None:
            tokenizer.normalizer = rule.normalizer()
        tokenizer.pre_tokenizer = rule.cut()
        tokenizer.decoder = decoders.ByteLevel()
        return tokenizer

    return Recipe(make, lambda ids: ids, {"pre": got, "merges": joined})


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    ok = bool(left and right) and " " not in right
    require(ok, "tokenizer.ggml.merges", "two pieces", repr(merge))
    return left, right
