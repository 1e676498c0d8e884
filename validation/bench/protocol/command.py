"""The options of `tq bench --protocol`, and carrying it out."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from tq_core.errors import ValueRangeError, check

ARMS = ("structured-turbo", "fp16", "kivi-control")
CONTEXTS = "512,2048,8192"
REPEATS, SECONDS = 3, 900.0


def add_options(parser: argparse.ArgumentParser) -> None:
    """What only --protocol reads."""
    group = parser.add_argument_group("the performance protocol")
    group.add_argument(
        "--protocol",
        action="store_true",
        help="a model end to end, and the thirteen measurements of every arm",
    )
    group.add_argument("--model", default="smollm2", help="smollm2 (default), gemma or tiny")
    group.add_argument("--arm", action="append", metavar="NAME", help=f"default: {', '.join(ARMS)}")
    group.add_argument("--contexts", default=CONTEXTS, metavar="N,N", help=f"lengths (default: {CONTEXTS})")
    group.add_argument(
        "--limit", type=float, default=SECONDS, metavar="S", help="seconds for one arm at one length (900)"
    )
    group.add_argument(
        "--clock", choices=("wall", "cpu"), default="wall",
        help="cpu: the process's own time, for a machine on which other things run",
    )  # fmt: skip


def lengths(given: str) -> tuple[int, ...]:
    """The lengths of --contexts. Raises ValueRangeError."""
    parts = [p.strip() for p in given.split(",")]
    ok = bool(parts) and all(p.isascii() and p.isdigit() and 0 < len(p) < 8 for p in parts)
    check(ok, "contexts", "counts of tokens such as 512,2048", repr(given), ValueRangeError)
    return tuple(dict.fromkeys(int(p) for p in parts))


def run(args: argparse.Namespace) -> int:
    """Measure, write protocol.json and protocol.txt, print the tables or the JSON. Raises as the library does."""
    from tq_core.model.zoo import load_model
    from validation.bench.protocol.run import run_protocol, text
    from validation.bench.report import write_files
    from validation.controls import arm_for
    from validation.fitted import arm_on

    contexts, names = lengths(args.contexts), tuple(dict.fromkeys(args.arm or ARMS))
    check(args.limit > 0, "limit", "seconds above 0", args.limit, ValueRangeError)
    repeats = REPEATS if args.repeats is None else args.repeats
    check(repeats >= 1, "repeats", "at least 1", repeats, ValueRangeError)
    for name in names:
        arm_for(name)  # an unknown one is refused before a model is loaded
    model = load_model(args.model)
    arms = [arm_on(model, (), name) for name in names]

    def say(what: str, done: int, total: int) -> None:
        if not args.quiet and done < total:
            print(f"  {what}: {done} of {total}", file=sys.stderr, flush=True)

    result = run_protocol(
        model, arms, contexts, repeats, args.limit, not args.no_peers, _seldom(say), clock=args.clock
    )
    files = {"protocol.txt": text(result).encode(), "protocol.json": _json(result)}
    paths = write_files(files, args.out)
    print(_json(result).decode() if args.json else text(result), end="", flush=True)
    if not args.json:
        print(f"written: {', '.join(str(p) for p in paths.values())}")
    return 0


def _json(result: dict[str, Any]) -> bytes:
    return (json.dumps(result, indent=1, allow_nan=False) + "\n").encode()


def _seldom(say: Any) -> Any:
    """Every tenth of a context is enough."""
    last: dict[str, int] = {}

    def progress(what: str, done: int, total: int) -> None:
        tenth = 10 * done // max(total, 1)
        if last.get(what) != tenth:
            last[what] = tenth
            say(what, done, total)

    return progress
