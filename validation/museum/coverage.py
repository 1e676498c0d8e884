"""Which exhibits concern which gate of a validation run, and the gates that no exhibit concerns."""

from __future__ import annotations

from validation.museum.catalogue import EXHIBITS
from validation.museum.exhibit import Exhibit

# Gates that judge what other checks of the museum judge too: exhibits whose stop is that check.
_SAME_CHECK = {
    "parity": ("parity with numpy", "parity certificate"),
}
# Gate -> why no fault of the gallery concerns it, and where a planted one is.
NO_EXHIBIT = {
    "parity-coverage": "a backend that is missing is a fact of the machine; validation/tests/test_gates.py takes one away",
    "window-exact": "no report of such a fault is known; validation/tests/test_gates.py plants a difference",
    "ledger": "a total that is not the sum of its entries is caught before any report; validation/tests/test_gates.py plants one",
    "retrieval": "a collapse needs answers to questions; validation/tests/test_gates.py takes answers away",
}


def concerns(gate: str) -> tuple[Exhibit, ...]:
    """The exhibits whose fault this gate must stop."""
    names = {f"gate: {gate}", *_SAME_CHECK.get(gate, ())}
    return tuple(e for e in EXHIBITS if e.stop.name in names)


def table(gates: list[str]) -> dict[str, tuple[str, ...]]:
    """Gate to the ids of its exhibits, in the order given."""
    return {gate: tuple(e.id for e in concerns(gate)) for gate in gates}
