"""The budget sliders show the ledger's plan; the costs that feed the break-even are measured."""

from __future__ import annotations

import pytest

from tq_core.cache.breakdown import LINES
from tq_core.codecs.arms import get_arm
from tq_core.model.outline import KNOWN
from tq_core.model.outline_bytes import longest_context, planned_bytes
from tq_core.show import speed
from tq_core.show.budget_panel import BUDGETS, GROUPS, BudgetPanel, grouped
from tq_core.show.panel import Panel


def test_every_ledger_line_is_in_one_group() -> None:
    assert sorted(line for lines in GROUPS.values() for line in lines) == sorted(LINES)


def test_the_bars_add_up_to_the_plan() -> None:
    view = BudgetPanel()
    panel = Panel(view)
    panel.set(model="smollm2", key_bits=2.5, value_bits=2.0, window=32, context=2048)
    arm = get_arm("structured-turbo", key_bits=2.5, value_bits=2.0, window=32)
    plan = planned_bytes(KNOWN["smollm2"], arm, 2048)
    assert panel.numbers["MiB"] == plan.total / 2**20
    *bars, whole = view._parts
    for bar, nbytes in zip(bars, grouped(plan).values(), strict=True):
        assert bar.get_width() == pytest.approx(8 * nbytes / (plan.n_tokens * plan.channels))
    assert bars[-1].get_x() + bars[-1].get_width() == pytest.approx(whole.get_width())
    assert whole.get_width() == pytest.approx(float(sum(plan.bits.values())))


def test_sliders_move_bytes_and_the_longest_context() -> None:
    panel = Panel(BudgetPanel())
    picture, before = panel._picture.value, dict(panel.numbers)
    panel.set(key_bits=2.0, value_bits=2.0)
    assert panel.numbers["MiB"] < before["MiB"]
    assert panel.numbers["longest context"] > before["longest context"]
    panel.set(budget="64 GiB")
    arm = get_arm("structured-turbo", key_bits=2.0, value_bits=2.0)
    assert panel.numbers["longest context"] == longest_context(KNOWN["llama-8b"], arm, BUDGETS["64 GiB"])
    assert panel._picture.value != picture
    assert "64 GiB fits" in panel._readout.value
    panel.set(budget="64 MiB")
    assert "64 MiB does not fit" in panel._readout.value


@pytest.mark.slow
@pytest.mark.parametrize("model", list(KNOWN))
def test_every_model_can_be_shown(model: str) -> None:
    panel = Panel(BudgetPanel())
    for context in (512, 1048576):
        panel.set(model=model, context=context, window=2048)
        assert 'role="status"' in panel._readout.value
        assert f"{model}, K 3.5 bits" in panel.alt


def test_costs_are_measured_in_nanoseconds_per_token() -> None:
    costs = speed.token_costs(256, rounds=2)
    assert list(costs) == ["append", "scan", "fp16 scan"]
    assert all(0 < ns < 1e9 for ns in costs.values())
