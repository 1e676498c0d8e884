"""Where the time of the fused step goes: the three functions that it runs on every page, each alone."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from tq_core.errors import BackendError, KernelError, check
from tq_core.kernels.cling import load_cppyy, load_kernels
from tq_core.show.ladder import differing
from tq_core.show.page_set import PageSet
from tq_core.show.speed import interleaved
from tq_core.show.work import Runner, fused_step, output_work, query_work

# The same features as in cpp/tq/tq.h, where a target's kernels are compiled.
FEATURES = {
    "scalar": "", "neon": "", "avx2": "avx2,f16c", "avxvnni": "avx2,f16c,avxvnni", "avx512": "avx512f,avx512bw,avx512vl,avx512dq",
    "avx512vnni": "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni",
}  # fmt: skip
PARTS = {"key scan": 1, "softmax": 2, "value scan": 4}
EVERYTHING = sum(PARTS.values())


def region(target: str, body: str, features: str | None = None) -> str:
    """C++ that is compiled for the instruction set of ``target``, with TQ_TARGET as its name; a second time it is skipped."""
    wanted = FEATURES[target] if features is None else features
    push = (
        f'#pragma clang attribute push(__attribute__((target("{wanted}"))), apply_to = function)\n'
        if wanted
        else ""
    )
    pop = "#pragma clang attribute pop\n" if wanted else ""
    return f"{push}#define TQ_TARGET {target}\n{body}#undef TQ_TARGET\n{pop}"


@cache
def _attend_parts(target: str) -> Any:
    """The C++ function ``attend_parts`` of one target. Raises BackendError when it does not compile."""
    load_kernels()
    cppyy = load_cppyy()
    try:
        cppyy.cppdef(region(target, '#include "show/step_parts.h"\n'))
    except SyntaxError as error:
        raise BackendError(f"cpp/show: expected to compile under Cling, got: {error}") from error
    return getattr(cppyy.gbl.tq_show, target).attend_parts


def part_runner(data: PageSet, target: str, which: int) -> Runner:
    """Parts of ``attend_packed`` over all pages; with EVERYTHING its softmax state's ``out`` is that of the step."""
    whole = fused_step(data)
    index = [name for name, _ in whole.calls].index("attend_packed")
    made = whole.calls[index][1]
    replace(whole, calls=whole.calls[:index]).on_numpy()  # the queries
    attend = _attend_parts(target)
    work = replace(whole, calls=(("attend_packed", made),), output=made["out"])

    class Space:
        @staticmethod
        def attend_packed(*values: Any) -> None:
            attend(which, *values)

    return work.bare(Space)


def shares(data: PageSet, target: str, rounds: int = 7) -> dict[str, float]:
    """ns per token and KV head of each part alone, and of the fused step. Raises KernelError when the parts do not make the step."""
    want, got = fused_step(data), part_runner(data, target, EVERYTHING)
    got.run()
    attend = dict(want.calls)["attend_packed"]["out"]
    want.native(target).run()
    wrong = differing(got.output, attend)
    check(
        wrong == 0, "attend_parts", "the bits of attend_packed", f"{wrong} numbers that differ", KernelError
    )
    runs = {"query": query_work(data).native(target).run}
    runs |= {name: part_runner(data, target, which).run for name, which in PARTS.items()}
    runs |= {
        "output": output_work(data).native(target).run,
        "fused step": fused_step(data).native(target).run,
    }
    return {name: 1e9 * taken / data.units for name, taken in interleaved(runs, rounds).items()}
