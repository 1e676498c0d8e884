"""The gates that judge trials: peak memory, resident memory, linear memory, and the identity of saved caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from validation.gates import Gate, Measured, Op
from validation.trials.record import Trials

# Gate -> the trial that it judges.
TRIAL_OF = {
    "peak-memory": "peak_memory",
    "hidden-memory": "peak_memory",
    "peak-rss": "peak_rss",
    "wasm-memory": "wasm_memory",
    "wasm-growth": "wasm_growth",
    "identity": "identity",
}


def _gate(
    name: str, claim: str, measure: Callable[[Any], Measured], op: Op, limit: float, unit: str, why: str
) -> Gate[Trials]:
    """The gate of the trial that TRIAL_OF names: ``measure`` of it, nothing where it was not done."""
    trial = TRIAL_OF[name]

    def look(trials: Trials) -> Measured:
        made = getattr(trials, trial)
        return Measured(None, trials.why_not(trial)) if made is None else measure(made)

    return Gate(name, claim, look, op, limit, unit, why, volatile=name != "identity")


def peak_share(t: Any) -> Measured:
    """Peak of the arm as a share of fp16's, over every step of a session."""
    below = (
        "it never stays below"
        if t.smaller_from is None
        else f"its ledger stays below from {t.smaller_from} tokens on"
    )
    return Measured(
        t.share,
        f"{t.arm.peak:,} B against {t.fp16.peak:,} B, the most over {len(t.arm.steps)} steps to {t.arm.steps[-1].tokens} tokens, "
        f"of it staging {t.arm.staging:,} B and {t.fp16.staging:,} B; ledgers {t.arm.ledger_peak:,} B and {t.fp16.ledger_peak:,} B; {below}",
    )  # fmt: skip


def hidden_share(t: Any) -> Measured:
    """What grew beside the ledger, as a share of the smallest history that could be hidden."""
    return Measured(
        t.arm.hidden / t.least_shadow,
        f"allocations beside the ledger grew by {t.arm.hidden:,} B (fp16 cache: {t.fp16.hidden:,} B); the keys of one layer "
        f"would take {t.least_shadow:,} B in fp16",
    )


def resident_share(t: Any) -> Measured:
    """Peak resident size with the arm as a share of that with fp16; nothing where noise is too large."""
    told = f"{t.tokens} tokens, {len(t.arm)} processes each: arm {t.net('arm'):,} B, fp16 {t.net('fp16'):,} B, spread {t.spread:,} B"
    if not t.clear:
        return Measured(None, f"the uncompressed cache does not stand out of the noise ({told})")
    return Measured(t.share, told)


def linear_share(t: Any) -> Measured:
    """Pages of linear memory for the arm as a share of those for fp16."""
    return Measured(
        t.share,
        f"{t.arm - t.before} against {t.fp16 - t.before} pages of 64 KiB on {t.backend}, reserved for {t.reserved} tokens; "
        "browsers were not asked",
    )


def leaked(t: Any) -> Measured:
    """Bytes of linear memory that grew where none should."""
    return Measured(
        t.leaked,
        f"{len(t.pages) - 1} steps on {t.backend}: {t.pages[0]} to {t.pages[-1]} pages, {t.allowed} accounted for; in the second half "
        f"{t.late_bytes:,} B; over {len(t.session_pages)} sessions {t.session_bytes:,} B",
    )


def identity_faults(t: Any) -> Measured:
    """Changes that were accepted, refusals that do not say why, and bits that differ."""
    wrong = [f"differing bits: {t.differing_bits}"] if t.differing_bits else []
    wrong += [f"refused as it was: {t.refused}"] if t.refused else []
    wrong += [f"accepted: {', '.join(t.accepted)}"] if t.accepted else []
    wrong += [f"refused without its name: {', '.join(t.unnamed)}"] if t.unnamed else []
    wrong += [f"flipped and loaded: {len(t.undetected)}"] if t.undetected else []
    done = f"{t.tokens} tokens saved, {t.packed} of them packed; {t.fields} fields and {t.flips} bytes changed one by one"
    return Measured(t.faults, "; ".join([done, *wrong]))


def trial_gates(trials: Trials) -> list[Gate[Trials]]:
    """The gates of these trials; those of trials that cannot apply to the arm are left out."""
    gates = [
        _gate("peak-memory", "The most that the arm takes at any step, scratch and staging included, is less than the fp16 cache takes.",
             peak_share, "<", 1, "share of fp16",
             "What has to be there for a moment has to be there: a peak above that of no compression undoes it."),
        _gate("hidden-memory", "Nothing that grows with the tokens is kept beside what the ledger names.",
             hidden_share, "<", 1, "smallest shadows",
             "A history can hide where no walk over objects finds it; allocations are seen wherever they are."),
        _gate("peak-rss", "A process that builds the arm's cache peaks lower than one that builds the fp16 cache.",
             resident_share, "<", 1, "share of fp16",
             "The system counts what no ledger and no interpreter knows of."),
        _gate("wasm-memory", "In WebAssembly the arm's pools take less linear memory than the fp16 cache's.",
             linear_share, "<", 1, "share of fp16",
             "Linear memory never shrinks: its size is the peak of all that was ever there."),
        _gate("wasm-growth", "Linear memory grows neither over decode steps in reserved pages nor from session to session.",
             leaked, "==", 0, "bytes",
             "A page that grows with every reply is closed by the browser in the end."),
        _gate("identity", "A saved cache goes on bit for bit, and any changed field or byte of it is refused.",
             identity_faults, "==", 0, "faults",
             "Keys of other weights, signs or books have the right shape and are noise."),
    ]  # fmt: skip
    return [g for g in gates if TRIAL_OF[g.name] not in trials.left_out]
