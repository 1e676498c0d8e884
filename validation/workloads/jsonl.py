"""A user's own prompts: one JSON object per line. Every broken line is named, none is left out in silence."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.errors import PromptFileError, ValueRangeError, check
from tq_core.model.chat import Message
from tq_core.model.interface import LanguageModel
from validation.workloads.conversation import conversation, literal_ids
from validation.workloads.jsonl_lines import Fault, read_lines, refuse, short
from validation.workloads.prompt import NOTHING, Prompt
from validation.workloads.task import as_tokens
from validation.workloads.workload import Workload

FILE_BYTES = 64 << 20


def _spoken(model: LanguageModel, field: str, text: str) -> np.ndarray:
    """Token ids, int32 (n,), of a continuation. Raises ValueRangeError for one that the vocabulary cannot write at all."""
    ids = literal_ids(model, text)
    check(len(ids) > 0, field, f"text that {model.name} can write", short(text), ValueRangeError)
    return as_tokens(ids)


def _prompt(model: LanguageModel, value: dict[str, Any], workload: str, sha256: str) -> Prompt:
    stop_ids: tuple[int, ...] = ()
    space, floor = "", value.get("floor", "")
    if "messages" in value:
        turns = conversation(model, [Message(m["role"], m["content"]) for m in value["messages"]])
        ids, stop_ids, space = turns.ids, turns.stop_ids, " " if turns.form == "transcript" else ""
        floor_ids = conversation(model, [Message("user", floor)]).ids if floor else []
    else:
        ids, floor_ids = literal_ids(model, value["text"], first=True), literal_ids(model, floor, first=True)
    alternatives = tuple(_spoken(model, "alternatives", space + a) for a in value.get("alternatives", ()))
    answer = _spoken(model, "answer", space + value["answer"]) if "answer" in value else NOTHING
    if len(answer) == 0 and alternatives:
        answer = alternatives[0]
    new_tokens = int(value.get("new_tokens", 0))  # JSON has one kind of number: 5.0 is whole
    whole = "text" in value and len(answer) == 0 and not new_tokens
    return Prompt(
        name=value["id"],
        style="user",
        source=workload,
        licence="the user's own",
        sha256=sha256,
        tokens=as_tokens(ids),
        workload=workload,
        scored_from=1 if whole else max(1, len(ids)),
        answer=answer,
        alternatives=alternatives,
        floor=as_tokens(floor_ids) if floor else NOTHING,
        new_tokens=new_tokens,
        stop_ids=stop_ids,
        accept=tuple(value.get("accept", ())),
        distractors=tuple(value.get("distractors", ())),
        facts={"length": len(ids)},
    )


def file_workload(path: Path | str) -> Workload:
    """The prompts of a file as a workload named after it; its version is the file's SHA-256.

    They are read as they are: the study's length is not applied. Raises PromptFileError for a file that cannot be read, is
    empty or larger than FILE_BYTES, and for broken lines; ``make`` raises it for prompts that the model cannot hold.
    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(FILE_BYTES + 1)
    except OSError as error:
        raise PromptFileError(f"{path.name}: expected a readable file, got {error.strerror}") from error
    check(len(data) <= FILE_BYTES, path.name, f"at most {FILE_BYTES} bytes", "more", PromptFileError)
    values = read_lines(data, path.name)
    sha256 = hashlib.sha256(data).hexdigest()
    name = f"file:{path.name}"

    def make(model: LanguageModel, count: int, n_tokens: int) -> list[Prompt]:
        prompts, faults = [], []
        top = model.context_length
        for number, value in enumerate(values[:count], start=1):
            try:
                prompts.append(_prompt(model, value, name, sha256))
            except ValueRangeError as error:
                faults.append(Fault(number, "prompt", f"one that {model.name} can read", str(error)))
                continue
            room = f"at most {top} tokens with its continuation, the context of {model.name}"
            made = prompts[-1]
            guessed = len(made.floor) + max(map(len, made.alternatives), default=0)
            for field, length in (("prompt", made.longest), ("floor", guessed)):
                if length > top:
                    faults.append(Fault(number, field, room, f"{length} in {short(made.name)}"))
        refuse(path.name, faults)
        return prompts

    return Workload(
        name=name,
        version=sha256,
        title=f"Prompts of {path.name}",
        shows="What happens on the user's own prompts.",
        cannot_show="Whether they are hard enough, unless they have alternatives and a floor.",
        make=make,
        least=1,
        most=len(values),
    )
