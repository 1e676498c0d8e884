"""The texts of a comparison: some to fit on, the others to score, never the same ones."""

from __future__ import annotations

from pathlib import Path

from tq_core.errors import ValueRangeError, check
from tq_core.model.interface import LanguageModel
from validation.scenarios import TEXTS, Document, episode_documents, text_document, text_entries

# Every second one of the manifest's first texts is for fitting and for choosing anything that was chosen by looking at
# results, such as the parts of best-turbo; no score is ever made of them.
CHOSEN_FROM, CALIBRATION_EVERY = 24, 2
CALIBRATION_EPISODE = 10_000  # episodes of the tiny model's task that no evaluation reaches


def split_entries(folder: Path = TEXTS) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The manifest's entries to score and those to fit on, in reading order."""
    every = text_entries(folder)
    fitted = every[:CHOSEN_FROM:CALIBRATION_EVERY]
    return [e for e in every if e not in fitted], fitted


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
