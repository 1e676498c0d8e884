"""The tokenizer of a folder's tokenizer.json, as the `tokenizers` library runs it."""

from __future__ import annotations

from typing import Any

from tokenizers import Tokenizer

from tq_core.cache.canonical import digest
from tq_core.errors import ModelFileError
from tq_core.model.gguf_header import require
from tq_core.model.hf_folder import CONFIG, TOKENIZER, HfFolder
from tq_core.model.tokenizer import TextTokenizer

_SETTINGS, _GENERATION, _TEMPLATE = "tokenizer_config.json", "generation_config.json", "chat_template.jinja"
_MAX_END_TOKENS = 64


def read_tokenizer(folder: HfFolder, vocab_size: int) -> TextTokenizer:
    """Build from tokenizer.json, what ends a text from the configurations, and the conversation template if there is one.

    Raises ModelFileError when a file is missing or is not what the library or the model's ``vocab_size`` allows.
    """
    content = folder.text(TOKENIZER)
    if content is None:
        raise ModelFileError(f"{folder.path}: expected a {TOKENIZER}, got none")
    parsing, literal = _parsed(content), _parsed(content)
    literal.encode_special_tokens = True  # those with special=False stay single ids
    ids = parsing.get_vocab(with_added_tokens=True).values()
    require(len(ids) > 0, TOKENIZER, "a vocabulary", "none")
    require(max(ids) < vocab_size, TOKENIZER, f"ids in 0..{vocab_size - 1}", max(ids))
    special = {token.content: number for number, token in parsing.get_added_tokens_decoder().items()}
    begin = tuple(parsing.encode("", add_special_tokens=True).ids)
    sample = "a b"
    plain = parsing.encode(sample, add_special_tokens=False).ids
    framed = parsing.encode(sample, add_special_tokens=True).ids
    require(framed == [*begin, *plain], f"post_processor of {TOKENIZER}", "tokens before a text only", framed)
    ends = _end_ids(folder, vocab_size)
    facts = {"tokenizer.json": folder.digests[TOKENIZER], "end": list(ends), "begin": list(begin)}
    return TextTokenizer(
        ends, begin, special, vocab_size, digest(facts), _template(folder), parsing, literal, lambda ids: ids
    )


def _parsed(content: str) -> Tokenizer:
    try:
        tokenizer = Tokenizer.from_str(content)
        tokenizer.no_truncation()
        tokenizer.no_padding()
    except BaseException as error:
        # The library raises plain Exceptions, and what it did not expect comes as a PanicException, which is none.
        if isinstance(error, Exception) or type(error).__name__ == "PanicException":
            raise ModelFileError(f"{TOKENIZER}: expected a tokenizer, got {str(error)[:120]}") from error
        raise
    return tokenizer


def _end_ids(folder: HfFolder, vocab_size: int) -> tuple[int, ...]:
    """What ends a text: one id or several, from generation_config.json, else config.json."""
    for name in (_GENERATION, CONFIG):
        value = (folder.json(name) or {}).get("eos_token_id")
        if value is None:
            continue
        ids = value if isinstance(value, list) else [value]
        ok = 1 <= len(ids) <= _MAX_END_TOKENS and all(_is_id(n, vocab_size) for n in ids)
        require(ok, f"eos_token_id of {name}", f"ids in 0..{vocab_size - 1}", f"{value!r:.80}")
        return tuple(ids)
    raise ModelFileError(f"eos_token_id of {CONFIG}: expected an id, got none")


def _is_id(value: Any, vocab_size: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < vocab_size


def _template(folder: HfFolder) -> str:
    """The conversation template, a file of its own or a setting; empty without one. It is searched and never run."""
    own = folder.text(_TEMPLATE)
    if own is not None:
        return own
    value = (folder.json(_SETTINGS) or {}).get("chat_template")
    if isinstance(value, list):  # several by name
        named = [entry for entry in value if isinstance(entry, dict)]
        value = next((entry.get("template") for entry in named if entry.get("name") == "default"), None)
    require(
        value is None or isinstance(value, str), f"chat_template of {_SETTINGS}", "text", type(value).__name__
    )
    return value or ""
