"""Planted kinds of keys: each gives its figure and its advice, and clean vectors give neither."""

import numpy as np
import pytest

from tq_core.codecs.arms import get_arm
from validation.tests.diagnose.planted import HALF, diagnosed, gauss

pytestmark = pytest.mark.slow  # real codecs store every case


def only_special(data, *topics):
    assert set(data["advice"]["special"]) == set(topics), data["advice"]["special"]


def test_gaussian_vectors_are_nothing_special():
    data, advice = diagnosed(gauss(), gauss(seed=1), gauss(heads=4, seed=2))
    only_special(data)
    got = {
        t: advice[t]["value"]
        for t in ("arm", "key_bits", "value_bits", "key_centring", "value_centring", "sinks")
    }
    assert got == {"arm": "structured-turbo", "key_bits": 3, "value_bits": 3, "key_centring": "none", "value_centring": "none", "sinks": 0}  # fmt: skip
    s = data["summary"]
    assert s["norm_ratio"]["median"] == pytest.approx(1, abs=0.02)
    assert s["kurtosis"]["median"] == pytest.approx(-6 / 66, abs=0.05)
    assert s["static_mean_share"]["most"] == pytest.approx(1 / 256, abs=2e-3)
    assert s["page_64_share"]["most"] == pytest.approx(1 / 64, abs=5e-3)
    # At d = 64 the error of 3-bit codes is sqrt(0.0334) of the logits' standard deviation, which is 1.
    assert s["key_errors[rotation]"]["median"] == pytest.approx(0.0334**0.5, abs=0.015)
    assert s["value_error"]["median"] == pytest.approx(0.0334, rel=0.03)


def test_without_queries_and_values_it_says_what_it_cannot_know():
    data, advice = diagnosed(gauss())
    only_special(data)
    assert advice["key_bits"]["value"] == 4 and "queries" in advice["key_bits"]["text"]
    assert advice["smoothing"]["value"] == "unknown" and advice["window"]["value"] == 128
    assert "not known" in advice["sinks"]["text"] and "norm_ratio" not in data["summary"]


def test_one_outlier_channel():
    keys = gauss(d=128)
    keys[..., 17] *= 20
    data, advice = diagnosed(keys, gauss(d=128, seed=1))
    assert all(row["outlier_channels"] == [17] for row in data["heads"])
    assert data["summary"]["peak_channel_energy"]["median"] == pytest.approx(400 / (527 / 128), rel=0.1)
    assert data["summary"]["outlier_share"]["median"] == pytest.approx(400 / 527, abs=0.03)
    assert data["summary"]["kurtosis"]["median"] > 20
    assert advice["rotation"]["special"] and advice["key_centring"]["value"] == "none"
    crossed = {r["figure"]: r["crossed"] for r in advice["rotation"]["because"]}
    assert crossed["most outlier channels in a head"] and crossed["median excess kurtosis of keys"]


def test_a_single_channel_is_flat_after_one_round():
    keys = gauss() * 1e-3
    keys[..., 3] += 5 * np.sign(gauss()[..., 3])
    data, advice = diagnosed(keys)
    assert data["summary"]["kurtosis_rotated"]["median"] == pytest.approx(-2, abs=0.01)
    assert "fitted scale" in advice["rotation"]["text"] and advice["rotation"]["because"][2]["crossed"]


@pytest.mark.parametrize("with_queries", [True, False])
def test_a_shared_offset_is_centred(with_queries):
    keys = gauss()
    keys[..., :4] += np.float32([20, -15, 12, -25])
    share = (20**2 + 15**2 + 12**2 + 25**2) / (64 + 20**2 + 15**2 + 12**2 + 25**2)
    data, advice = diagnosed(keys, gauss(seed=1), gauss(heads=4, seed=2) if with_queries else None)
    for figure in ("static_mean_share", "page_32_share", "page_64_share", "page_128_share"):
        assert data["summary"][figure]["median"] == pytest.approx(share, abs=0.01)
    assert data["summary"]["norm_ratio"]["median"] > 4 * data["summary"]["norm_ratio_centred"]["median"]
    reasons = [r for r in advice["key_centring"]["because"] if r["crossed"]]
    assert advice["key_centring"]["special"] and reasons and reasons[0]["measured"] > 1
    assert advice["key_centring"]["value"] in ("page", "none") and not advice["value_centring"]["special"]
    assert data["advice"]["arm"] == "kivi-control" or data["advice"]["options"]["key_centre"] == "page"


