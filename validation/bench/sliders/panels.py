"""The panels that are measured: the cell that shows each, and the sliders that are moved."""

from __future__ import annotations

from dataclasses import dataclass

LIMITS = {"kernels": 100.0, "formula": 30.0}  # milliseconds from the key to the picture, the goals


@dataclass(frozen=True)
class Measured:
    """``kind`` is "kernels" where a move runs compiled kernels, "formula" where it evaluates formulas or looks up."""

    name: str
    kind: str
    cell: str
    sliders: tuple[str, ...] = ()


_FIXTURE = """
from tq_core.model.fixture import make_fixture
from tq_core.show.attention import LayerBench
fixture = make_fixture(n_outliers=0)
bench = LayerBench(fixture.queries, fixture.keys, fixture.values)
"""
PANELS = (
    Measured("echo, nothing computed", "formula", "from validation.bench.sliders.echo import EchoPanel as P\nview = P()"),
    Measured("budget, notebook 01", "formula", "from tq_core.show.budget_panel import BudgetPanel as P\nview = P()"),
    # The codec stays: others refuse some of the settings.
    Measured(
        "workbench, notebook 03",
        "kernels",
        "from tq_core.show import workbench\nfrom tq_core.show.bench_panel import BenchPanel as P\nview = P(workbench.Workbench())",
        ("key_bits", "value_bits", "window", "context", "page_tokens", "model", "budget"),
    ),
    Measured("book, notebook 02", "kernels", "from tq_core.show.book_panel import BookPanel as P\nview = P()"),
    Measured("page, notebook 04", "formula", "from tq_core.show.page_panel import PagePanel as P\nview = P()", ("tokens",)),
    Measured(
        "family, notebook 09",
        "formula",
        "import json\nfrom tq_core.paths import ROOT\nfrom tq_core.show.family_panel import FamilyPanel as P\n"
        "view = P(json.loads((ROOT / 'validation/compare/results/smollm2.json').read_text())['rows'])",
    ),
    Measured("dial, notebook 00", "kernels", _FIXTURE + "from tq_core.show.dial_panel import DialPanel as P\nview = P(bench)"),
    # The arm stays: one of the two refuses half of the settings.
    Measured("layer, notebook 03", "kernels", _FIXTURE + "from tq_core.show.layer_panel import LayerPanel as P\nview = P(bench)", ("key_bits", "value_bits", "window", "head")),
)  # fmt: skip
