"""What is wrong with a file that a person wrote: all faults collected and told at once, and YAML read strictly."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

import yaml

from tq_core.errors import TqError, check

MAX_BYTES = 1 << 20
_SHORT = reprlib.Repr()  # a value may be a megabyte, or refer to itself
_SHORT.maxstring, _SHORT.maxother, _SHORT.maxlevel = 80, 80, 2


def short(value: object) -> str:
    """A value as a message shows it, however large or deep it is."""
    return _SHORT.repr(value)


class Faults:
    """Collects what is wrong, so that a file is mended once and not line by line."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def check(self, ok: bool, where: str, expected: str, got: object) -> bool:
        if not ok:
            self.said.append(f"{where}: expected {expected}, got {short(got)}")
        return ok

    def name(self, value: object, where: str, known: Sequence[str]) -> bool:
        near = difflib.get_close_matches(value, known, n=1) if isinstance(value, str) else []
        hint = f" (did you mean {near[0]}?)" if near else ""
        return self.check(
            isinstance(value, str) and value in known, where, f"one of {', '.join(known)}{hint}", value
        )

    def whole(self, value: object, where: str, low: int, high: int) -> bool:
        ok = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return self.check(ok, where, f"a whole number in {low}..{high}", value)

    def number(self, value: object, where: str) -> bool:
        ok = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < float("inf")
        return self.check(ok, where, "a number, more than 0", value)

    def text(self, value: object, where: str) -> bool:
        return self.check(isinstance(value, str) and bool(value.strip()), where, "text", value)

    def rows(self, value: object, where: str, names: Sequence[str], least: int = 0) -> list[dict[str, Any]]:
        if not self.check(
            isinstance(value, list) and len(value) >= least, where, f"a list of at least {least}", value
        ):
            return []
        kept = []
        for index, row in enumerate(value):  # type: ignore[var-annotated, arg-type]
            at = f"{where}[{index}]"
            if self.check(
                isinstance(row, dict) and set(row) == set(names), at, f"the keys {', '.join(names)}", row
            ):
                kept.append(row)
        return kept

    def names(self, value: object, where: str, known: Sequence[str], least: int = 0) -> tuple[str, ...]:
        if not self.check(
            isinstance(value, list) and len(value) >= least, where, f"a list of at least {least}", value
        ):
            return ()
        found: tuple[Any, ...] = tuple(value)  # type: ignore[arg-type]
        good = [self.name(n, where, known) for n in found]
        self.check(not all(good) or len(set(found)) == len(found), where, "every name once", value)
        return found if all(good) else ()


class _Loader(yaml.SafeLoader):
    """Refuses a key that stands twice, where YAML would keep the last one without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """The mapping of a node. Raises ConstructorError for a key that is there already."""
        seen: set[str] = set()
        for key, _ in node.value:
            name = str(key.value)
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {name!r} stands twice", key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep)


def shipped_in(folder: Path) -> dict[str, Path]:
    """Name of each YAML file that comes with the repository in a folder -> the file."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def find_yaml(name: str, folder: Path, what: str, error: type[TqError]) -> Path:
    """The file of a name in ``folder``, or of a path. ``what`` it is to be is told in the message.

    Raises ``error`` for a folder, for what does not exist, and for a name that is no UTF-8: it could not stand in a report.
    """
    known = shipped_in(folder)
    if name in known:
        return known[name]
    try:
        name.encode("utf-8")
        there = Path(name).is_file()
        got = f"the folder {name!r}" if Path(name).is_dir() else repr(name)
    except (OSError, ValueError):  # too long, a zero byte, or bytes that are no text
        there, got = False, short(name)
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    check(there, what, f"a file, or one of {', '.join(known)}{hint}", got, error)
    return Path(name)


def read_yaml(path: Path, error: type[TqError]) -> Any:
    """Plain data of a YAML file. Raises ``error`` for one that cannot be read, is larger than MAX_BYTES or is no YAML."""
    try:
        size = path.stat().st_size
        check(size <= MAX_BYTES, str(path), f"at most {MAX_BYTES} bytes", size, error)
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeDecodeError) as problem:
        raise error(f"{path}: expected a readable file, got {problem}") from problem
    except (yaml.YAMLError, ValueError) as problem:  # ValueError: a date such as 2020-13-01
        if isinstance(problem, error):
            raise
        raise error(f"{path}: expected YAML, got {' '.join(str(problem).split())}") from problem
    except RecursionError as problem:
        raise error(f"{path}: expected YAML, got nesting without end") from problem
