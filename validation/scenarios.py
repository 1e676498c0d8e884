"""What is read: documents as token ids, hashed, the same for every arm.

The real model reads the texts of ``validation/texts`` (manifest.json: style, licence, source, SHA-256). The
tiny transformer knows only its own words, so it reads seeded episodes of its retrieval task, whose answers
also give a retrieval accuracy.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path

import numpy as np

from tq_core.errors import ModelFileError, ValueRangeError, check
from tq_core.model.interface import LanguageModel
from tq_core.model.tiny_task import ANSWER_LENGTH, STATEMENT_LENGTH, make_episode

TEXTS = Path(__file__).with_name("texts")
EPISODE_SEED = 20_000  # far from the seeds of training
EPISODE_BINDINGS = 24
EPISODE_QUERIES = 8


@dataclass(frozen=True)
class Document:
    """tokens int32 (n_tokens,). ``answers`` index the scored rows that predict an answer to be retrieved."""

    name: str
    style: str
    source: str
    licence: str
    sha256: str
    tokens: np.ndarray
    answers: tuple[np.ndarray, ...] = field(default=())

    @property
    def n_scored(self) -> int:
        """Tokens that are predicted from what comes before them: all but the first."""
        return len(self.tokens) - 1

    def describe(self) -> dict[str, object]:
        """JSON-able form with the digest of the token ids in place of the ids."""
        ids = np.ascontiguousarray(self.tokens, "<i4").tobytes()
        return {
            "name": self.name,
            "style": self.style,
            "source": self.source,
            "licence": self.licence,
            "sha256": self.sha256,
            "tokens": len(self.tokens),
            "tokens_sha256": hashlib.sha256(ids).hexdigest(),
        }


def text_entries(folder: Path = TEXTS) -> list[dict[str, str]]:
    """Entries of the manifest in reading order. Raises ModelFileError when it is missing or damaged."""
    try:
        entries = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["texts"]
        return [{k: str(e[k]) for k in ("file", "style", "source", "licence", "sha256")} for e in entries]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelFileError(
            f"{folder.name}/manifest.json: expected a readable list of texts, got {error!r}"
        ) from error


def read_text(entry: dict[str, str], folder: Path = TEXTS) -> str:
    """One text, checked against its digest. Raises ModelFileError when it is missing or altered."""
    try:
        data = (folder / entry["file"]).read_bytes()
    except OSError as error:
        raise ModelFileError(f"{entry['file']}: expected a readable text, got {error.strerror}") from error
    digest = hashlib.sha256(data).hexdigest()
    check(
        digest == entry["sha256"],
        entry["file"],
        f"SHA-256 {entry['sha256'][:16]}...",
        f"{digest[:16]}...",
        ModelFileError,
    )
    return data.decode("utf-8")


def text_documents(model: LanguageModel, count: int, n_tokens: int, folder: Path = TEXTS) -> list[Document]:
    """The first ``count`` texts, each cut to ``n_tokens`` tokens.

    Raises ValueRangeError when there are fewer texts or one is shorter than that.
    """
    entries = text_entries(folder)
    check(
        1 <= count <= len(entries),
        "tokens",
        f"at most {len(entries)} texts of {n_tokens} tokens",
        f"{count} texts",
        ValueRangeError,
    )
    return [text_document(model, entry, n_tokens, folder) for entry in entries[:count]]


def text_document(
    model: LanguageModel, entry: dict[str, str], n_tokens: int, folder: Path = TEXTS
) -> Document:
    """One text of the manifest, cut to ``n_tokens`` tokens. Raises ValueRangeError when it is shorter than that."""
    ids = model.tokenize(read_text(entry, folder))
    check(
        len(ids) >= n_tokens,
        "length",
        f"at most {len(ids)} tokens, the length of {entry['file']}",
        n_tokens,
        ValueRangeError,
    )
    return Document(
        name=Path(entry["file"]).stem,
        style=entry["style"],
        source=entry["source"],
        licence=entry["licence"],
        sha256=entry["sha256"],
        tokens=np.asarray(ids[:n_tokens], np.int32),
    )


def episode_documents(count: int, n_tokens: int, first: int = 0) -> list[Document]:
    """Seeded retrieval episodes ``first``, first + 1, ... for the tiny model; their questions come last, far from most answers."""
    check(count >= 1, "count", "at least one episode", count, ValueRangeError)
    least = 1 + STATEMENT_LENGTH * (1 + EPISODE_QUERIES)
    check(
        n_tokens >= least,
        "length",
        f"at least {least} tokens, an episode with its questions",
        n_tokens,
        ValueRangeError,
    )
    bindings = min(EPISODE_BINDINGS, (n_tokens - 1) // STATEMENT_LENGTH - EPISODE_QUERIES)
    documents = []
    for index in range(first, first + count):
        seed = EPISODE_SEED + index
        episode = make_episode(seed, n_tokens, bindings, EPISODE_QUERIES)
        rows = tuple(np.arange(q.position, q.position + ANSWER_LENGTH) for q in episode.queries)
        digest = hashlib.sha256(episode.text.encode()).hexdigest()
        source = f"make_episode(seed={seed}, n_tokens={n_tokens}, n_bindings={bindings})"
        documents.append(
            Document(f"episode-{seed}", "retrieval", source, "Apache-2.0", digest, episode.tokens, rows)
        )
    return documents


def documents_for(model: LanguageModel, total: int, length: int, folder: Path = TEXTS) -> list[Document]:
    """Documents of ``length`` tokens for this model with at least ``total`` scored tokens in all.

    Raises ValueRangeError for a length outside 2..context_length or a total that the texts cannot give.
    """
    check(
        2 <= length <= model.context_length,
        "length",
        f"2..{model.context_length} tokens",
        length,
        ValueRangeError,
    )
    check(total >= 1, "tokens", "at least 1 scored token", total, ValueRangeError)
    count = ceil(total / (length - 1))
    if model.name == "tiny":
        return episode_documents(count, length)
    return text_documents(model, count, length, folder)
