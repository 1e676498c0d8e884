"""The texts of the manifest as they are: every token but the first is predicted and scored."""

from __future__ import annotations

from tq_core.model.interface import LanguageModel
from validation.scenarios import text_documents
from validation.workloads.prompt import Prompt
from validation.workloads.workload import Workload

NAME, VERSION = "text", 1
TEXTS_THERE = 48


def _make(model: LanguageModel, count: int, n_tokens: int) -> list[Prompt]:
    return [Prompt.of(d) for d in text_documents(model, count, n_tokens)]


WORKLOAD = Workload(
    name=NAME,
    version=VERSION,
    title="Ordinary text",
    shows="How far next-token predictions move on prose, reference text and code, averaged over all positions.",
    cannot_show="Whether answers stay right: a good average hides single tokens that decide a reply.",
    make=_make,
    least=2,
    most=TEXTS_THERE,
)
