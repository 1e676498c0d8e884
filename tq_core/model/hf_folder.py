"""A folder as the Transformers library saves a model: config.json, safetensors, tokenizer.json."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.errors import ModelFileError
from tq_core.model.gguf_header import require
from tq_core.model.hf_fields import HfFields
from tq_core.model.hf_names import gguf_name, is_weight
from tq_core.model.safetensors_file import WEIGHT_TYPES, SafetensorsFile

CONFIG, TOKENIZER, WEIGHTS = "config.json", "tokenizer.json", "model.safetensors"
INDEX = "model.safetensors.index.json"
MAX_JSON_BYTES = 64 << 20  # a tokenizer of a quarter million tokens takes about 33 MB
MAX_SHARDS = 1000


@dataclass(frozen=True)
class HfFolder:
    """The files of a folder, checked but for their weights. ``held_bytes``: of its files that stay in memory."""

    fields: HfFields
    where: dict[str, tuple[SafetensorsFile, str]] = field(repr=False)  # by GGUF name: file, name in it
    path: Path
    digests: dict[str, str] = field(repr=False)  # SHA-256 (hex) of every file that was read, by name
    held_bytes = 0

    @classmethod
    def read(cls, path: Path) -> HfFolder:
        """Read the configuration and the headers, and hash the shards.

        Raises ModelFileError, naming the file and the field, for what is missing, of an unknown family or damaged.
        """
        digests: dict[str, str] = {}
        fields = HfFields(_object(path, CONFIG, digests), path.resolve().name)
        shards, listed = _shards(path, digests)
        where: dict[str, tuple[SafetensorsFile, str]] = {}
        for shard in shards:
            digests[shard.path.name] = shard.digest
            for name in filter(is_weight, shard.tensors):
                if listed is not None:
                    right = listed.pop(name, None)
                    require(
                        right == shard.path.name, f"place of {name[:80]} in {INDEX}", shard.path.name, right
                    )
                known = gguf_name(name, fields.family)
                if known == "output.weight" and fields.tied_output:
                    continue  # some checkpoints store the embedding twice
                require(known not in where, name[:80], "each tensor once", "one more")
                where[known] = shard, name
        left = sorted(filter(is_weight, listed or {}))
        require(not left, INDEX, "tensors that are in their files", ", ".join(left[:3])[:200])
        return cls(fields, where, path, digests)

    def check_tensors(self, expected: Mapping[str, tuple[int, ...]]) -> None:
        """Raise ModelFileError unless exactly these tensors are here, in these shapes and a known type."""
        for name, shape in expected.items():
            require(name in self.where, name, f"a tensor of shape {shape}", "no such tensor")
            file, stored = self.where[name]
            info = file.tensors[stored]
            require(info.shape == shape, f"shape of {stored}", f"{shape}", info.shape)
            require(
                info.dtype in WEIGHT_TYPES,
                f"type of {stored}",
                f"one of {', '.join(WEIGHT_TYPES)}",
                info.dtype,
            )
        for name in self.where:
            require(name in expected, name[:80], "no tensor that the architecture does not use", "one")

    def tensor(self, name: str) -> np.ndarray:
        """A tensor by its GGUF name, read-only float32; the errors of SafetensorsFile.tensor."""
        require(name in self.where, name, "a tensor", "no such tensor")
        file, stored = self.where[name]
        values = file.tensor(stored)
        if self.fields.family in ("gemma", "gemma3") and name.endswith("norm.weight"):
            values = values + np.float32(1.0)  # these files keep the norms' distance from 1
        values.flags.writeable = False
        return values

    def json(self, name: str) -> dict[str, Any] | None:
        """A JSON object that the folder may have beside the others; None without it. ModelFileError for no object."""
        return _object(self.path, name, self.digests) if (self.path / name).is_file() else None

    def text(self, name: str) -> str | None:
        """A text that the folder may have; None without it."""
        return _text(self.path, name, self.digests) if (self.path / name).is_file() else None

    def digest(self) -> str:
        """SHA-256 (hex) of the digests and names of all files that were read so far."""
        lines = [f"{digest}  {name}\n" for name, digest in sorted(self.digests.items())]
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def _shards(path: Path, digests: dict[str, str]) -> tuple[list[SafetensorsFile], dict[str, str] | None]:
    """The files with weights, and what the index says about which tensor is where (None without an index)."""
    if (path / WEIGHTS).is_file():
        return [SafetensorsFile.read(path / WEIGHTS)], None
    require((path / INDEX).is_file(), str(path), f"{WEIGHTS}, or {INDEX} and its files", "neither")
    listed = _object(path, INDEX, digests).get("weight_map")
    if not isinstance(listed, dict) or not all(isinstance(name, str) for name in listed.values()):
        raise ModelFileError(
            f"weight_map of {INDEX}: expected an object of file names, got {type(listed).__name__}"
        )
    names = sorted(set(listed.values()))
    require(1 <= len(names) <= MAX_SHARDS, f"weight_map of {INDEX}", f"1..{MAX_SHARDS} files", len(names))
    for name in names:
        plain = name.endswith(".safetensors") and not any(mark in name for mark in "/\\\0")
        require(plain, f"file in {INDEX}", "a plain name ending in .safetensors", repr(name[:80]))
        require((path / name).is_file(), f"file in {INDEX}", f"a file {name[:80]} beside it", "no such file")
    return [SafetensorsFile.read(path / name) for name in names], dict(listed)


def _text(path: Path, name: str, digests: dict[str, str]) -> str:
    require((path / name).is_file(), str(path), f"a file {name} in it", "no such file")
    try:
        with (path / name).open("rb") as file:
            data = file.read(MAX_JSON_BYTES + 1)
    except OSError as error:
        raise ModelFileError(f"{name}: expected a readable file, got {error}") from error
    require(len(data) <= MAX_JSON_BYTES, name, f"at most {MAX_JSON_BYTES} bytes", "more")
    digests[name] = hashlib.sha256(data).hexdigest()
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ModelFileError(f"{name}: expected UTF-8 text, got {data[:32]!r}") from None


def _object(path: Path, name: str, digests: dict[str, str]) -> dict[str, Any]:
    try:
        value = json.loads(_text(path, name, digests))
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{name}: expected JSON, got {str(error)[:80]}") from error
    require(isinstance(value, dict), name, "a JSON object", type(value).__name__)
    return value
