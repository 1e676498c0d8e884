"""What each part of best-turbo is worth, and what was tried beside it: the steps from structured TurboQuant to the arm.

Everything here is fitted on two thirds of the calibration half of the texts and scored on its last third, so that the
texts of ``tq compare`` stay unseen. `python -m validation.compare.ablation --model smollm2 --out FILE` writes the table.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tq_core.cache.atomic import replace_file
from tq_core.codecs.arm import Arm
from tq_core.codecs.arms import get_arm
from tq_core.codecs.shaped_fit import ShapedParts, fit_shaped_keys, fit_shaped_values
from tq_core.errors import TqError, ValueRangeError, check
from tq_core.model.interface import LanguageModel
from tq_core.model.zoo import load_model, model_names
from validation.compare.documents import read_documents
from validation.compare.fitting import Captured, Vectors
from validation.compare.measure import measure
from validation.compare.plan import PRESETS
from validation.compare.reference import Tables, reference
from validation.compare.store import Store
from validation.environment import now, run_facts
from validation.scenarios import Document

FLUSH, WINDOW, SINKS, TOKENS, TEXTS = 32, 32, 4, 512, 12
RATES = ((3.0, 3.0), (4.0, 3.0))
SEEDS = (1, 2, 3, 4, 5)
LARGE_VOCABULARY = 100_000  # its probabilities of a long document do not fit into memory


def best(vectors: Vectors, bits: tuple[float, float], passes: int = 3, **parts: Any) -> Arm:
    """best-turbo from captured vectors, some of its parts left out (see ShapedParts)."""
    q, k, v = vectors
    chosen = ShapedParts(**parts)
    keys = fit_shaped_keys(k, q, chosen)
    values = fit_shaped_values(v, replace(chosen, seed=chosen.seed + 1))
    return get_arm(
        "best-turbo", key_bits=bits[0], value_bits=bits[1], key_calibration=keys, value_calibration=values, passes=passes,
        window=WINDOW, sinks=SINKS,
    )  # fmt: skip


def variants(vectors: Vectors, bits: tuple[float, float]) -> Iterator[tuple[str, Arm]]:
    """(what it is, the arm), from plain to best, then best with one thing changed."""
    given = {"key_bits": bits[0], "value_bits": bits[1], "window": WINDOW, "sinks": SINKS}
    plain = get_arm("structured-turbo", **given)
    whole = best(vectors, bits)
    yield "structured-turbo", plain
    yield "and a centre per page", get_arm("structured-turbo", key_centre="page", **given)
    yield "best scale of seven", best(vectors, bits, passes=0, offset=False, even=False, metric=False)
    yield "and less the mean key", best(vectors, bits, passes=0, even=False, metric=False)
    yield "and even coordinates", best(vectors, bits, passes=0, metric=False)
    yield "and shaped by queries: best-turbo", whole
    yield "shaped, coordinates not even", best(vectors, bits, even=False)
    yield "without the offset", best(vectors, bits, offset=False)
    yield "keys alone, plain values", replace(whole, value_codec=plain.value_codec)
    yield "values alone, plain keys", replace(whole, key_codec=plain.key_codec)
    for passes in (1, 6):
        yield f"{passes} sweeps", best(vectors, bits, passes=passes)
    for floor in (0.01, 0.3):
        yield f"floor {floor}", best(vectors, bits, floor=floor)
    for seed in SEEDS[1:]:
        yield f"rotation seed {seed}", best(vectors, bits, seed=seed)
    yield "kivi-control 3/3, for scale", get_arm("kivi-control", window=WINDOW, sinks=SINKS)


def split(model: LanguageModel, texts: int, tokens: int) -> tuple[list[Document], list[Document]]:
    """(to fit on, to score): two thirds and one of the calibration half."""
    _, chosen = read_documents(model, 1, texts, tokens)
    return chosen[: 2 * texts // 3], chosen[2 * texts // 3 :]


def run(model: LanguageModel, texts: int = TEXTS, tokens: int = TOKENS) -> Iterator[dict[str, Any]]:
    """Rows of variant, bits and mean KL (nats per token) over the texts that were not fitted on."""
    fitted, scored = split(model, texts, tokens)
    captured, store = Captured(model, [d.tokens for d in fitted], SINKS), Store()
    exact = [(d.tokens, Tables(reference(model, d.tokens, store, False)[0], d.tokens)) for d in scored]
    for bits in RATES:
        for name, arm in variants(captured.texts_apart, bits):
            per_text = [
                float(np.mean(measure(model, arm, FLUSH, tokens, tables, {})["kl"]))
                for tokens, tables in exact
            ]
            mean = float(np.mean(per_text))
            print(f"  {bits[0]:g}/{bits[1]:g} {name}: {mean:.4f}", file=sys.stderr, flush=True)
            yield {"variant": name, "bits": list(bits), "kl_mean": mean, "kl_texts": per_text}


def run_long(model: LanguageModel, texts: int = TEXTS, tokens: int = TOKENS) -> Iterator[dict[str, Any]]:
    """The scored texts as one document: KL by quarter, fitted at the positions of one text and at those of all.

    A rotary embedding turns keys further the later they come; what was fitted on early positions is not what comes later.
    """
    fitted, scored = split(model, texts, tokens)
    captured = Captured(model, [d.tokens for d in fitted], SINKS)
    document = np.concatenate([d.tokens for d in scored])[: model.context_length]
    tables = Tables(reference(model, document, Store(), False)[0], document)
    q, k, v = (x[:, SINKS:] for x in captured.one_sequence)
    for bits in RATES:
        given = {"key_bits": bits[0], "value_bits": bits[1], "window": WINDOW, "sinks": SINKS}
        arms = {
            "structured-turbo": get_arm("structured-turbo", **given),
            "and a centre per page": get_arm("structured-turbo", key_centre="page", **given),
            "best-turbo, fitted on texts apart": best(captured.texts_apart, bits),
            "best-turbo, fitted on one sequence": best((q, k, v), bits),
            "kivi-control 3/3, for scale": get_arm("kivi-control", window=WINDOW, sinks=SINKS),
        }
        for name, arm in arms.items():
            kl = np.array(measure(model, arm, FLUSH, document, tables, {})["kl"])
            quarters = [float(part.mean()) for part in np.array_split(kl, 4)]
            print(f"  {bits[0]:g}/{bits[1]:g} {name}: {np.round(quarters, 4)}", file=sys.stderr, flush=True)
            yield {"variant": name, "bits": list(bits), "kl_quarters": quarters}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and write, after every row; exit code 2 for bad input, 130 when interrupted."""
    parser = argparse.ArgumentParser(prog="python -m validation.compare.ablation", description=__doc__)
    parser.add_argument("--model", default="smollm2", help=f"{', '.join(model_names())}, or a path")
    parser.add_argument(
        "--out", type=Path, required=True, help="JSON file; after an interrupt it holds the rows so far"
    )
    options = parser.parse_args(arguments)
    try:
        check(
            options.out.parent.is_dir(), "out", "a file in a folder that exists", options.out, ValueRangeError
        )
        model = load_model(options.model)
        length = PRESETS[options.model].tokens if options.model in PRESETS else TOKENS
        command = f"python -m validation.compare.ablation --model {options.model} --out FILE"
        result: dict[str, Any] = {
            "model": {"name": model.name, "sha256": model.digest},
            "complete": False,
            "rows": [],
            "long": [],
        }
        result["run"] = run_facts(command, now(), 0.0)
        parts = [("rows", run(model, TEXTS, length))]
        if model.vocab_size < LARGE_VOCABULARY:
            parts.append(("long", run_long(model, TEXTS, length)))
        for name, rows in parts:
            for row in rows:
                result[name].append(row)
                _write(options.out, result)
        _write(options.out, {**result, "complete": True})
    except TqError as error:
        print(f"ablation: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"ablation: interrupted; {options.out.name} holds the rows so far", file=sys.stderr)
        return 130
    return 0


def _write(path: Path, result: dict[str, Any]) -> None:
    replace_file(path, [(json.dumps(result, indent=1) + "\n").encode()])


if __name__ == "__main__":
    raise SystemExit(main())
