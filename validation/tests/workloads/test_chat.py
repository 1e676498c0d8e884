"""The conversations: unaltered, long enough, different from each other, and cut by whole turns."""

import json
import re
import shutil
from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from tq_core.errors import ModelFileError, ValueRangeError
from validation.tests.workloads.conftest import CharacterModel
from validation.workloads.chat import FILE, NEW_TOKENS, TALKS_THERE, WORKLOAD, cut, talks
from validation.workloads.stored import DATA, stored
from validation.workloads.workload import digest_of

N_GRAM = 4
SHARED_AT_MOST = 0.02


def n_grams(talk):
    found = set()
    for message in talk.messages:
        words = re.findall(r"\w+", message.content.lower())
        found |= {tuple(words[i : i + N_GRAM]) for i in range(len(words) - N_GRAM + 1)}
    return found


def overlap(one, other):
    """Share of the smaller set that is in the other one too."""
    return len(one & other) / min(len(one), len(other))


def test_all_conversations_are_well_formed():
    every = talks()
    assert len(every) == TALKS_THERE == len({t.id for t in every}) == len({t.topic for t in every})
    for talk in every:
        assert 4 <= len(talk.messages) <= 7
        roles = [m.role for m in talk.messages]
        assert roles == (["user", "assistant"] * 4)[: len(roles)] and roles[-1] == "user"
        earlier = sum(len(m.content.split()) for m in talk.messages[:-1])
        assert 260 <= earlier <= 450 and 8 <= len(talk.messages[-1].content.split()) <= 45
        assert all(m.content == m.content.strip() for m in talk.messages)


def test_no_two_conversations_are_alike():
    every = [n_grams(t) for t in talks()]
    for (a, one), (b, other) in combinations(enumerate(every), 2):
        assert overlap(one, other) <= SHARED_AT_MOST, (talks()[a].id, talks()[b].id)
    words = Counter(g for grams in every for g in grams)
    assert words.most_common(1)[0][1] <= TALKS_THERE / 4, "no phrase runs through the conversations"


def test_a_conversation_with_other_names_in_it_would_be_noticed():
    talk = talks()[0]
    changed = [re.sub(r"\b[A-Z]\w+", "Someone", m.content) for m in talk.messages]
    copy = type(talk)(
        "copy", "copy", tuple(type(m)(m.role, c) for m, c in zip(talk.messages, changed, strict=True))
    )
    assert overlap(n_grams(talk), n_grams(copy)) > 10 * SHARED_AT_MOST


def test_an_altered_file_is_refused(tmp_path):
    shutil.copytree(DATA, tmp_path / "data")
    file = tmp_path / "data" / FILE
    file.write_text(file.read_text(encoding="utf-8").replace("lentils", "beans"), encoding="utf-8")
    with pytest.raises(ModelFileError, match="chat.jsonl: expected SHA-256"):
        talks(tmp_path / "data")
    (tmp_path / "data" / "manifest.json").write_text('{"texts": []}')
    with pytest.raises(ModelFileError, match="an entry for chat.jsonl"):
        talks(tmp_path / "data")


def test_the_manifest_names_every_file():
    entries = json.loads((DATA / "manifest.json").read_text())["texts"]
    assert {e["file"] for e in entries} == {p.name for p in DATA.iterdir()} - {"manifest.json"}
    assert all(stored(e["file"])[1]["licence"] == "Apache-2.0" for e in entries)


def test_early_turns_go_first_and_whole():
    model, talk = CharacterModel(), talks()[0]
    gone, whole = cut(model, talk, 10_000)
    assert gone == 0
    text = model.detokenize(whole.ids)
    for n_tokens, expected in ((len(text), 0), (len(text) - 1, 2), (len(text) // 2, 4)):
        gone, read = cut(model, talk, n_tokens)
        assert gone == expected and len(read.ids) <= n_tokens
        assert text.endswith(model.detokenize(read.ids))
        assert model.detokenize(read.ids).startswith(f"User: {talk.messages[gone].content}")
    with pytest.raises(
        ValueRangeError, match=r"length: expected at least \d+ tokens .*soup-for-six, got 300"
    ):
        cut(model, talk, 300)


def test_prompts_leave_the_reply_to_the_reference():
    prompts = WORKLOAD.prompts(CharacterModel(), 8, 3000)
    for prompt, talk in zip(prompts, talks(), strict=False):
        assert prompt.own_reply and prompt.new_tokens == NEW_TOKENS and prompt.tokens.dtype == np.int32
        assert prompt.scored_from == len(prompt.tokens) == prompt.facts["length"]
        assert CharacterModel().detokenize(prompt.floor) == f"User: {talk.messages[-1].content}\n\nAssistant:"
        json.dumps(prompt.describe())
    assert digest_of(prompts) == digest_of(WORKLOAD.prompts(CharacterModel(), 8, 3000))
    assert digest_of(prompts[:3]) == digest_of(WORKLOAD.prompts(CharacterModel(), 3, 3000))
    with pytest.raises(ValueRangeError, match="workload chat: prompts"):
        WORKLOAD.prompts(CharacterModel(), TALKS_THERE + 1, 3000)


@pytest.mark.model
def test_conversations_have_the_length_that_they_should_have():
    from tq_core.model.zoo import load_model
    from validation.workloads.conversation import conversation

    model = load_model("smollm2")
    for talk in talks():
        earlier = len(conversation(model, talk.messages[:-1]).ids)
        assert 420 <= earlier <= 620, talk.id
    for n_tokens in (WORKLOAD.least, 480, 680):
        prompts = WORKLOAD.prompts(model, TALKS_THERE, n_tokens)
        assert max(len(p.tokens) for p in prompts) <= n_tokens
        assert all(p.stop_ids == (model.tokenizer.end_id,) and p.facts["form"] == "chatml" for p in prompts)
    assert all(p.facts["turns"] == 7 for p in prompts), "680 tokens hold all of them"
