"""The command line of `tq plan`: ``add_parser`` and ``run`` are what the `tq` command hooks in."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from tq_core.codecs.arms import Arm, arm_names, get_arm
from tq_core.codecs.shaped_arm import planned_best_turbo
from tq_core.errors import CodecError, ValueRangeError, check
from tq_core.model.outline import KNOWN, MAX_TOKENS, ModelOutline, known
from tq_core.model.outline_files import read_outline
from tq_core.model.zoo import is_model_path
from tq_core.shapes import ModelShape
from validation.budget import text
from validation.budget.costs import Costs, bench_costs, given_costs
from validation.budget.published import WRONG, check_all, unexpected
from validation.budget.sums import sums

PASS, FAILED = 0, 1
DEFAULT_TOKENS = 8192
PLANNED = (*arm_names(), "best-turbo")  # arms whose tables have a size before they are fitted
_SIZE = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT]i?B|B)?", re.IGNORECASE)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def byte_count(given: str) -> int:
    """Bytes of "2GiB", "500 MB" or "65536". Raises ValueRangeError for anything else and for sizes beyond 2^60."""
    found = _SIZE.fullmatch(given.strip())
    if found is None:
        raise ValueRangeError(f"budget: expected a size such as 2GiB, 500MB or 65536, got {given[:60]!r}")
    unit = (found[2] or "B").lower()
    base = 1024 if "i" in unit else 1000
    size = float(found[1]) * base ** _POWERS.get(unit[0], 0)
    check(1 <= size <= 2**60, "budget", "1 byte to 2^60 bytes", repr(given[:60]), ValueRangeError)
    return int(size)


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `plan` to the sub-commands of a parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "plan", help="memory of a cache, its longest context under a budget, and when it pays"
    )
    parser.add_argument(
        "--model",
        default="llama-8b",
        metavar="NAME|PATH",
        help=f"{', '.join(KNOWN)}, a .gguf file, a config.json or the folder of one, written with a slash",
    )
    parser.add_argument("--context", type=int, metavar="TOKENS", help="default: what the model was made for")
    parser.add_argument("--arm", default="structured-turbo", help=f"one of {', '.join(PLANNED)}")
    parser.add_argument("--key-bits", "--bits-k", type=float, metavar="BITS")
    parser.add_argument("--value-bits", "--bits-v", type=float, metavar="BITS")
    parser.add_argument("--window", type=int, metavar="TOKENS", help="recent tokens kept in fp16")
    parser.add_argument("--sinks", type=int, metavar="TOKENS", help="first tokens kept in fp16")
    parser.add_argument("--budget", metavar="SIZE", help="such as 2GiB; exit 1 when the context does not fit")
    for name, what in (
        ("append", "encode a token"),
        ("scan", "read a cached token in a decode step"),
        ("fp16-scan", "the same with a float16 cache"),
    ):
        parser.add_argument(f"--{name}-ns", type=float, metavar="NS", help=f"measured, per KV head: {what}")
    parser.add_argument(
        "--bench", type=Path, metavar="FILE", help="take these from a bench.json of `tq bench`"
    )
    parser.add_argument("--published", action="store_true", help="check published memory tables instead")
    parser.add_argument("--json", action="store_true", help="JSON on standard output, nothing else there")
    return parser


def _outline(model: str) -> ModelOutline:
    """A known name, or else a path: what looks like a name is not searched for in the file system."""
    return read_outline(model) if is_model_path(model) else known(model)


def _arm(args: argparse.Namespace, shape: ModelShape) -> Arm:
    names = ("key_bits", "value_bits", "window", "sinks")
    options = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if args.arm == "best-turbo":
        return planned_best_turbo(shape, **options)
    known = ", ".join(PLANNED)
    check(args.arm in PLANNED, "arm", f"one of {known}", args.arm, CodecError)
    return get_arm(args.arm, **options)


def _costs(args: argparse.Namespace, outline: ModelOutline, tokens: int) -> Costs | None:
    costs = given_costs(args.append_ns, args.scan_ns, args.fp16_scan_ns)
    check(costs is None or args.bench is None, "bench", "no costs beside it", "both", ValueRangeError)
    return bench_costs(args.bench, outline.shape, tokens) if args.bench is not None else costs


def _published(as_json: bool) -> int:
    made, odd = check_all(), unexpected()
    data = {
        "status": "fail" if odd else "pass",
        "figures": len(made),
        "wrong": sum(c.verdict == WRONG for c in made),
        "checked": [vars(c) for c in made],
    }
    print(json.dumps(data, indent=1, allow_nan=False) if as_json else text.published(made), flush=True)
    return FAILED if odd else PASS


def run(args: argparse.Namespace) -> int:
    """Print the plan; 1 when the context does not fit into the budget. Raises subclasses of TqError for bad input."""
    if args.published:
        return _published(args.json)
    outline = _outline(args.model)
    arm = _arm(args, outline.shape)
    tokens = args.context if args.context is not None else outline.context_length or DEFAULT_TOKENS
    check(1 <= tokens <= MAX_TOKENS, "context", f"1..{MAX_TOKENS} tokens", tokens, ValueRangeError)
    budget = byte_count(args.budget) if args.budget is not None else None
    data = sums(outline, arm, tokens, budget, _costs(args, outline, tokens))
    print(json.dumps(data, indent=1, allow_nan=False) if args.json else text.plan(data), flush=True)
    return FAILED if data["status"] == "fail" else PASS
