"""The fuzzing loop: pick, change, try, keep what reached something new."""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

from tq_core.cache import canonical, fields, identity, page, saved_read, saved_window
from tq_core.cache.page import HEADER
from tq_core.codecs.arms import Arm
from validation.fuzz.forge import places
from validation.fuzz.mutate import BLIND, lying, mutated, set_record_field
from validation.fuzz.seeds import Seed, seed_files
from validation.fuzz.targets import Finding, check_file, check_page, watched

TRACED = {module.__file__ for module in (canonical, fields, identity, page, saved_read, saved_window)}
MAX_FINDINGS = 20


@dataclass
class Report:
    """What a run did; ``outcomes`` counts inputs by target and by acceptance or reason of refusal."""

    seed: int
    inputs: int = 0
    lines: int = 0
    corpus: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[tuple[bytes, str]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form; findings by their messages."""
        return {
            **vars(self),
            "outcomes": dict(self.outcomes.most_common()),
            "findings": [m for _, m in self.findings],
        }

    def text(self) -> str:
        """Two lines for people."""
        accepted = sum(n for name, n in self.outcomes.items() if "accepted" in name)
        reasons = sum("accepted" not in name for name in self.outcomes)
        return (
            f"fuzz: {self.inputs} inputs in {self.seconds:.0f} s, seed {self.seed}: {len(self.findings)} findings\n"
            f"  {accepted} accepted and written again alike, the others refused for {reasons} reasons; "
            f"{self.lines} lines of the readers reached, corpus of {self.corpus}"
        )


class Lines:
    """Lines of the readers that have run, seen through the interpreter's trace hook.

    A function whose every line has run is not watched any more, so that the hook costs little after a while.
    """

    def __init__(self) -> None:
        self.count = 0
        self._left: dict[CodeType, set[int]] = {}
        self._before: Any = None

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self._before)

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        left = self._left.get(code)
        if left is None:
            traced = code.co_filename in TRACED
            left = (
                {line for _, _, line in code.co_lines() if line and line != code.co_firstlineno}
                if traced
                else set()
            )
            self._left[code] = left
        return self._line if left else None

    def _line(self, frame: FrameType, event: str, argument: Any) -> Any:
        left = self._left[frame.f_code]
        if frame.f_lineno in left:
            left.remove(frame.f_lineno)
            self.count += 1
        return self._line


def run(inputs: int, seed: int, progress: Callable[[Report], None] | None = None) -> Report:
    """Try ``inputs`` inputs; the same seed gives the same inputs. Stops early after MAX_FINDINGS findings."""
    rng, report, started = random.Random(seed), Report(seed), time.monotonic()
    seeds = seed_files()
    files = [(s.raw, s.arm) for s in seeds]
    pages = [s.raw[place.at :][:4096] for s in seeds for place in places(s.raw) if place.record is HEADER]
    lines = Lines()
    with watched():
        for raw, reader in files:
            with lines:
                outcome = check_file(raw, reader)
            if outcome != "accepted":
                raise Finding(f"a valid file is refused: {outcome}")
        while report.inputs < inputs and len(report.findings) < MAX_FINDINGS:
            known = lines.count
            raw, arm = _next(rng, seeds, files, pages)
            try:
                with lines:
                    outcome = check_page(raw) if arm is None else check_file(raw, arm)
                report.outcomes[f"{'page' if arm is None else 'file'}: {outcome}"] += 1
            except Finding as finding:
                report.findings.append((raw, str(finding)))
            report.inputs += 1
            if lines.count > known and arm is not None:
                files.append((raw, arm))
            if progress and report.inputs % 1000 == 0:
                report.lines, report.corpus = lines.count, len(files)
                progress(report)
    report.lines, report.corpus, report.seconds = lines.count, len(files), time.monotonic() - started
    return report


def _next(
    rng: random.Random, seeds: list[Seed], files: list[tuple[bytes, Arm]], pages: list[bytes]
) -> tuple[bytes, Arm | None]:
    """The next input, and the arm that reads it; None for the page parser."""
    kind = rng.random()
    if kind < 0.2:
        out = bytearray(rng.choice(pages)[: rng.choice((64, 64, 4096, rng.randrange(80)))])
        if len(out) >= HEADER.nbytes and rng.random() < 0.7:
            set_record_field(rng, out, HEADER, 0)
        else:
            rng.choice(BLIND)(rng, out, pages[0])
        return bytes(out), None
    if kind < 0.4:
        seed = rng.choice(seeds)
        return lying(rng, seed.image), seed.arm
    raw, arm = rng.choice(files)
    return mutated(rng, raw, rng.choice(files)[0]), arm
