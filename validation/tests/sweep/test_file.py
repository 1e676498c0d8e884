"""Sweep files and the points that they stand for."""

import copy

import pytest

from validation.sweep.file import MOST_POINTS, SweepError, find_sweep, parse_sweep, read_sweep, shipped
from validation.sweep.points import expand
from validation.tests.sweep.conftest import MINI


def test_every_shipped_file_is_read_and_the_digest_is_of_the_content(tmp_path):
    assert {"tiny", "smollm2-bits"} <= set(shipped())
    for name, path in shipped().items():
        sweep = find_sweep(name)
        other = tmp_path / "renamed.yaml"
        other.write_text("# a comment\n" + path.read_text())
        assert read_sweep(other).sha256 == sweep.sha256 and sweep.name == name
        assert expand(sweep).points


def test_all_faults_are_told_at_once():
    wrong = {
        "name": 3, "models": ["x", "tiny", "tiny"], "arms": ["kivi", "kivi-control:zap=1"], "key_bits": [99, "a"],
        "sinks": [-1], "zap": 1, "workloads": [{"name": "zz", "prompts": 0, "tokens": 1}], "metrics": ["kl_means"],
        "cache": "z", "confidence": 2,
    }  # fmt: skip
    with pytest.raises(SweepError) as caught:
        parse_sweep(wrong, "wrong.yaml")
    said = str(caught.value)
    for part in (
        "wrong.yaml", "none of version, question", "['zap']", "name: expected text", "models: expected every name once",
        "models[0]", "arms[0]", "key_bits[0]", "key_bits[1]", "sinks[0]", "workloads[0].prompts", "workloads[0].tokens",
        "workloads[0].name", "(did you mean kl_mean?)", "cache:", "confidence:",
    ):  # fmt: skip
        assert part in said, part


@pytest.mark.parametrize(
    "change, said",
    [
        ({"value_bits": "same", "key_bits": None}, "value_bits: expected key_bits to be the same as"),
        ({"key_bits": [2, 2]}, "key_bits: expected every value once"),
        ({"metrics": ["shared_reply"]}, "none about replies"),
        ({"rotation_seeds": list(range(MOST_POINTS))}, f"at most {MOST_POINTS} points"),
        ({"workloads": 2 * MINI["workloads"]}, "every workload and length once"),
        ({"models": []}, "models: expected a list of at least 1 name"),
    ],
)
def test_one_fault(change, said):
    data = {k: v for k, v in {**copy.deepcopy(MINI), **change}.items() if v is not None}
    with pytest.raises(SweepError, match=said.replace("(", "\\(")):
        parse_sweep(data)


@pytest.mark.parametrize(
    "text, said",
    [
        ("name: a\nname: b\n", "stands twice"),
        ("[1, 2", "expected YAML"),
        ("- 1\n", "expected a mapping"),
        ("[" * 2000, "nesting without end"),
        ("x: " + "y" * (1 << 20), "at most 1048576 bytes"),
    ],
)
def test_what_is_no_sweep_file(tmp_path, text, said):
    path = tmp_path / "sweep.yaml"
    path.write_text(text)
    with pytest.raises(SweepError, match=said):
        read_sweep(path)


def test_a_missing_file_is_told_with_a_near_name():
    with pytest.raises(SweepError, match=r"did you mean tiny\?"):
        find_sweep("tinny")


def test_what_an_arm_does_not_allow_is_listed_and_axes_that_it_lacks_are_said(mini):
    found = expand(mini)
    assert [p.label for p in found.points] == [
        "structured-turbo 2, window 16", "structured-turbo 3.5, window 16", "kivi-control 2, window 16",
        "structured-turbo 2, window 16", "fp16",
    ]  # fmt: skip
    (refused,) = found.refused
    assert refused.point.label == "kivi-control 3.5, window 16" and "3.5" in refused.reason
    assert set(found.not_applied) == {"structured-turbo:key_bits=2:value_bits=2", "fp16"}
    assert "no such option" in found.not_applied["fp16"]["window"]


def test_without_same_keys_and_values_are_crossed():
    data = {**MINI, "arms": ["structured-turbo"], "value_bits": [2, 3], "sinks": [0, 4]}
    labels = [p.label for p in expand(parse_sweep(data)).points]
    assert len(labels) == 2 * 2 * 2 and "structured-turbo 3.5/2, window 16, sinks 4" in labels
