"""A user's file: read as it is, and every broken line named."""

import hashlib
import json

import jsonschema
import numpy as np
import pytest

from tq_core.errors import PromptFileError
from validation.workloads import jsonl, jsonl_lines
from validation.workloads.catalogue import get, prompts_of
from validation.workloads.jsonl import file_workload
from validation.workloads.jsonl_lines import SCHEMA, read_lines

GOOD = [
    {"id": "a", "text": "All of this is scored."},
    {
        "id": "b",
        "text": "The lamp is",
        "answer": " red",
        "alternatives": [" red", " blue"],
        "floor": "A lamp is",
    },
    {"id": "c", "messages": [{"role": "user", "content": "Which lamp?"}], "new_tokens": 5, "accept": ["red"]},
    {
        "id": "d",
        "messages": [{"role": "user", "content": "Well?"}],
        "alternatives": ["Yes", "No"],
        "floor": "Well?",
    },
]


def write(path, *lines, end=b"\n"):
    path.write_bytes(end.join(x if isinstance(x, bytes) else json.dumps(x).encode() for x in lines) + end)
    return path


def test_a_sound_file_becomes_prompts(tmp_path, characters):
    path = write(tmp_path / "mine.jsonl", *GOOD)
    workload = get(f"file:{path}")
    assert workload.version == hashlib.sha256(path.read_bytes()).hexdigest() and workload.most == 4
    a, b, c, d = workload.prompts(characters, 4, 100)
    assert [p.name for p in (a, b, c, d)] == ["a", "b", "c", "d"]
    assert a.scored_from == 1 and len(a.answer) == 0
    assert characters.detokenize(b.tokens) == "The lamp is" and characters.detokenize(b.answer) == " red"
    assert b.scored_from == len(b.tokens) and characters.detokenize(b.floor) == "A lamp is"
    assert c.own_reply and c.accept == ("red",) and characters.detokenize(c.tokens).endswith("Assistant:")
    assert [characters.detokenize(x) for x in d.alternatives] == [" Yes", " No"]
    assert (
        np.array_equal(d.answer, d.alternatives[0])
        and characters.detokenize(d.floor) == "User: Well?\n\nAssistant:"
    )


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("mark", [b"", jsonl_lines.BOM])
def test_line_ends_and_byte_order_marks_are_of_no_account(tmp_path, characters, end, mark):
    path = write(tmp_path / "mine.jsonl", *GOOD, end=end)
    path.write_bytes(mark + path.read_bytes().removesuffix(end))
    assert [p.name for p in prompts_of(characters, f"file:{path}", 4, 100)] == ["a", "b", "c", "d"]


BROKEN = {
    b"": "line: expected a JSON object, got an empty line",
    b"[1]": r"line: expected a JSON object, got \[1\]",
    b'{"id": "x", "text": "t"': "line: expected a JSON object, got Expecting",
    b'{"id": "x", "text": "\xff"}': "line: expected UTF-8, got invalid start byte",
    b'{"id": "x", "text": "\\ud800"}': "line: expected UTF-8, got surrogates not allowed",
    b'{"id": "x", "text": "a", "text": "b"}': "got the field 'text' twice",
    b'{"id": "x", "text": "a", "new_tokens": NaN}': "got NaN, which JSON does not have",
    b'{"id": "x", "text": "a", "new_tokens": ' + b"9" * 5000 + b"}": "line: expected a JSON object, got Exceeds the limit",
    b"[" * 100_000: "line: expected JSON that is not nested",
    b'{"text": "a"}': "id: expected a name of 1 to 200 characters, got nothing",
    b'{"id": 3, "text": "a"}': "id: expected a name of 1 to 200 characters, got 3",
    b'{"id": " ", "text": "a"}': "id: expected a name",
    b'{"id": "x"}': "text: expected either text or messages, got neither",
    b'{"id": "x", "text": "a", "messages": [{"role": "user", "content": "b"}]}': "either text or messages, got both",
    b'{"id": "x", "text": ""}': "text: expected text that is not empty, got ''",
    b'{"id": "x", "txt": "a"}': "txt: expected one of the fields id, text",
    b'{"id": "x", "messages": []}': r"messages: expected a list of one or more turns .*, got \[\]",
    b'{"id": "x", "messages": [{"role": "bot", "content": "a"}], "new_tokens": 2}': r"messages\[0\].role: expected one of system, user, assistant, got 'bot'",
    b'{"id": "x", "messages": [{"role": "user", "content": ""}], "new_tokens": 2}': r"messages\[0\].content: expected text that is not empty, got ''",
    b'{"id": "x", "messages": [{"role": "user", "content": 3}], "new_tokens": 2}': r"messages\[0\].content: expected text .*, got 3",
    b'{"id": "x", "messages": [{"role": "user"}], "new_tokens": 2}': r"messages\[0\]: expected an object with role and content",
    b'{"id": "x", "messages": "hello", "new_tokens": 2}': "messages: expected a list of one or more turns .*, got 'hello'",
    b'{"id": "x", "messages": [7], "new_tokens": 2}': r"messages\[0\]: expected an object .*, got 7",
    b'{"id": "x", "messages": [{"role": "user", "content": "a"}]}': "answer: expected an answer, alternatives or new_tokens",
    b'{"id": "x", "text": "a", "alternatives": ["b"]}': "alternatives: expected a list of two or more",
    b'{"id": "x", "text": "a", "alternatives": ["b", "b"]}': "alternatives: expected a list of two or more different",
    b'{"id": "x", "text": "a", "alternatives": ["b", ""]}': r"alternatives\[1\]: expected text that is not empty, got ''",
    b'{"id": "x", "text": "a", "accept": ["b"]}': "new_tokens: expected 1 or more",
    b'{"id": "x", "text": "a", "new_tokens": 1.5}': "new_tokens: expected a whole number of tokens, 0 to 4096, got 1.5",
    b'{"id": "x", "text": "a", "new_tokens": true}': "new_tokens: expected a whole number",
    b'{"id": "x", "text": "a", "new_tokens": 5000}': "new_tokens: expected .* got 5000",
}  # fmt: skip


