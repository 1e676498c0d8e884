"""Arms come from the registry, rates from what their factories accept, and the mask is the same for all."""

import pytest

from tq_core.codecs.arms import arm_names, arm_options, calibrated_arm_names
from tq_core.errors import CodecError, ValueRangeError
from validation.compare.plan import Entry, entries, forms, make_plan, parse_arm, try_arm


def test_every_registered_arm_is_there() -> None:
    assert {e.name for e in entries()} == {*arm_names(), *calibrated_arm_names()}


def test_no_form_is_there_twice_and_labels_differ() -> None:
    found = entries()
    labels = [e.label for e in found]
    assert len(set(labels)) == len(labels)
    digests = [try_arm(e.name, **dict(e.options)).digest for e in found]
    assert len(set(digests)) == len(digests)


def test_rates_that_an_arm_cannot_have_are_left_out() -> None:
    bits = {dict(e.options).get("key_bits") for e in forms(Entry("kivi-control"), (2.0, 2.5, 3.0, 4.0))}
    assert bits == {None, 2, 4}, "3 is the default, 2.5 does not exist"
    assert [dict(e.options).get("key_bits") for e in forms(Entry("eden"), (2.5,))] == [None, 2.5]


def test_published_forms_are_found_by_their_option() -> None:
    presets = {dict(e.options).get("preset") for e in forms(Entry("vllm-turboquant"))}
    assert {"k3v4_nc", "3bit_nc"} < presets
    assert "k3v4_nc" in Entry("vllm-turboquant", (("preset", "k3v4_nc"),)).label


def test_own_options_are_read_and_kept() -> None:
    entry = parse_arm("structured-turbo:key_centre=page:key_bits=2.5:value_bits=2")
    assert dict(entry.options) == {"key_centre": "page", "key_bits": 2.5, "value_bits": 2}
    assert forms(entry) == [entry], "bits that are given are the only rate"
    assert entry.label == "structured-turbo 2.5/2 key_centre=page"
    rates = [dict(e.options).get("key_bits") for e in forms(parse_arm("eden:seed=7"), (2.0,))]
    assert rates == [None, 2], "an option without bits is tried at every rate"


@pytest.mark.parametrize(
    "text", ["nothing", "eden:seed", "eden:window=3", "eden:=3", "eden:depth=3", "kivi-control:group=5"]
)
def test_bad_arms_are_refused(text: str) -> None:
    with pytest.raises((CodecError, ValueRangeError)):
        entries([text])


def test_the_open_group_is_that_of_the_arm_that_needs_most() -> None:
    alone = make_plan("tiny", ["structured-turbo"])
    both = make_plan("tiny", ["structured-turbo", "kivi-control"])
    assert (alone.flush_tokens, both.flush_tokens) == (1, 32)
    assert "31 more" in both.mask
    for entry in both.entries:
        assert both.flush_tokens % try_arm(entry.name, **dict(entry.options)).flush_tokens == 0


def test_window_and_sinks_are_common() -> None:
    for entry in make_plan("tiny").entries:
        options = entry.options_with(16, 4)
        assert options["sinks"] == 4
        assert ("window" in options) == ("window" in arm_options(entry.name))


@pytest.mark.parametrize(
    ("amounts", "named"),
    [
        ({"documents": 0}, "documents"),
        ({"tokens": 40}, "tokens"),
        ({"window": -1}, "window"),
        ({"pages": 3}, "amounts"),
    ],
)
def test_amounts_are_checked(amounts: dict[str, int], named: str) -> None:
    with pytest.raises(ValueRangeError, match=named):
        make_plan("tiny", ["kivi-control"], **amounts)


def test_rates_are_checked() -> None:
    with pytest.raises(ValueRangeError, match="rates"):
        make_plan("tiny", ["eden"], (0.5,))
