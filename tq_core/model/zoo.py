"""The models by name."""

from __future__ import annotations

from functools import lru_cache

from tq_core.errors import ModelUnavailable, ValueRangeError, check
from tq_core.model.fetch import fetch
from tq_core.model.interface import LanguageModel
from tq_core.model.sources import SOURCES, model_path

_NAMES = ("tiny", *SOURCES)


def model_names() -> list[str]:
    """Names that load_model takes; the first is the default."""
    return list(_NAMES)


def load_model(name: str = "tiny", *, may_fetch: bool = True) -> LanguageModel:
    """Load a model; a second call with the same name returns the same object, whose weights are read-only.

    "tiny" comes with the repository. The others are read from the user's cache directory and, with
    ``may_fetch``, fetched into it first when they are not there; the terms of "gemma" are said then. Raises
    ValueRangeError for an unknown name, ModelUnavailable (with what to do) when the file is missing and
    cannot be fetched, and ModelFileError when the file there is not the expected one.
    """
    check(name in _NAMES, "model", f"one of {', '.join(_NAMES)}", name, ValueRangeError)
    if name == "tiny":
        return _load_tiny()
    source = SOURCES[name]
    path = model_path(source)
    if not path.exists():
        if not may_fetch:
            raise ModelUnavailable(f"model {name}: expected {path}, got no such file. {source.advice()}")
        fetch(source)
    return _load_gguf(name, str(path), source.file_sha256)


@lru_cache(maxsize=1)
def _load_tiny() -> LanguageModel:
    from tq_core.model.tiny import load_tiny

    return load_tiny()


@lru_cache(maxsize=1)
def _load_gguf(name: str, path: str, digest: str) -> LanguageModel:
    from tq_core.model.gguf_file import GgufFile
    from tq_core.model.transformer import DecoderModel

    return DecoderModel.from_gguf(GgufFile.read(path, digest), name)
