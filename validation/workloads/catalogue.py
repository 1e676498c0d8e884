"""The workloads by name, and a user's own file as one of them."""

from __future__ import annotations

import difflib

from tq_core.errors import ValueRangeError
from tq_core.model.interface import LanguageModel
from validation.workloads import (
    boundary,
    chat,
    code,
    conflict,
    episodes,
    precedence,
    refusal,
    retrieval,
    summary,
    text,
    topic,
)
from validation.workloads.jsonl import file_workload
from validation.workloads.prompt import Prompt
from validation.workloads.workload import Workload

FILE = "file:"
WORKLOADS: dict[str, Workload] = {
    module.WORKLOAD.name: module.WORKLOAD
    for module in (
        chat,
        summary,
        topic,
        text,
        retrieval,
        conflict,
        precedence,
        code,
        refusal,
        boundary,
        episodes,
    )
}


def get(name: str) -> Workload:
    """The workload called ``name``, or the prompts of "file:PATH.jsonl".

    Raises ValueRangeError with the nearest name for an unknown one, PromptFileError for a file that is not sound.
    """
    if name.startswith(FILE):
        return file_workload(name.removeprefix(FILE))
    if name not in WORKLOADS:
        near = difflib.get_close_matches(name.lower(), WORKLOADS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        known = f"one of {', '.join(WORKLOADS)}, or {FILE}PATH.jsonl"
        raise ValueRangeError(f"workload: expected {known}, got {name!r}{hint}")
    return WORKLOADS[name]


def prompts_of(model: LanguageModel, name: str, count: int, n_tokens: int) -> list[Prompt]:
    """The first ``count`` prompts of a workload at about ``n_tokens`` tokens. Raises the errors of ``get`` and of the workload."""
    return get(name).prompts(model, count, n_tokens)