@pytest.mark.parametrize("line", list(BROKEN), ids=lambda line: line[:40].decode("utf-8", "replace"))
def test_a_broken_line_is_named_with_field_expected_and_got(line):
    with pytest.raises(
        PromptFileError, match=rf"line 2: {BROKEN[line] if ':' in BROKEN[line] else '.*' + BROKEN[line]}"
    ):
        read_lines(b'{"id": "fine", "text": "a"}\n' + line + b"\n", "mine.jsonl")


def test_all_broken_lines_are_named_in_one_error(tmp_path):
    lines = [GOOD[0], b"{", GOOD[1], {"id": "a", "text": "again"}, {"id": "e", "text": 3, "accept": "x"}]
    with pytest.raises(PromptFileError) as caught:
        file_workload(write(tmp_path / "mine.jsonl", *lines))
    told = str(caught.value).split("\n")
    assert told[0] == "mine.jsonl: expected prompts on all lines, got"
    assert [t.split(":")[0].strip() for t in told[1:]] == ["line 2", "line 4", "line 5", "line 5", "line 5"]
    assert "id: expected a name that line 1 does not have, got 'a'" in told[2]


def test_of_many_broken_lines_the_numbers_remain():
    with pytest.raises(PromptFileError, match=r"line 100: .*\n  and lines 101, 102, 103$"):
        read_lines(b"{\n" * 103, "mine.jsonl")


def test_files_that_are_none(tmp_path, monkeypatch):
    with pytest.raises(PromptFileError, match="none.jsonl: expected a readable file, got No such file"):
        get(f"file:{tmp_path / 'none.jsonl'}")
    with pytest.raises(PromptFileError, match="readable file"):
        file_workload(tmp_path)
    for data in (b"", jsonl_lines.BOM):
        (tmp_path / "empty.jsonl").write_bytes(data)
        with pytest.raises(
            PromptFileError, match="empty.jsonl: expected one prompt or more, got an empty file"
        ):
            file_workload(tmp_path / "empty.jsonl")
    (tmp_path / "utf16.jsonl").write_bytes(json.dumps(GOOD[0]).encode("utf-16"))
    with pytest.raises(PromptFileError, match="line 1: line: expected UTF-8"):
        file_workload(tmp_path / "utf16.jsonl")


def test_sizes_are_limited(tmp_path, monkeypatch):
    path = write(tmp_path / "mine.jsonl", *GOOD)
    monkeypatch.setattr(jsonl_lines, "LINE_BYTES", 80)
    with pytest.raises(PromptFileError, match="line 2: line: expected at most 80 bytes") as caught:
        file_workload(path)
    assert "line 1:" not in str(caught.value) and "line 3:" in str(caught.value)
    monkeypatch.setattr(jsonl, "FILE_BYTES", path.stat().st_size - 1)
    with pytest.raises(PromptFileError, match=r"mine\.jsonl: expected at most \d+ bytes, got more"):
        file_workload(path)


def test_the_schema_is_one():
    schema = json.loads(SCHEMA.read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert all(field["description"] for field in schema["properties"].values()), (
        "faults quote the descriptions"
    )
    for value in GOOD:
        jsonschema.validate(value, schema, jsonschema.Draft202012Validator)
