"""The models by name, and any model by its path."""

from __future__ import annotations

import sys
from functools import lru_cache
from pathlib import Path

from tq_core.errors import ModelFileError, ModelUnavailable, ValueRangeError, check
from tq_core.model.config import DecoderConfig
from tq_core.model.fetch import fetch
from tq_core.model.interface import LanguageModel
from tq_core.model.sources import SOURCES, model_path

_NAMES = ("tiny", *SOURCES)
_SUFFIXES = (".gguf", ".json", ".safetensors")
_LARGE_BYTES = 1 << 30


def model_names() -> list[str]:
    """Names that load_model takes; the first is the default."""
    return list(_NAMES)


def is_model_path(name: str) -> bool:
    """Whether ``name`` is meant as a path: it has a slash or ends as a model file does.

    What looks like a name is not searched for in the file system.
    """
    return any(mark in name for mark in "/\\") or name.endswith(_SUFFIXES)


def load_model(name: str = "tiny", *, may_fetch: bool = True) -> LanguageModel:
    """Load a model; a second call with the same name returns the same object, whose weights are read-only.

    "tiny" comes with the repository. The others are read from the user's cache directory and, with ``may_fetch``,
    fetched into it first when they are not there; the terms of "gemma" are said then. A path (``is_model_path``) is
    that of a GGUF file or of a folder with config.json, safetensors and tokenizer.json, or of one of these files; the
    model is called as its file or folder is. Raises ValueRangeError for an unknown name, ModelUnavailable (with what
    to do) when the file of a known name is missing and cannot be fetched or weights exceed the machine's memory, and
    ModelFileError when a path leads to nothing, to a family that is not supported, or to files that are damaged.
    """
    if is_model_path(name):
        return _load_path(Path(name))
    known = f"one of {', '.join(_NAMES)}, or a path with a slash in it or ending in {', '.join(_SUFFIXES)}"
    check(name in _NAMES, "model", known, repr(name[:80]), ValueRangeError)
    if name == "tiny":
        return _load_tiny()
    source = SOURCES[name]
    path = model_path(source)
    if not path.exists():
        if not may_fetch:
            raise ModelUnavailable(f"model {name}: expected {path}, got no such file. {source.advice()}")
        fetch(source)
    return _load_gguf(name, str(path), source.file_sha256)


def _load_path(path: Path) -> LanguageModel:
    try:
        path = path.expanduser().resolve()
        there = path.is_dir() or path.is_file()
    except (OSError, RuntimeError, ValueError) as error:  # no home, a loop of links, a zero byte
        raise ModelFileError(f"model: expected a path, got {str(error)[:120]}") from error
    if not there:
        raise ModelFileError(
            f"model: expected a GGUF file or a folder with config.json, got no such path: {path}"
        )
    if path.is_file() and path.suffix in (".json", ".safetensors"):
        path = path.parent
    return _load_own(str(path), _stamps(path))


def _stamps(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of change: with others, the model is loaded again."""
    files = sorted(entry for entry in path.iterdir() if entry.is_file()) if path.is_dir() else [path]
    return tuple((file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files)


@lru_cache(maxsize=1)
def _load_tiny() -> LanguageModel:
    from tq_core.model.tiny import load_tiny

    return load_tiny()


@lru_cache(maxsize=1)
def _load_gguf(name: str, path: str, digest: str) -> LanguageModel:
    from tq_core.model.gguf_file import GgufFile
    from tq_core.model.transformer import DecoderModel

    return DecoderModel.from_gguf(GgufFile.read(path, digest), name)


@lru_cache(maxsize=1)
def _load_own(given: str, stamps: tuple[tuple[str, int, int], ...]) -> LanguageModel:
    from tq_core.model.architectures import read_config
    from tq_core.model.gguf_fields import GgufFields
    from tq_core.model.gguf_file import GgufFile
    from tq_core.model.hf_folder import HfFolder
    from tq_core.model.transformer import DecoderModel

    path = Path(given)
    # A file called like one of the models here must not pass for it.
    name = path.name if path.name not in _NAMES else f"{path.name} (folder)"
    if path.is_dir():
        folder = HfFolder.read(path)
        _say_size(name, read_config(folder.fields))
        return DecoderModel.from_folder(folder, name)
    file = GgufFile.read(path)
    _say_size(name, read_config(GgufFields(file)))
    return DecoderModel.from_gguf(file, name)


def _say_size(name: str, config: DecoderConfig) -> None:
    if config.weight_bytes >= _LARGE_BYTES:
        text = f"{name}: {config.weight_bytes / 1e9:.1f} GB of weights as float32"
        print(text, file=sys.stderr, flush=True)
