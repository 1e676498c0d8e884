"""`tq diagnose`: its JSON fits the schema, its exit codes are those of the other commands, nothing is half-written."""

import copy
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from tq_core.tests.model.families import folder
from validation import cli
from validation.tests.diagnose.planted import gauss

SCHEMA = json.loads((Path(cli.__file__).parent / "schema" / "diagnose-v1.schema.json").read_text())


def checked(data):
    jsonschema.validate(data, SCHEMA, jsonschema.Draft202012Validator)
    return data


@pytest.fixture
def files(tmp_path):
    for name, array in (("keys", gauss()), ("values", gauss(seed=1)), ("queries", gauss(heads=4, seed=2))):
        np.save(tmp_path / f"{name}.npy", array)
    return tmp_path


def told(capsys, *arguments):
    assert cli.main(["diagnose", *map(str, arguments), "--json", "--quiet"]) == cli.PASS
    said = capsys.readouterr()
    assert said.err == ""
    return checked(json.loads(said.out))


@pytest.mark.slow
def test_tiny_as_json_text_and_figure(tmp_path, capsys):
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    data = told(capsys, "tiny", "--tokens", 256, "--plot", tmp_path / "figure.svg")
    assert (data["source"]["name"], len(data["heads"]), data["source"]["rotary_known"]) == ("tiny", 6, True)
    assert data["advice"]["arm"] == "structured-turbo" and data["trial"]["kind"] == "logit"
    svg = (tmp_path / "figure.svg").read_bytes()
    assert svg.startswith(b"<?xml") and [p.name for p in tmp_path.iterdir()] == ["figure.svg"]
    assert told(capsys, "tiny", "--tokens", 256, "--plot", tmp_path / "again.svg")["plot"] == data["plot"]
    assert svg == (tmp_path / "again.svg").read_bytes()
    assert cli.main(["diagnose", "tiny", "--tokens", "256", "--quiet"]) == cli.PASS
    text = capsys.readouterr().out
    for finding in data["advice"]["findings"]:
        assert finding["text"] in text
        for reason in finding["because"]:
            assert f"[{reason['origin']}: {reason['limit']}]" in text


@pytest.mark.slow
def test_files_with_everything_and_keys_alone(files, capsys):
    keys = files / "keys.npy"
    data = told(
        capsys, keys, "--values", files / "values.npy", "--queries", files / "queries.npy", "--theta", 1e4
    )
    assert (
        data["source"]["n_query_heads"] == 4
        and data["source"]["rotary_known"]
        and data["advice"]["special"] == []
    )
    alone = told(capsys, keys)
    assert alone["source"]["has_values"] is False and alone["source"]["sha256"] != data["source"]["sha256"]
    assert (
        cli.main(["diagnose", str(keys), "--quiet"]) == cli.PASS
        and "nothing special" in capsys.readouterr().out
    )


@pytest.mark.slow
def test_degenerate_vectors_are_plain_json(files, capsys):
    keys = gauss(n=40)
    keys[0] = 0
    keys[1, :, 0] = 2
    np.save(files / "odd.npy", keys)
    np.save(files / "zeros.npy", np.zeros_like(keys))
    data = told(capsys, files / "odd.npy", "--values", files / "zeros.npy")
    assert data["heads"][0]["norm_ratio"] is None and data["heads"][0]["page_64_share"] is None
    told(capsys, files / "zeros.npy", "--queries", files / "zeros.npy")


@pytest.mark.slow
def test_a_text_of_ones_own(files, capsys):
    (files / "mine.txt").write_text("set red to blue . " * 200)
    with_text = cli.main(
        ["diagnose", "tiny", "--text", str(files / "mine.txt"), "--tokens", "64", "--json", "--quiet"]
    )
    said = capsys.readouterr()
    assert with_text in (cli.PASS, cli.BAD_INPUT) and "Traceback" not in said.err
    if with_text == cli.PASS:
        assert checked(json.loads(said.out))["source"]["text"] == "mine.txt"


@pytest.mark.slow
def test_a_model_by_its_path(tmp_path, capsys):
    data = told(capsys, folder("qwen2", tmp_path), "--tokens", 64)
    assert data["source"]["name"] == "qwen2" and data["source"]["rotary_known"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["gpt"], "source"),
        (["keys.bin"], "source"),
        (["./none.gguf"], "model"),
        (["./none.gguf", "--theta", "1"], "theta"),
        (["./none.npy"], "keys"),
        (["tiny", "--tokens", "31"], "tokens"),
        (["tiny", "--tokens", "100000"], "tokens"),
        (["tiny", "--theta", "10000"], "theta"),
        (["tiny", "--values", "v.npy"], "values"),
        (["tiny", "--bfloat16"], "bfloat16"),
        (["tiny", "--text", "./none.txt"], "text"),
        (["tiny", "--plot", "figure.png"], "plot"),
        (["tiny", "--plot", "/none/figure.svg"], "plot"),
        (["{keys}", "--tokens", "64"], "tokens"),
        (["{keys}", "--pairing", "half"], "pairing"),
        (["{keys}", "--theta", "-1"], "theta"),
        (["{keys}", "--values", "{queries}"], "values"),
        (["{keys}", "--queries", "{short}"], "queries"),
        (["{keys}", "--values", "./none.npy"], "values"),
        ([], "MODEL"),
    ],
)
def test_bad_input_is_one_line_that_names_the_argument(arguments, names, files, capsys):
    np.save(files / "short.npy", gauss(n=64))
    places = {name: str(files / f"{name}.npy") for name in ("keys", "queries", "short")}
    before = sorted(files.iterdir())
    assert cli.main(["diagnose", *(a.format(**places) for a in arguments)]) == cli.BAD_INPUT
    said = capsys.readouterr()
    assert said.out == "" and names in said.err and len(said.err.splitlines()) == 1
    assert sorted(files.iterdir()) == before


@pytest.mark.slow
@pytest.mark.parametrize("change", ["extra", "topic", "nan", "limit"])
def test_the_schema_refuses_what_it_should(files, capsys, change):
    data = copy.deepcopy(told(capsys, files / "keys.npy"))
    if change == "extra":
        data["heads"][0]["other"] = 1
    elif change == "topic":
        data["advice"]["findings"][0]["topic"] = "weather"
    elif change == "nan":
        data["summary"]["kurtosis"]["median"] = None
    else:
        del data["advice"]["thresholds"][0]["why"]
    with pytest.raises(jsonschema.ValidationError):
        checked(data)
