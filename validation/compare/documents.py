"""The texts of a comparison: some to fit on, the others to score, never the same ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tq_core.errors import ValueRangeError, check
from tq_core.model.interface import LanguageModel
from validation.scenarios import TEXTS, Document, episode_documents, text_document, text_entries

# Every sixth text of the manifest is for fitting: styles alternate there, so the calibration text has several.
CALIBRATION_EVERY = 6
CALIBRATION_EPISODE = 10_000  # episodes of the tiny model's task that no evaluation reaches


def split_entries(folder: Path = TEXTS) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The manifest's entries to score and those to fit on, in reading order."""
    every = text_entries(folder)
    last = CALIBRATION_EVERY - 1
    return (
        [e for i, e in enumerate(every) if i % CALIBRATION_EVERY != last],
        [e for i, e in enumerate(every) if i % CALIBRATION_EVERY == last],
    )


def read_documents(
    model: LanguageModel, evaluation: int, calibration: int, n_tokens: int, folder: Path = TEXTS
) -> tuple[list[Document], list[Document]]:
    """(documents to score, documents to fit on), each cut to ``n_tokens``.

    Raises ValueRangeError for a length outside the model's context and for more texts than there are.
    """
    top = model.context_length
    check(2 <= n_tokens <= top, "tokens", f"2..{top} tokens per document", n_tokens, ValueRangeError)
    if model.name == "tiny":
        return (
            episode_documents(evaluation, n_tokens),
            episode_documents(calibration, n_tokens, CALIBRATION_EPISODE),
        )
    scored, fitted = split_entries(folder)
    for name, count, there in (
        ("documents", evaluation, scored),
        ("calibration", calibration, fitted),
    ):
        check(1 <= count <= len(there), name, f"1..{len(there)} texts", count, ValueRangeError)
    return (
        [text_document(model, e, n_tokens, folder) for e in scored[:evaluation]],
        [text_document(model, e, n_tokens, folder) for e in fitted[:calibration]],
    )


def calibration_tokens(model: LanguageModel, documents: list[Document]) -> np.ndarray:
    """The texts one after the other as one sequence from position 0, as fits expect, as long as the context allows."""
    return np.concatenate([d.tokens for d in documents])[: model.context_length]
