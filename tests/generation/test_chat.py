"""A conversation: what the model reads of it, the commands, and what is saved."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from minigrad.generation.chat import Chat
from minigrad.generation.continuation import Token


def encode(messages: Sequence[dict[str, str]]) -> list[int]:
    """Ten tokens for each message, and one for the beginning of an answer."""
    return [token for message in messages for token in [len(message["content"])] * 10] + [0]


def answered(words: Sequence[str], ended: str = "end") -> Iterator[Token]:
    for word in words:
        token = Token(1)
        token.text, token.ended = word, ended if word is words[-1] else ""
        yield token


class Told:
    """A chat whose model answers with the number of the turn, and what it read and said."""

    def __init__(self, room: int = 1_000, ended: str = "end") -> None:
        self.read: list[list[int]] = []
        self.remarks: list[str] = []
        self.ended = ended
        self.chat = Chat(encode, room, self.answer, self.remarks.append)

    def answer(self, ids: list[int], turn: int) -> Iterator[Token]:
        self.read.append(ids)
        return answered(["turn ", str(turn)], self.ended)

    def say(self, *messages: str) -> str:
        return "".join(self.chat.run(messages))


def test_each_message_is_answered_with_all_before_it_in_view() -> None:
    told = Told()
    assert told.say("one", "", "three", "/exit", "never") == "turn 0\nturn 1\n"
    assert [len(ids) for ids in told.read] == [11, 31]
    assert [message["content"] for message in told.chat.messages] == ["one", "turn 0", "three", "turn 1"]
    assert [message["role"] for message in told.chat.messages] == ["user", "assistant"] * 2
    assert not told.remarks


def test_the_oldest_questions_and_answers_are_left_out_where_the_context_ends() -> None:
    told = Told(room=45)
    told.say("one", "three", "seventh")
    assert [len(ids) for ids in told.read] == [11, 31, 31]
    assert told.read[2][:11] == [5] * 10 + [6]  # "one" and its answer are gone
    fit = "the 45 tokens that fit beside an answer"
    assert told.remarks == [f"the conversation takes more than {fit}: its first 2 messages are left out"]
    assert len(told.chat.messages) == 6


def test_a_message_longer_than_the_context_is_read_and_mentioned() -> None:
    told = Told(room=5)
    told.say("one", "/reset", "three")
    assert [len(ids) for ids in told.read] == [11, 11]
    assert told.remarks[0].startswith("the message takes 11 tokens, more than the 5 that fit beside an answer")


def test_an_answer_that_reaches_the_limit_is_mentioned() -> None:
    told = Told(ended="length")
    assert told.say("one") == "turn 0\n"
    assert told.remarks == ["the answer was cut: it reached --tokens"]


@pytest.fixture
def handled_by_python() -> Iterator[None]:
    """A shell starts background jobs with SIGINT ignored; here Ctrl-C does what it does on a terminal."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handled_by_python")
def test_ctrl_c_ends_the_answer_and_keeps_what_was_shown_of_it() -> None:
    told = Told()
    said = []
    for text in told.chat.run(["one", "three"]):
        said.append(text)
        if text == "turn ":
            signal.raise_signal(signal.SIGINT)  # while the first part of each answer is printed
    assert "".join(said) == "turn 0\nturn 1\n"
    assert told.remarks == []  # the second token is the last one: nothing was cut
    told.chat.answer = lambda ids, turn: answered(["a", "b", "c"])
    interrupted = told.chat.run(["five", "seven"])
    assert next(interrupted) == "a"
    signal.raise_signal(signal.SIGINT)
    assert "".join(interrupted) == "b\nabc\n"
    assert [message["content"] for message in told.chat.messages[4:]] == ["five", "ab", "seven", "abc"]
    assert told.remarks == ["the answer was cut: Ctrl-C was pressed; pressed again now, it ends the conversation"]


@pytest.mark.usefixtures("handled_by_python")
def test_ctrl_c_ends_the_conversation_between_answers_and_when_it_is_pressed_twice() -> None:
    def inputs() -> Iterator[str]:
        yield "one"
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        list(Told().chat.run(inputs()))
    twice = Told().chat.run(["one"])
    next(twice)
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    twice.close()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_reset_begins_anew_with_other_draws() -> None:
    told = Told()
    assert told.say("one", "/reset", "three") == "turn 0\nturn 1\n"
    assert [len(ids) for ids in told.read] == [11, 11]
    assert told.remarks == ["the conversation begins anew"]


def test_save_appends_a_line_that_can_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = Told()
    told.say("öne", "/save talk.jsonl", "/save", "/save talk.jsonl", "/save no/such/folder", "/save \0")
    lines = [json.loads(line) for line in (tmp_path / "talk.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines == [{"messages": told.chat.messages}] * 2
    assert (tmp_path / "conversation.jsonl").exists()
    files = ["talk.jsonl", "conversation.jsonl", "talk.jsonl"]
    assert told.remarks[:3] == [f"saved 2 messages as a line of {file}" for file in files]
    assert told.remarks[3].startswith("cannot write no/such/folder")
    assert told.remarks[4].startswith("cannot write \0")


def test_save_knows_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    told = Told()
    told.say("one", "/save ~/talk.jsonl", "/save ~nobody-has-this-name/talk.jsonl")
    assert (tmp_path / "talk.jsonl").exists()
    assert told.remarks[1].startswith("cannot write ~nobody-has-this-name")


def test_save_keeps_a_last_line_without_its_line_break(tmp_path: Path) -> None:
    told, file = Told(), tmp_path / "talk.jsonl"
    file.write_text('{"messages": []}', encoding="utf-8")
    told.say("one", f"/save {file}", f"/save {file}")
    lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert lines == [{"messages": []}, *[{"messages": told.chat.messages}] * 2]


def test_an_unknown_command_is_answered_with_those_there_are() -> None:
    told = Told()
    assert told.say("/help", "/rest", " /rest is a message") == "turn 0\n"
    assert "/reset begins anew" in told.remarks[0]
    assert told.remarks[1].startswith("unknown command /rest; /reset begins anew")


def test_what_teaches_nothing_is_not_saved(tmp_path: Path) -> None:
    told, file = Told(), tmp_path / "talk.jsonl"
    told.say(f"/save {file}")
    assert (told.remarks, file.exists()) == (["there is no answer to save yet"], False)
    told.say("one")
    told.chat.answer = lambda ids, turn: answered([""])
    told.say("two", f"/save {file}")
    assert [each["content"] for each in json.loads(file.read_text(encoding="utf-8"))["messages"]] == ["one", "turn 0"]
    assert told.remarks[1] == f"saved 2 messages as a line of {file}"
