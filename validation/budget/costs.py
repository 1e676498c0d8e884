"""Measured costs of a token, for the break-even: given as numbers, or read from what `tq bench` wrote."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tq_core.cache.capacity import break_even_tokens
from tq_core.errors import ValueRangeError, check
from tq_core.shapes import ModelShape
from validation.bench.plan import SHAPES

BENCH_BYTES = 64 << 20
_MOST_NS = 1e12


@dataclass(frozen=True)
class Costs:
    """Nanoseconds per token and KV head: encoding it, reading it as codes, reading it as float16.

    Raises ValueRangeError for a cost that is not a number from 0 to 10^12.
    """

    append_ns: float
    scan_ns: float
    fp16_scan_ns: float
    source: str = "given"

    def __post_init__(self) -> None:
        for name in ("append_ns", "scan_ns", "fp16_scan_ns"):
            value = getattr(self, name)
            ok = isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= _MOST_NS
            check(ok, name, f"nanoseconds from 0 to {_MOST_NS:g}", value, ValueRangeError)

    def break_even(self, shape: ModelShape, prompt: int, local_layers: int = 0) -> int | None:
        """Generated tokens after which a prompt of this length has paid for its codes; None for never.

        Local layers pay for every append; what they save, on a few tokens at each step, is left out.
        """
        append = self.append_ns * shape.n_layers * shape.n_kv_heads
        growing = (shape.n_layers - local_layers) * shape.n_kv_heads
        return break_even_tokens(
            prompt, 1e-9 * append, 1e-9 * self.fp16_scan_ns * growing, 1e-9 * self.scan_ns * growing
        )

    def as_dict(self) -> dict[str, Any]:
        """JSON-able form."""
        return asdict(self)


def given_costs(append_ns: float | None, scan_ns: float | None, fp16_scan_ns: float | None) -> Costs | None:
    """Costs from three numbers, None without any. Raises ValueRangeError when only some are given."""
    numbers = {"--append-ns": append_ns, "--scan-ns": scan_ns, "--fp16-scan-ns": fp16_scan_ns}
    missing = [name for name, value in numbers.items() if value is None]
    if len(missing) == len(numbers):
        return None
    check(not missing, "costs", "all three of them", f"no {', '.join(missing)}", ValueRangeError)
    return Costs(*numbers.values())  # type: ignore[arg-type]


def bench_costs(path: Path, shape: ModelShape, tokens: int) -> Costs:
    """Costs of structured-turbo from a bench.json: one thread, cold memory where measured, the length nearest to ``tokens``.

    Raises ValueRangeError when the file is not one, or has no such rows for a shape of these heads.
    """
    rows = _rows(path)
    group = (shape.group_size_heads, shape.head_dim)
    names = [s.name for s in SHAPES.values() if (s.n_query_heads // s.n_kv_heads, s.head_dim) == group]
    wanted = f"{group[0]} query heads per KV head, head_dim {group[1]}"
    check(bool(names), "bench", f"a measured shape of {wanted}", f"only {', '.join(SHAPES)}", ValueRangeError)

    def best(prefix: str, task: str) -> float:
        found = [
            row
            for row in rows
            if row.get("shape") in names
            and row.get("threads") == 1
            and row.get("task") == task
            and str(row.get("name")).startswith(prefix)
            and isinstance(row.get("ns_per_token_head"), (int, float))
            and isinstance(row.get("tokens"), int)
        ]
        check(
            bool(found), "bench", f"rows of {task} called {prefix}... for {wanted}", "none", ValueRangeError
        )
        nearest = min(
            found,
            key=lambda r: (abs(r["tokens"] - tokens), r.get("state") != "cold", r["ns_per_token_head"]),
        )
        return float(nearest["ns_per_token_head"])

    append = best("append-keys-1@", "append") + best("append-values-1@", "append")
    return Costs(
        append,
        best("exact@native-", "decode step"),
        best("own-fp16@", "decode step"),
        f"{path.name}, {names[0]}",
    )


def _rows(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as file:
            data = file.read(BENCH_BYTES + 1)
        check(len(data) <= BENCH_BYTES, "bench", f"at most {BENCH_BYTES} bytes", "more", ValueRangeError)
        rows = json.loads(data)["rows"]
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        if isinstance(error, ValueRangeError):
            raise
        raise ValueRangeError(f"bench: expected a bench.json of tq bench, got {str(error)[:80]}") from error
    ok = isinstance(rows, list) and all(isinstance(row, dict) for row in rows)
    check(ok, "bench", "a list of rows", type(rows).__name__, ValueRangeError)
    return rows
