"""What a workload is, and the list of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tq_core.errors import ValueRangeError, check
from tq_core.model.interface import LanguageModel
from validation.compare.store import key_of
from validation.workloads.prompt import Prompt

Maker = Callable[[LanguageModel, int, int], list[Prompt]]


@dataclass(frozen=True)
class Workload:
    """``make(model, count, n_tokens)`` gives prompts of about ``n_tokens`` tokens; the first ones do not depend on ``count``.

    ``version`` changes whenever the prompts do; of a user's file it is the SHA-256. ``shows`` and ``cannot_show`` stand in every report that uses it.
    ``least`` is the fewest tokens per prompt that it can be made with, ``most`` how many prompts there are (None: any).
    ``make`` raises ValueRangeError for a model whose vocabulary or context does not fit.
    """

    name: str
    version: int | str
    title: str
    shows: str
    cannot_show: str
    make: Maker
    least: int
    most: int | None = None

    def prompts(self, model: LanguageModel, count: int, n_tokens: int) -> list[Prompt]:
        """Prompts, each fitting into the model's context. Raises ValueRangeError."""
        top = model.context_length
        check(self.least <= n_tokens <= top, f"workload {self.name}: length", f"{self.least}..{top} tokens", n_tokens, ValueRangeError)  # fmt: skip
        known = self.most is None or count <= self.most
        check(count >= 1 and known, f"workload {self.name}: prompts", f"1..{self.most or 'any'}", count, ValueRangeError)  # fmt: skip
        made = self.make(model, count, n_tokens)
        for prompt in made:
            check(
                prompt.longest <= top,
                f"prompt {prompt.name}",
                f"at most {top} tokens, the context of {model.name}, its continuation included",
                prompt.longest,
                ValueRangeError,
            )
        return made

    def describe(self) -> dict[str, Any]:
        """JSON-able form, without the function."""
        plain = asdict(self)
        del plain["make"]
        return plain


def digest_of(prompts: Sequence[Prompt]) -> str:
    """SHA-256 (hex) of all prompts in order."""
    return key_of(prompts=[p.digest for p in prompts])