def test_an_offset_before_rope_is_seen_where_the_rotary_is_known():
    keys = gauss(n=512)
    keys[..., 2] += 40
    turned = np.stack([HALF.rotate(layer, np.arange(512)) for layer in keys])
    data, advice = diagnosed(turned, rotary=HALF)
    share = 1600 / 1664
    assert data["summary"]["pre_rope_mean_share"]["median"] == pytest.approx(share, abs=0.01)
    assert data["summary"]["static_mean_share"]["median"] < 0.3
    saved = {r["figure"].split()[4]: r["measured"] for r in advice["key_centring"]["because"]}
    assert saved["pre-RoPE"] > 1.5 > saved["static"]
    unknown, _ = diagnosed(turned)
    assert "pre_rope_mean_share" not in unknown["summary"]


@pytest.mark.parametrize(("length", "value"), [(0.3, 1), (25.0, 1), (1.0, 0)])
def test_a_first_key_of_another_length_is_a_sink(length, value):
    keys = gauss()
    keys[:, 0] *= length
    data, advice = diagnosed(keys)
    assert data["summary"]["first_key_norms[0]"]["median"] == pytest.approx(length, rel=0.15)
    assert advice["sinks"]["value"] == value and advice["sinks"]["special"] == bool(value)
    assert data["advice"]["options"]["sinks"] == value


def test_four_odd_keys_are_four_sinks_and_one_odd_head_is_none():
    keys = gauss(heads=8)
    keys[:, :4] *= 0.3
    assert diagnosed(keys)[1]["sinks"]["value"] == 4
    keys = gauss(heads=8)
    keys[:1, 0, :3] *= 0.3  # 3 of 16 heads
    assert diagnosed(keys)[1]["sinks"]["value"] == 0


def test_attention_on_the_first_token_is_a_sink():
    keys, queries = gauss(), gauss(heads=4, seed=2)
    queries += 4 * np.repeat(keys[:, :1], 2, axis=2) / 8
    data, advice = diagnosed(keys, gauss(seed=1), queries)
    assert data["summary"]["mass_first[0]"]["median"] > 0.15 and advice["sinks"]["value"] == 1
    assert data["summary"]["first_key_norms[0]"]["median"] == pytest.approx(1, abs=0.2)


def test_keys_far_longer_than_values_are_kept_at_8_bits():
    keys, values = gauss(d=128), gauss(d=128, seed=1)
    keys *= 182 / np.float32(np.linalg.norm(keys, axis=-1).mean() / np.linalg.norm(values, axis=-1).mean())
    data, advice = diagnosed(keys, values)
    assert data["summary"]["norm_ratio"]["median"] == pytest.approx(182, rel=0.05)
    assert data["advice"]["arm"] == "q8_0" and advice["key_bits"]["value"] == 8
    assert [r["crossed"] for r in advice["key_bits"]["because"] if "length" in r["figure"]] == [True]


def test_a_ratio_that_an_offset_makes_is_centred_instead():
    keys = gauss(d=128)
    keys[..., 5] += 182 * 128**0.5
    data, _ = diagnosed(keys, gauss(d=128, seed=1))
    assert data["summary"]["norm_ratio"]["median"] == pytest.approx(182, rel=0.05)
    assert data["summary"]["norm_ratio_centred"]["median"] == pytest.approx(1, abs=0.05)
    assert data["advice"]["arm"] != "q8_0"


def test_attention_that_ends_nearby_needs_a_shorter_window():
    n = 512
    near = np.zeros((1, n, 1, 64), np.float32)
    angle = np.arange(n) * 2 * np.pi / n
    near[0, :, 0, 0], near[0, :, 0, 1] = 60 * np.cos(angle), 60 * np.sin(angle)
    data, advice = diagnosed(near + gauss(n, 1, 64, 1) * 0.01, None, near)
    assert data["summary"]["mass_recent_32"]["median"] > 0.95 and advice["window"]["value"] == 32
    far = diagnosed(gauss(n, 1, layers=1), None, gauss(n, 1, layers=1, seed=2))[1]["window"]
    assert far["value"] == 128 and not far["special"]


