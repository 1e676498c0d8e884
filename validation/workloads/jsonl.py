"""A user's own prompts: one JSON object per line. Every broken line is named, none is left out in silence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema

from tq_core.errors import PromptFileError, ValueRangeError, check
from tq_core.model.chat import Message
from tq_core.model.interface import LanguageModel
from validation.workloads.conversation import conversation, literal_ids
from validation.workloads.prompt import NOTHING, Prompt
from validation.workloads.task import as_tokens
from validation.workloads.workload import Workload

FILE_BYTES, LINE_BYTES = 64 << 20, 1 << 20
NAMED = 100  # faults told in full; of more, the lines are told
SCHEMA = Path(__file__).parents[1] / "schema" / "prompts-v1.schema.json"
BOM = b"\xef\xbb\xbf"  # some editors put it before UTF-8; it belongs to no line


@dataclass(frozen=True)
class Fault:
    """What is wrong with one line, counted from 1."""

    line: int
    field: str
    expected: str
    got: str

    def __str__(self) -> str:
        return f"line {self.line}: {self.field}: expected {self.expected}, got {self.got}"


def _refuse(name: str, faults: list[Fault]) -> None:
    if not faults:
        return
    told = [str(f) for f in faults[:NAMED]]
    rest = ", ".join(str(n) for n in dict.fromkeys(f.line for f in faults[NAMED:]))
    more = [f"and lines {rest}"] if rest else []
    raise PromptFileError(f"{name}: expected prompts on all lines, got\n  " + "\n  ".join([*told, *more]))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


@lru_cache(maxsize=1)
def _schema() -> tuple[Any, dict[str, Any]]:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(schema), schema


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose names differ; JSON itself would keep the last of two in silence."""
    twice = {name for n, (name, _) in enumerate(pairs) if name in dict(pairs[:n])}
    if twice:
        raise ValueError(f"the field {sorted(twice)[0]!r} twice")
    return dict(pairs)


def _not_a_number(text: str) -> None:
    raise ValueError(f"{text}, which JSON does not have")


def _object(number: int, line: bytes) -> tuple[dict[str, Any], list[Fault]]:
    """The object on a line, or what is wrong with it."""
    if len(line) > LINE_BYTES:
        return {}, [Fault(number, "line", f"at most {LINE_BYTES} bytes", str(len(line)))]
    try:
        value = json.loads(line.decode("utf-8"), object_pairs_hook=_once, parse_constant=_not_a_number)
        json.dumps(value, ensure_ascii=False).encode("utf-8")  # halves of a surrogate pair are no text
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        return {}, [Fault(number, "line", "UTF-8", f"{error.reason} at position {error.start}")]
    except RecursionError:
        return {}, [Fault(number, "line", "JSON that is not nested this deeply", f"{len(line)} bytes of it")]
    except ValueError as error:
        got = f"{error}: {_short(line[:60].decode('utf-8', 'replace'))}" if line.strip() else "an empty line"
        return {}, [Fault(number, "line", "a JSON object", got)]
    return (
        (value, [])
        if isinstance(value, dict)
        else ({}, [Fault(number, "line", "a JSON object", _short(value))])
    )


def _faults(number: int, value: dict[str, Any]) -> Iterator[Fault]:
    """What the schema and the rules between fields find wrong with an object."""
    validator, schema = _schema()
    fields = schema["properties"]
    for missing in [n for n in schema["required"] if n not in value]:
        yield Fault(number, missing, fields[missing]["description"], "nothing")
    for unknown in [n for n in value if n not in fields]:
        yield Fault(number, unknown[:60], f"one of the fields {', '.join(fields)}", "another field")
    wrong = {str(e.absolute_path[0]) for e in validator.iter_errors(value) if e.absolute_path}
    for name in sorted(wrong):
        yield Fault(number, name, fields[name]["description"], _short(value[name]))
    both = sum(n in value for n in ("text", "messages"))
    if both != 1:
        yield Fault(number, "text", "either text or messages", "both" if both else "neither")
    scored = any(n in value for n in ("answer", "alternatives")) or value.get("new_tokens")
    if "messages" in value and not scored:
        yield Fault(number, "answer", "an answer, alternatives or new_tokens after messages", "none of them")
    if ("accept" in value or "distractors" in value) and not value.get("new_tokens"):
        yield Fault(
            number, "new_tokens", "1 or more where a reply is judged by accept or distractors", "none"
        )


def read_lines(data: bytes, name: str) -> list[dict[str, Any]]:
    """The objects of a file's lines. Raises PromptFileError that names every broken line."""
    lines = data.removeprefix(BOM).split(b"\n")
    lines = lines[:-1] if not lines[-1] else lines
    check(bool(lines), name, "one prompt or more", "an empty file", PromptFileError)
    values, faults = [], []
    first_with: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        value, wrong = _object(number, line.removesuffix(b"\r"))
        wrong = wrong or list(_faults(number, value))
        label = value.get("id")
        if isinstance(label, str):
            before = first_with.setdefault(label, number)
            if before != number:
                wrong.append(Fault(number, "id", f"a name that line {before} does not have", _short(label)))
        values.append(value)
        faults += wrong
    _refuse(name, faults)
    return values


def _prompt(model: LanguageModel, value: dict[str, Any], workload: str, sha256: str) -> Prompt:
    stop_ids: tuple[int, ...] = ()
    space, floor = "", value.get("floor", "")
    if "messages" in value:
        turns = conversation(model, [Message(m["role"], m["content"]) for m in value["messages"]])
        ids, stop_ids, space = turns.ids, turns.stop_ids, " " if turns.form == "transcript" else ""
        floor_ids = conversation(model, [Message("user", floor)]).ids if floor else []
    else:
        ids, floor_ids = literal_ids(model, value["text"], first=True), literal_ids(model, floor, first=True)
    alternatives = tuple(as_tokens(literal_ids(model, space + a)) for a in value.get("alternatives", ()))
    answer = as_tokens(literal_ids(model, space + value["answer"])) if "answer" in value else NOTHING
    if len(answer) == 0 and alternatives:
        answer = alternatives[0]
    whole = "text" in value and len(answer) == 0 and not value.get("new_tokens")
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
        new_tokens=value.get("new_tokens", 0),
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
            if prompts[-1].longest > top:
                room = f"at most {top} tokens with its continuation, the context of {model.name}"
                faults.append(Fault(number, value["id"], room, str(prompts[-1].longest)))
        _refuse(path.name, faults)
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
