"""Conversations in files: three forms, one meaning; and the line and the reason where there is none."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from minigrad import InputError
from minigrad.finetuning.conversations import Conversation, conversations_in

HELLO = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello."}]


def conversations_in_file(path: Path) -> list[Conversation]:
    return [read() for read in conversations_in(path)]


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def as_line(*messages: tuple[str, str]) -> str:
    return json.dumps({"messages": [{"role": role, "content": content} for role, content in messages]})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("talk.jsonl", json.dumps({"messages": HELLO}) + "\n\n"),
        ("talk.jsonl.gz", json.dumps({"messages": [each | {"name": "x"} for each in HELLO]})),
        ("talk.txt", "\n " + json.dumps({"messages": HELLO})),
        ("talk.txt", "<|user|> Hi! <|assistant|> Hello.\r\n"),
        ("book.txt", "Q: Hi!\nA: Hello.\n"),
        ("book.txt.gz", "\nQ:Hi!\n\nA:   Hello.  "),
    ],
)
def test_every_form_gives_the_same_messages(tmp_path: Path, name: str, text: str) -> None:
    (found,) = conversations_in_file(written(tmp_path, name, text))
    assert list(found.messages) == HELLO
    assert found.place.startswith(f"{tmp_path / name}, line ")


def test_other_words_for_a_question_are_read(tmp_path: Path) -> None:
    text = json.dumps({"messages": HELLO, "reworded": ["Hey.", "Hello!"]})
    assert conversations_in_file(written(tmp_path, "talk.jsonl", text))[0].reworded == ("Hey.", "Hello!")


def test_several_turns_and_several_lines(tmp_path: Path) -> None:
    line = "<|user|> a <|assistant|> b <|user|> c <|assistant|> d"
    (found,) = conversations_in_file(written(tmp_path, "talk.txt", line))
    assert [each["content"] for each in found.messages] == ["a", "b", "c", "d"]
    book = "Q: What is\nthis?\n\nA: It is\n  long.\n\nQ: b\nA: c <|end|>\n"
    first, second = conversations_in_file(written(tmp_path, "book.txt", book))
    assert [each["content"] for each in first.messages] == ["What is\nthis?", "It is\nlong."]
    assert second.messages[1]["content"] == "c <|end|>"  # characters; only the form writes special tokens
    assert second.place.endswith("line 7")


def test_a_book_keeps_the_indentation_and_the_paragraphs_of_an_answer(tmp_path: Path) -> None:
    book = "Q: How?\nA: Like this:\n\n    for x in y:  \n        print(x)\n\nQ: So?\nA:\n  yes\n    or no\n"
    first, second = conversations_in_file(written(tmp_path, "book.txt", book))
    assert first.messages[1]["content"] == "Like this:\n\nfor x in y:\n    print(x)"
    assert second.messages[1]["content"] == "yes\n  or no"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", '{"messages": []}\n', "line 1: it has no answer to learn"),
        ("a.jsonl", as_line(("user", "a"), ("assistant", "b")) + "\n{oops", "line 2 is not a JSON object"),
        ("a.jsonl", '{"text": "a"}', 'line 1 has no messages (its field "messages" is None)'),
        ("a.jsonl", '{"messages": [{"role": "user"}]}', "line 1 has no messages"),
        ("a.jsonl", as_line(("user", "a"), ("assistant", " ")), "line 1: message 2, of the assistant, is empty"),
        ("a.jsonl", as_line(("user", "a"), ("asistant", "b")), "unknown role 'asistant'; did you mean 'assistant'?"),
        ("a.jsonl", as_line(("user", "a"), ("user", "b")), "message 2 is a second one of the user in a row"),
        ("a.jsonl", as_line(("assistant", "a")), "message 1 is an answer, and no question stands before it"),
        ("a.jsonl", as_line(("user", "a"), ("system", "b")), "message 2 is of the system"),
        (
            "a.jsonl",
            as_line(("user", "a"), ("assistant", "b"))[:-1] + ', "reworded": [1]}',
            '"reworded" is [1]; expected',
        ),
        ("a.jsonl", "", "holds no conversation; expected lines {"),
        ("a.txt", "Once upon a time", "line 1 begins no conversation ('Once upon a time'); expected lines {"),
        ("a.txt", "<|user|> a <|assistant|> b\nc", "line 2 does not begin with <|user|>: 'c'"),
        ("a.txt", "<|user|> a", "line 1: it has no answer to learn"),
        ("a.txt", "Q: a\nQ: b\nA: c", "line 2 is 'Q: b', where A:, the answer to"),
        ("a.txt", "Q: a\nA: b\nA: c", "line 3 is 'A: c', where Q: is expected"),
        ("a.txt", "A: b", "line 1 is 'A: b', where Q: is expected"),
        ("a.txt", "Q: a\nA:\nQ: b\nA: c", "line 1: message 2, of the assistant, is empty"),
        ("a.txt", "Q: a", "line 1: message 2, of the assistant, is empty"),
    ],
)
def test_what_is_no_conversation_is_named_with_its_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    path = written(tmp_path, name, text)
    with pytest.raises(InputError) as caught:
        conversations_in_file(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for path in (tmp_path / "missing.jsonl", tmp_path):
        with pytest.raises(InputError, match=f"cannot read {path}"):
            conversations_in_file(path)
    broken: Any = tmp_path / "broken.txt"
    broken.write_bytes(b"Q: \xff")
    with pytest.raises(InputError, match="not UTF-8 text: byte 3"):
        conversations_in_file(broken)


@pytest.mark.parametrize(
    ("name", "text", "places"),
    [
        (
            "talk.jsonl",
            f'{as_line(("user", "a"), ("assistant", "b"))}\n{{"mess\n{as_line(("user", "c"))}\nHELLO\n',
            [2, 3],
        ),
        ("talk.txt", "<|user|> a <|assistant|> b\nno marker\n<|user|> c\nHELLO\n", [2, 3]),
        ("book.txt", "Q: a\nA: b\n\nQ: c\nA:\n\nHELLO", [4]),
    ],
)
def test_conversations_behind_a_broken_one_are_read_when_that_is_asked_for(
    tmp_path: Path, name: str, text: str, places: list[int]
) -> None:
    """Each that is left out is named, with its line."""
    hello = {"talk.jsonl": json.dumps({"messages": HELLO}), "talk.txt": "<|user|> Hi! <|assistant|> Hello."}
    path = written(tmp_path, name, text.replace("HELLO", hello.get(name, "Q: Hi!\nA: Hello.")))
    with pytest.raises(InputError, match=f"line {places[0]}"):
        conversations_in_file(path)
    left_out, found = list[str](), list[Conversation]()
    for read in conversations_in(path):
        try:
            found.append(read())
        except InputError as error:
            left_out.append(str(error))
    first, last = found
    assert [each["content"] for each in first.messages] == ["a", "b"]
    assert list(last.messages) == HELLO
    assert [each.split("line ")[1][0] for each in left_out] == [str(place) for place in places]


def test_an_answer_directly_after_the_system_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "a.jsonl", as_line(("system", "a"), ("assistant", "b")))
    with pytest.raises(InputError, match="message 2 is an answer, and no question stands before it"):
        conversations_in_file(path)