def test_queries_and_keys_with_opposite_channels_are_smoothed():
    keys, queries = gauss(), gauss(heads=4, seed=2)
    keys[..., :8] *= 10
    queries[..., -8:] *= 10
    data, advice = diagnosed(keys, None, queries)
    s_k, s_q = np.ones(64), np.ones(64)
    s_k[:8], s_q[-8:] = 100, 100
    want = -0.5 * np.log2(np.sqrt(s_k * s_q).sum() ** 2 / (s_k.sum() * s_q.sum()))
    assert data["summary"]["smoothing_bits"]["median"] == pytest.approx(want, rel=0.05)
    assert advice["smoothing"]["value"] == "try"


def test_shared_values_are_centred():
    values = gauss(seed=1) + np.float32(1)
    data, advice = diagnosed(gauss(), values)
    assert data["summary"]["value_mean_share"]["median"] == pytest.approx(0.5, abs=0.03)
    assert advice["value_centring"]["value"] == "static"


@pytest.mark.parametrize(
    ("d", "m", "cost"), [(80, 20, 0.6), (96, 12, 1 / 3), (112, 28, 1 / 7), (160, 20, 0.6)]
)
def test_head_sizes_that_are_no_power_of_two(d, m, cost):
    data, advice = diagnosed(gauss(d=d, layers=1))
    size = data["head_size"]
    assert size["paley_order"] == m and size["padding_cost"] == pytest.approx(cost) and size["supported"]
    assert f"order {m}" in advice["head_dim"]["text"] and advice["head_dim"]["special"]
    assert data["summary"]["kurtosis_rotated"]["median"] == pytest.approx(-6 / (d + 2), abs=0.05)


def test_a_head_size_without_kernels_is_measured_and_not_stored():
    data, advice = diagnosed(gauss(d=72, layers=1))
    assert data["trial"]["not_tried"] and "key_errors[rotation]" not in data["summary"]
    assert data["head_size"]["next_supported"] == 80 and "80 is the next" in advice["head_dim"]["text"]
    assert data["summary"]["kurtosis_rotated"]["median"] == pytest.approx(-6 / 74, abs=0.05)


def test_constant_keys_are_an_offset_alone():
    keys = np.full((1, 256, 2, 64), 3.0, np.float32)
    data, advice = diagnosed(keys, gauss(layers=1))
    assert data["summary"]["static_mean_share"]["median"] == pytest.approx(1)
    assert "constant keys" in [f["value"] for f in advice["input"]]
    assert data["summary"]["key_norm_centred"]["most"] == pytest.approx(0, abs=1e-5)


def test_zero_keys_and_zero_tokens():
    keys = gauss()
    keys[0, :, 1] = 0
    keys[1, 100:110, 0] = 0
    data, advice = diagnosed(keys, gauss(seed=1), gauss(heads=4, seed=2))
    told = {f["value"]: f["text"] for f in advice["input"]}
    assert "layer 0 head 1" in told["zero keys"]
    assert "10 keys" in told["zero tokens"] and "layer 1 head 0" in told["zero tokens"]
    assert data["heads"][1]["kurtosis"] is None and data["heads"][1]["first_key_norms"] == [None] * 4


def test_dead_channels_and_numbers_beyond_float16():
    keys = gauss()
    keys[..., 9] = 0
    data, advice = diagnosed(keys)
    assert [f["value"] for f in advice["input"]] == ["dead channels"]
    keys = gauss()
    keys[0, 5, 0, 0] = 70000
    data, advice = diagnosed(keys)
    assert (
        "beyond float16" in [f["value"] for f in advice["input"]] and "float16" in data["trial"]["not_tried"]
    )


def test_every_advice_can_be_followed_and_names_its_limits():
    for keys in (gauss(), gauss(scale=100), gauss() + 9, gauss(d=80)):
        data, _ = diagnosed(keys, gauss(d=keys.shape[-1], seed=1), gauss(heads=4, d=keys.shape[-1], seed=2))
        get_arm(data["advice"]["arm"], **data["advice"]["options"])
        known = {t["name"]: t for t in data["advice"]["thresholds"]}
        for finding in data["advice"]["findings"]:
            for reason in finding["because"]:
                assert known[reason["limit"]]["value"] == reason["limit_value"]
