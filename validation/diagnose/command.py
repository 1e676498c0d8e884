"""The command line of `tq diagnose`: ``add_parser`` and ``run`` are what the `tq` command hooks in."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tq_core.errors import ValueRangeError, check
from tq_core.math.rotary import PAIRINGS, Rotary
from tq_core.model.zoo import is_model_path, load_model, model_names
from validation.diagnose.advice import advise
from validation.diagnose.measure import diagnosis
from validation.diagnose.text import page
from validation.diagnose.vectors import DEFAULT_TOKENS, Vectors, from_files, from_model

PASS = 0
SCHEMA = {"name": "tq-diagnose", "version": 1}
Progress = Callable[[str, int, int], None]


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Add `diagnose` to the sub-commands of a parser."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "diagnose", help="what keys and values are like, and which arm, bits and policy that speaks for"
    )
    parser.add_argument(
        "source", metavar="MODEL|FILE.npy",
        help=f"{', '.join(model_names())}, the path of a .gguf file or of a folder with config.json and safetensors, "
        "or a .npy file of keys (n_tokens, n_kv_heads, head_dim) or (n_layers, ...), after RoPE",
    )  # fmt: skip
    parser.add_argument("--values", type=Path, metavar="FILE", help="values beside a file of keys")
    parser.add_argument("--queries", type=Path, metavar="FILE", help="queries beside a file of keys")
    parser.add_argument("--bfloat16", action="store_true", help="two-byte words of the files are bfloat16")
    parser.add_argument("--theta", type=float, metavar="BASE", help="rotary base of a file's keys")
    parser.add_argument("--pairing", choices=PAIRINGS, help="rotary pairs of a file's keys (default: half)")
    parser.add_argument(
        "--tokens", type=int, metavar="N", help=f"tokens that a model reads (default: {DEFAULT_TOKENS})"
    )
    parser.add_argument(
        "--text", type=Path, metavar="FILE", help="what a model reads, instead of the first text here"
    )
    parser.add_argument("--plot", type=Path, metavar="FILE.svg", help="also draw the figures by layer")
    parser.add_argument("--json", action="store_true", help="JSON on standard output, nothing else there")
    parser.add_argument("--quiet", action="store_true", help="no progress on standard error")
    return parser


def _refuse(args: argparse.Namespace, names: tuple[str, ...], why: str) -> None:
    given = [f"--{n}" for n in names if getattr(args, n) not in (None, False)]
    check(not given, "options", why, ", ".join(given), ValueRangeError)


def _vectors(args: argparse.Namespace) -> Vectors:
    """Vectors of a .npy file, or of a model by its name or path."""
    if args.source.endswith(".npy"):
        _refuse(args, ("tokens", "text"), "no --tokens or --text with a file")
        check(
            args.theta is not None or args.pairing is None,
            "pairing",
            "--theta with it",
            "none",
            ValueRangeError,
        )
        rotary = None if args.theta is None else Rotary(args.theta, args.pairing or "half")
        return from_files(Path(args.source), args.values, args.queries, rotary, args.bfloat16)
    known = args.source in model_names() or is_model_path(args.source)
    names = ", ".join(model_names())
    check(known, "source", f"one of {names}, a path, or a .npy file", args.source[:60], ValueRangeError)
    _refuse(args, ("values", "queries", "bfloat16", "theta", "pairing"), "none of these with a model")
    n_tokens = DEFAULT_TOKENS if args.tokens is None else args.tokens
    return from_model(load_model(args.source), n_tokens, args.text)


def _check_plot(path: Path | None) -> None:
    """Refuse a path that cannot be written before anything is computed."""
    if path is None:
        return
    check(path.suffix == ".svg", "plot", "a name ending in .svg", path.name, ValueRangeError)
    folder = path.absolute().parent
    ok = folder.is_dir() and os.access(folder, os.W_OK) and not path.is_dir()
    check(ok, "plot", "a file in a folder that can be written", str(path), ValueRangeError)


def run(args: argparse.Namespace, progress: Progress) -> int:
    """Print the diagnosis. Raises subclasses of TqError for bad input; nothing is written then."""
    _check_plot(args.plot)
    data = {"schema": dict(SCHEMA), "status": "pass", **diagnosis(_vectors(args), progress)}
    data["advice"] = advise(data)
    if args.plot is not None:
        from tq_core.cache.atomic import replace_file
        from validation.diagnose.plot import by_layer

        figure = by_layer(data)
        replace_file(args.plot, [figure.svg])
        data["plot"] = figure.describe()
    print(json.dumps(data, indent=1, allow_nan=False) if args.json else page(data), flush=True)
    return PASS
