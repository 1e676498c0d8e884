"""The lines of a user's file of prompts: what each of them may be, and every broken one named."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema

from tq_core.errors import PromptFileError, check

LINE_BYTES = 1 << 20
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


def refuse(name: str, faults: list[Fault]) -> None:
    """Raise PromptFileError that names every fault, when there are any."""
    if not faults:
        return
    told = [str(f) for f in faults[:NAMED]]
    rest = ", ".join(str(n) for n in dict.fromkeys(f.line for f in faults[NAMED:]))
    more = [f"and lines {rest}"] if rest else []
    raise PromptFileError(f"{name}: expected prompts on all lines, got\n  " + "\n  ".join([*told, *more]))


def short(value: Any) -> str:
    """A value as a message shows it."""
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
        got = f"{error}: {short(line[:60].decode('utf-8', 'replace'))}" if line.strip() else "an empty line"
        return {}, [Fault(number, "line", "a JSON object", got)]
    return (
        (value, [])
        if isinstance(value, dict)
        else ({}, [Fault(number, "line", "a JSON object", short(value))])
    )


def _where(path: Sequence[str | int]) -> str:
    """The place of a value as a message names it, such as ``messages[1].role``; empty for the object itself."""
    return "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in path).removeprefix(".")


def _expected(error: jsonschema.ValidationError, fields: Mapping[str, Any]) -> str:
    """The description of the place that is wrong, or of its field where the place has none."""
    of_field = fields[str(error.absolute_path[0])]["description"]
    return str(error.schema.get("description", of_field)) if isinstance(error.schema, dict) else str(of_field)


def _faults(number: int, value: dict[str, Any]) -> Iterator[Fault]:
    """What the schema and the rules between fields find wrong with an object."""
    validator, schema = _schema()
    fields = schema["properties"]
    for missing in [n for n in schema["required"] if n not in value]:
        yield Fault(number, missing, fields[missing]["description"], "nothing")
    for unknown in [n for n in value if n not in fields]:
        yield Fault(number, unknown[:60], f"one of the fields {', '.join(fields)}", "another field")
    told: set[str] = set()
    for error in sorted(validator.iter_errors(value), key=lambda e: [str(p) for p in e.absolute_path]):
        where = _where(list(error.absolute_path))
        if where and where not in told:
            told.add(where)
            yield Fault(number, where, _expected(error, fields), short(error.instance))
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
                wrong.append(Fault(number, "id", f"a name that line {before} does not have", short(label)))
        values.append(value)
        faults += wrong
    refuse(name, faults)
    return values
