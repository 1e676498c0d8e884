"""Sweeps as YAML files: read strictly, with everything that is wrong named at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tq_core.errors import TqError
from tq_core.model.zoo import model_names
from validation.compare.plan import parse_arm
from validation.compare.store import key_of
from validation.controls import PLANTED_BAD, validation_arm_names
from validation.faults import Faults, find_yaml, read_yaml, shipped_in
from validation.prompt_metrics import PROMPT_METRICS
from validation.study import WorkloadUse
from validation.workloads.catalogue import WORKLOADS

FOLDER = Path(__file__).parents[1] / "sweeps"
# Key of the file -> option of an arm.
AXES = {"key_bits": "key_bits", "value_bits": "value_bits", "windows": "window", "sinks": "sinks", "rotation_seeds": "seed"}  # fmt: skip
REQUIRED = ("name", "version", "question", "models", "arms", "workloads", "metrics")
OPTIONAL = (*AXES, "cache", "resampling_seed", "confidence")
SAME = "same"  # value_bits as key_bits, instead of every pair
CACHES = ("paged", "simulated")
MOST_POINTS, MOST_PROMPTS, MOST_TOKENS = 10_000, 100_000, 1 << 20


class SweepError(TqError, ValueError):
    """A sweep file is unreadable or asks for what there is not; the message names every fault."""


@dataclass(frozen=True)
class Sweep:
    """A grid. arms: names, or NAME:option=value as `tq compare` takes them. axes: option -> values, in the file's order.

    axes["value_bits"] is ("same",) where values get the keys' bits. workloads: one may stand there at several lengths.
    cache: "paged" is the product's, "simulated" the same codecs in matrix products, sooner and without a ledger.
    file: where it was read from, not part of the digest.
    """

    name: str
    version: int
    question: str
    models: tuple[str, ...]
    arms: tuple[str, ...]
    axes: Mapping[str, tuple[Any, ...]]
    workloads: tuple[WorkloadUse, ...]
    metrics: tuple[str, ...]
    cache: str = "paged"
    resampling_seed: int = 0
    confidence: float = 0.95
    file: str = ""

    def describe(self) -> dict[str, Any]:
        """JSON-able form of everything that decides results."""
        told = {k: v for k, v in asdict(self).items() if k != "file"}
        lists = {k: list(v) for k, v in told.items() if isinstance(v, tuple)}
        return {**told, **lists, "axes": {k: list(v) for k, v in self.axes.items()}}

    @property
    def sha256(self) -> str:
        """Digest of the same words and numbers, whatever the layout of the file."""
        return key_of(sweep=self.describe())


def parse_sweep(data: object, file: str = "") -> Sweep:
    """A sweep from plain data. Raises SweepError with all faults."""
    faults = Faults()
    if not faults.check(isinstance(data, dict), "sweep", "a mapping", type(data).__name__):
        raise SweepError(f"{file or 'sweep'}: {faults.said[0]}")
    given: Mapping[str, Any] = data  # type: ignore[assignment]
    missing = [k for k in REQUIRED if k not in given]
    faults.check(not missing, "sweep", f"the keys {', '.join(REQUIRED)}", f"none of {', '.join(missing)}")
    unknown = sorted(str(k) for k in given if k not in (*REQUIRED, *OPTIONAL))
    faults.check(not unknown, "sweep", f"no other keys than {', '.join((*REQUIRED, *OPTIONAL))}", unknown)
    parts = _parts({k: v for k, v in given.items() if k not in unknown}, faults)
    if faults.said:
        raise SweepError(f"{file or 'sweep'}: " + "; ".join(faults.said))
    return Sweep(**parts, file=file)


def _parts(given: Mapping[str, Any], faults: Faults) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in ("name", "question"):
        if name in given and faults.text(given[name], name):
            made[name] = given[name].strip()
    if "version" in given:
        faults.whole(given["version"], "version", 1, 10_000)
        made["version"] = given["version"]
    if "models" in given:
        made["models"] = _texts(given["models"], "models", faults)
        for index, model in enumerate(made["models"]):
            if not Path(model).exists():  # a model's own file may be named by its path
                faults.name(model, f"models[{index}]", tuple(model_names()))
    if "arms" in given:
        made["arms"] = _texts(given["arms"], "arms", faults)
        for index, arm in enumerate(made["arms"]):
            _arm(arm, f"arms[{index}]", faults)
    made["axes"] = {option: _axis(key, given[key], faults) for key, option in AXES.items() if key in given}
    if made["axes"].get("value_bits") == (SAME,):
        faults.check("key_bits" in given, "value_bits", "key_bits to be the same as", "none")
    if "workloads" in given:
        made["workloads"] = _workloads(given["workloads"], faults)
    if "metrics" in given:
        made["metrics"] = faults.names(given["metrics"], "metrics", tuple(PROMPT_METRICS), 1)
    made["cache"] = given.get("cache", "paged")
    faults.name(made["cache"], "cache", CACHES)
    replies = [m for m in made.get("metrics", ()) if PROMPT_METRICS[m].needs == "reply"]
    read = made["cache"] == "paged" or not replies
    faults.check(read, "metrics", "none about replies, which a simulated cache does not give", replies)
    made["resampling_seed"] = given.get("resampling_seed", 0)
    faults.whole(made["resampling_seed"], "resampling_seed", 0, 2**63 - 1)
    level = given.get("confidence", 0.95)
    inside = isinstance(level, float) and 0.5 < level < 1
    faults.check(inside, "confidence", "a number between 0.5 and 1", level)
    made["confidence"] = level
    if not faults.said:
        points = len(made["models"]) * len(made["arms"])
        for values in made["axes"].values():
            points *= len(values)
        faults.check(points <= MOST_POINTS, "sweep", f"at most {MOST_POINTS} points", points)
    return made


def _texts(value: object, where: str, faults: Faults) -> tuple[str, ...]:
    good = isinstance(value, list) and len(value) > 0 and all(isinstance(v, str) and v.strip() for v in value)
    if not faults.check(good, where, "a list of at least 1 name", value):
        return ()
    found = tuple(str(v) for v in value)  # type: ignore[attr-defined]
    faults.check(len(set(found)) == len(found), where, "every name once", value)
    return found


def _arm(text: str, where: str, faults: Faults) -> None:
    name = text.split(":")[0].strip()
    if not faults.name(name, where, validation_arm_names()) or name == PLANTED_BAD:
        return
    try:
        parse_arm(text)
    except TqError as error:
        faults.check(False, where, "an arm", f"{text}: {error}")


def _axis(key: str, value: object, faults: Faults) -> tuple[Any, ...]:
    if key == "value_bits" and value == SAME:
        return (SAME,)
    if not faults.check(isinstance(value, list) and len(value) > 0, key, "a list of at least 1 value", value):
        return ()
    found = []
    for index, v in enumerate(value):  # type: ignore[arg-type, var-annotated]
        at = f"{key}[{index}]"
        if key.endswith("_bits"):
            ok = isinstance(v, (int, float)) and not isinstance(v, bool) and 1 <= v <= 16
            faults.check(ok, at, "bits per channel in 1..16", v)
            found.append(int(v) if ok and v == int(v) else v)
        else:
            faults.whole(v, at, 0, 2**63 - 1 if key == "rotation_seeds" else 2**31 - 1)
            found.append(v)
    faults.check(len(set(map(str, found))) == len(found), key, "every value once", value)
    return tuple(found)


def _workloads(value: object, faults: Faults) -> tuple[WorkloadUse, ...]:
    rows = faults.rows(value, "workloads", ("name", "prompts", "tokens"), 1)
    uses, before = [], len(faults.said)
    for index, row in enumerate(rows):
        at = f"workloads[{index}]"
        faults.whole(row["prompts"], f"{at}.prompts", 1, MOST_PROMPTS)
        faults.whole(row["tokens"], f"{at}.tokens", 2, MOST_TOKENS)
        if not str(row["name"]).startswith("file:"):
            faults.name(row["name"], f"{at}.name", tuple(WORKLOADS))
    if len(faults.said) == before:
        uses = [WorkloadUse(**row) for row in rows]
        named = [(u.name, u.tokens) for u in uses]
        faults.check(len(set(named)) == len(named), "workloads", "every workload and length once", named)
    return tuple(uses)


def read_sweep(path: str | Path) -> Sweep:
    """A sweep from a YAML file. Raises SweepError for a file that cannot be read, is too large, or is wrong."""
    return parse_sweep(read_yaml(Path(path), SweepError), Path(path).name)


def shipped() -> dict[str, Path]:
    """Name of each sweep that comes with the repository -> its file."""
    return shipped_in(FOLDER)


def find_sweep(name: str) -> Sweep:
    """A sweep by the name of a shipped one or by path. Raises SweepError."""
    return read_sweep(find_yaml(name, FOLDER, "sweep", SweepError))
