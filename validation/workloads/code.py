"""Code: a function of the standard library goes on with a name that was defined, and last mentioned, far above.

Read are the code texts of ``validation/texts`` (CPython 3.11, PSF-2.0; their digests are in its manifest). Nothing that a
model writes is ever executed.
"""

from __future__ import annotations

import builtins
import io
import keyword
import re
import tokenize
from dataclasses import dataclass
from itertools import zip_longest
from random import Random

from tq_core.errors import ValueRangeError, check
from tq_core.model.interface import LanguageModel
from validation.scenarios import read_text, text_entries
from validation.workloads.conversation import literal_ids
from validation.workloads.prompt import Prompt
from validation.workloads.task import as_tokens, random_of
from validation.workloads.workload import Workload

NAME, VERSION = "code", 1
FAR_CHARACTERS = 540  # so that the recent window, 128 tokens, does not reach back to it
LEAST_LETTERS = 4
ANSWER_TOKENS = 32
OTHERS = 3
KNOWN = {*dir(builtins), *keyword.kwlist, "self"}
DEFINED = re.compile(r"(?:def|class) +(\w+)|self\.(\w+) = |^ *(\w+) = |import (\w+)|def \w+\(([^)]*)\)", re.M)


@dataclass(frozen=True)
class Site:
    """A name in code: text[at : at + len(name)], last mentioned before at ``seen``; ``others`` are as well defined above."""

    file: int
    at: int
    name: str
    seen: int
    others: tuple[str, ...]


def _names(text: str) -> list[tuple[int, str]]:
    """(offset, name) of the names in code, outside strings and comments; an excerpt may break off anywhere."""
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.NAME:
                found.append((starts[token.start[0] - 1] + token.start[1], token.string))
    except (tokenize.TokenError, IndentationError):
        pass
    return found


def sites_of(file: int, text: str) -> list[Site]:
    """Places where a name of the file itself comes back after FAR_CHARACTERS or more, in reading order."""
    defined = {n for m in DEFINED.finditer(text) for g in m.groups() if g for n in re.findall(r"\w+", g)}
    own = {n for n in defined if len(n) >= LEAST_LETTERS and n not in KNOWN}
    sites = []
    for at, name in _names(text):
        # Where a name begins inside a piece that tokenizers do not cut, its tokens would depend on what stands before it.
        cut = text[at - 1] == " " or (text[at - 1] in ".(" and name[0] != "_")
        seen = max((m.start() for m in re.finditer(rf"\b{name}\b", text[:at])), default=-1)
        defines = re.search(r"(?:def|class) +$", text[:at])
        if name not in own or defines or not cut or seen < 0 or at - seen < FAR_CHARACTERS:
            continue
        above = text[:at]
        others = sorted(n for n in own if n != name and re.search(rf"\b{n}\b", above))
        if len(others) >= OTHERS:
            sites.append(Site(file, at, name, seen, tuple(others)))
    return sites


def _texts() -> list[tuple[str, dict[str, str]]]:
    return [(read_text(e), e) for e in text_entries() if e["style"] == "code"]


def _every_site(texts: list[tuple[str, dict[str, str]]]) -> list[Site]:
    """One site of each file in turn, so that few prompts come from many files."""
    by_file = [sites_of(n, text) for n, (text, _) in enumerate(texts)]
    return [s for row in zip_longest(*by_file) for s in row if s is not None]


def _prompt(
    model: LanguageModel, texts: list[tuple[str, dict[str, str]]], site: Site, index: int, n_tokens: int
) -> Prompt | None:
    """The prompt at a site, or None where the name's last mention does not fit into ``n_tokens``."""
    text, entry = texts[site.file]
    lead = " " if text[site.at - 1] == " " else ""
    cut = site.at - len(lead)
    random: Random = random_of(NAME, VERSION, index)
    # A longer name is less likely whatever stands above, so the others are as long, in tokens, as the file allows.
    ids_of = {n: literal_ids(model, lead + n) for n in (site.name, *site.others)}
    others = random.sample(site.others, len(site.others))
    others.sort(key=lambda n: abs(len(ids_of[n]) - len(ids_of[site.name])))
    names = [site.name, *others[:OTHERS]]
    alternatives = tuple(as_tokens(ids_of[n]) for n in names)
    answer = literal_ids(model, text[cut : cut + 8 * ANSWER_TOKENS])[:ANSWER_TOKENS]
    room = n_tokens - max(len(answer), *map(len, alternatives))
    # Other modules stand before this one, so that any length can be had; a longer text loses its oldest lines.
    before = "\n".join(texts[(site.file + k) % len(texts)][0] for k in range(1, len(texts)))
    lines = (before + "\n" + text[:cut]).split("\n")
    start, size = len(lines), 0
    while start > 0 and (size := size + len(literal_ids(model, "\n" + lines[start - 1]))) <= room:
        start -= 1
    kept = "\n".join(lines[start:])
    if len(kept) < cut - site.seen:
        return None
    ids = literal_ids(model, kept, first=True)
    floor = literal_ids(model, "\n".join(lines[-2:]), first=True)
    return Prompt(
        name=f"{NAME}-{index:03}",
        style=NAME,
        source=f"{entry['source']}, at character {site.at}",
        licence=entry["licence"],
        sha256=entry["sha256"],
        tokens=as_tokens(ids),
        workload=NAME,
        scored_from=len(ids),
        answer=as_tokens(answer),
        alternatives=alternatives,
        floor=as_tokens(floor),
        facts={
            "length": len(ids),
            "file": entry["file"],
            "name": site.name,
            "distance": len(literal_ids(model, text[site.seen : cut])),
        },
    )


def _make(model: LanguageModel, count: int, n_tokens: int) -> list[Prompt]:
    check(model.name != "tiny", "model", "a model that reads text", model.name, ValueRangeError)
    texts = _texts()
    prompts: list[Prompt] = []
    for site in _every_site(texts):
        prompt = _prompt(model, texts, site, len(prompts), n_tokens)
        prompts += [] if prompt is None else [prompt]
        if len(prompts) == count:
            return prompts
    there = f"1..{len(prompts)} at {n_tokens} tokens"
    raise ValueRangeError(f"workload {NAME}: prompts: expected {there}, got {count}")


WORKLOAD = Workload(
    name=NAME,
    version=VERSION,
    title="Code with names from far above",
    shows="Whether a name is still preferred to other names of the same file when its last mention was compressed, "
    "and the loss on the lines that follow.",
    cannot_show="Whether generated programs work: nothing is executed. A model may know these modules by heart.",
    make=_make,
    least=256,
    most=None,
)
