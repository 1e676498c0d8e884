"""Documents: hashed, complete, the same every time, and refused when altered."""

import json
import shutil

import numpy as np
import pytest

from tq_core.errors import ModelFileError, ValueRangeError
from tq_core.model.tiny_task import detokenize
from validation.scenarios import (
    TEXTS,
    documents_for,
    episode_documents,
    read_text,
    text_documents,
    text_entries,
)
from validation.stats import MIN_DOCUMENTS


class CharacterModel:
    """One token per character: enough of a model for cutting texts."""

    name, context_length = "characters", 4096

    def tokenize(self, text):
        return [ord(c) % 128 for c in text]


def test_the_manifest_names_every_text_with_its_licence():
    entries = text_entries()
    assert {e["file"] for e in entries} == {p.name for p in TEXTS.glob("*.txt")}
    assert len(entries) >= MIN_DOCUMENTS, "fewer would not allow an interval over documents"
    assert all(e["licence"] in ("Apache-2.0", "PSF-2.0", "public domain") and e["source"] for e in entries)
    assert len({e["style"] for e in entries[:4]}) == 4, (
        "the first texts, which a short run reads, should differ"
    )


def test_texts_are_as_their_digests_say():
    for entry in text_entries():
        text = read_text(entry)
        assert len(text.split()) > 250 and text.isascii()


def test_an_altered_text_is_refused(tmp_path):
    shutil.copytree(TEXTS, tmp_path / "texts")
    entry = text_entries(tmp_path / "texts")[0]
    path = tmp_path / "texts" / entry["file"]
    path.write_text(path.read_text() + " ")
    with pytest.raises(ModelFileError, match=f"{entry['file']}: expected SHA-256"):
        text_documents(CharacterModel(), 1, 64, tmp_path / "texts")
    path.unlink()
    with pytest.raises(ModelFileError, match="readable text"):
        read_text(entry, tmp_path / "texts")


@pytest.mark.parametrize("text", ["", "{}", json.dumps({"texts": [{"file": "x"}]}), json.dumps({"texts": 3})])
def test_a_damaged_manifest_is_refused(tmp_path, text):
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(ModelFileError, match=r"manifest\.json"):
        text_entries(tmp_path)


def test_amounts_are_rounded_up_to_whole_documents():
    documents = documents_for(CharacterModel(), total=200, length=101)
    assert len(documents) == 2 and sum(d.n_scored for d in documents) == 200
    assert len(documents_for(CharacterModel(), total=201, length=101)) == 3


@pytest.mark.parametrize(("total", "length"), [(0, 64), (10, 1), (10, 5000), (10**6, 64), (10, 4000)])
def test_amounts_that_cannot_be_had_are_refused(total, length):
    with pytest.raises(ValueRangeError, match=r"^(tokens|length): expected"):
        documents_for(CharacterModel(), total, length)


def test_episodes_repeat_and_their_answers_are_where_they_are_said_to_be():
    first, again = episode_documents(3, 200), episode_documents(3, 200)
    for a, b in zip(first, again, strict=True):
        assert a.describe() == b.describe() and len(a.tokens) == 200 and len(a.answers) == 8
        for rows in a.answers:
            answer = detokenize(a.tokens[rows + 1].tolist())
            assert detokenize(a.tokens.tolist()).count(answer) >= 2, "bound once, asked for once"
    assert len({d.sha256 for d in first}) == 3


def test_too_short_an_episode_is_refused():
    with pytest.raises(ValueRangeError, match="length"):
        episode_documents(1, 40)


LONGEST = 512  # tokens per text in the shipped studies


@pytest.mark.model
def test_every_text_is_long_enough_for_the_default_length():
    from tq_core.model.zoo import load_model

    model = load_model("smollm2")
    documents = text_documents(model, len(text_entries()), LONGEST)
    assert all(d.tokens.dtype == np.int32 and len(d.tokens) == LONGEST for d in documents)
