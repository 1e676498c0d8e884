"""Boundary cases: ordinary text whose length lies on an edge of window, sinks, pages, flush groups or context.

The edges belong to the defaults of the arms: a window of 128 tokens, 0 or 4 sink tokens, flush groups of 32, pages of 32
tokens (uncompressed) and 128 (packed). With another policy the prompts stay right and merely lie elsewhere.
"""

from __future__ import annotations

import hashlib
from itertools import accumulate

from tq_core.codecs.arm import WINDOW
from tq_core.errors import ValueRangeError, check
from tq_core.model.interface import LanguageModel
from validation.scenarios import EPISODE_SEED, episode_documents, read_text, text_entries
from validation.workloads.conversation import literal_ids
from validation.workloads.prompt import Prompt
from validation.workloads.task import as_tokens
from validation.workloads.workload import Workload

NAME, VERSION = "boundary", 1
SINKS = 4
GROUP = 32  # tokens that leave the window together, in the arms that need groups
HALF_PAGE, PACKED_PAGE = 32, 128  # tokens per page of the uncompressed cache and of the packed ones
LEAST = 3
# Edge -> its length; one token before it, itself and one behind it are read.
EDGES = {
    "window": WINDOW,
    "window + sinks": WINDOW + SINKS,
    "page": HALF_PAGE,
    "window + group": WINDOW + GROUP,
    "window + sinks + group": WINDOW + SINKS + GROUP,
    "sinks": SINKS,
    "window + packed page": WINDOW + PACKED_PAGE,
    "window + sinks + packed page": WINDOW + SINKS + PACKED_PAGE,
}


def lengths(context_length: int, n_tokens: int) -> list[tuple[int, str]]:
    """(length, edge) of at most ``n_tokens`` tokens, each length once, the window's edge first.

    The context's edge is among them only where ``n_tokens`` is the whole context: it is by far the longest prompt.
    """
    every = [(at + d, edge) for edge, at in EDGES.items() for d in (0, 1, -1)]
    if n_tokens == context_length:
        every = [(n_tokens, "context"), (n_tokens - 1, "context"), *every]
    once = {length: edge for length, edge in reversed(every) if LEAST <= length <= n_tokens}
    return [(length, once[length]) for length in dict.fromkeys(n for n, _ in every) if length in once]


def _text_prompt(model: LanguageModel, index: int, length: int) -> tuple[list[int], str, str, str]:
    """(token ids, source, licence, SHA-256) of text number ``index``, continued by those after it."""
    entries = text_entries()
    texts = [entries[(index + k) % len(entries)] for k in range(len(entries))]
    pieces = (literal_ids(model, read_text(entry) + "\n\n", first=k == 0) for k, entry in enumerate(texts))
    for k, ids in enumerate(accumulate(pieces)):
        if len(ids) >= length:
            used = texts[: k + 1]
            licence = " and ".join(sorted({e["licence"] for e in used}))
            digest = hashlib.sha256("".join(e["sha256"] for e in used).encode()).hexdigest()
            return ids[:length], "texts " + ", ".join(e["file"] for e in used), licence, digest
    raise ValueRangeError(f"length: expected at most {len(ids)} tokens, all texts together, got {length}")


def _episode_prompt(index: int, length: int) -> tuple[list[int], str, str, str]:
    """The same for the tiny model: an episode of its task, cut."""
    episode = episode_documents(1, max(length, 200), index)[0]
    source = f"episode {EPISODE_SEED + index}, its first {length} tokens"
    return episode.tokens[:length].tolist(), source, episode.licence, episode.sha256


def _make(model: LanguageModel, count: int, n_tokens: int) -> list[Prompt]:
    edges = lengths(model.context_length, n_tokens)
    prompts = []
    for index in range(count):
        length, edge = edges[index % len(edges)]
        tiny = model.name == "tiny"
        ids, source, licence, digest = (
            _episode_prompt(index, length) if tiny else _text_prompt(model, index, length)
        )
        check(len(ids) == length, f"prompt {NAME}-{index:03}", f"{length} tokens", len(ids), ValueRangeError)
        prompts.append(
            Prompt(
                name=f"{NAME}-{index:03}",
                style=NAME,
                source=source,
                licence=licence,
                sha256=digest,
                tokens=as_tokens(ids),
                workload=NAME,
                # "exact": with this window nothing may have been compressed, whatever the sinks and groups.
                facts={"length": length, "edge": edge, "exact": length <= WINDOW},
            )
        )
    return prompts


WORKLOAD = Workload(
    name=NAME,
    version=VERSION,
    title="Boundary lengths",
    shows="That nothing happens before the window is full, and that nothing breaks one token before, on and behind the edges of "
    f"window ({WINDOW}), sinks (0 and {SINKS}), flush groups ({GROUP}), pages ({HALF_PAGE} and {PACKED_PAGE}) and, "
    "where the study's length is the model's context, of the context.",
    cannot_show="Quality: the texts are short. Where the study's length is below the context, its limit is not exercised.",
    make=_make,
    least=LEAST,
)
