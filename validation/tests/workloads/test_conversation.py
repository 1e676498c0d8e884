"""A conversation is written as the model was trained to read it, or as a transcript."""

import pytest

from tq_core.errors import ValueRangeError
from tq_core.model.chat import FORMATS, Message
from tq_core.model.zoo import load_model
from tq_core.tests.model.families import folder
from validation.workloads.conversation import conversation

TURNS = [Message("system", "be kind"), Message("user", "hi")]


@pytest.mark.parametrize("known", FORMATS, ids=[f.name for f in FORMATS])
def test_the_models_own_form(tmp_path, known):
    path = folder("llama", tmp_path)
    (path / "chat_template.jinja").write_text(known.tokens[0])
    model = load_model(str(path))
    made = conversation(model, TURNS)
    assert made.form == known.name
    assert made.stop_ids[0] == model.tokenizer.special[known.end] and made.ids[0] == model.tokenizer.begin[0]
    assert model.tokenizer.special[known.tokens[0]] in made.ids


def test_a_base_model_reads_a_transcript(tmp_path):
    model = load_model(str(folder("llama", tmp_path)))
    made = conversation(model, TURNS)
    assert (made.form, made.stop_ids) == ("transcript", ())
    assert model.detokenize(made.ids[1:]) == "Instructions: be kind\n\nUser: hi\n\nAssistant:"


def test_nothing_to_say_and_nobody_to_read_it():
    with pytest.raises(ValueRangeError, match="messages"):
        conversation(load_model("tiny"), [])
    with pytest.raises(ValueRangeError, match="a model that reads text"):
        conversation(load_model("tiny"), TURNS)
