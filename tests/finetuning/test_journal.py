"""A teacher at the keyboard: what is chosen or typed is kept, line by line, and can be trained on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from minigrad import InputError, RunError
from minigrad.finetuning.conversations import conversations_in
from minigrad.finetuning.journal import HELP, Journal, TeachingSession


def taught(path: Path, *inputs: str, offered: tuple[str, ...] = ("yes", "no", " yes ", "")) -> tuple[str, list[str]]:
    """Return what was shown and told."""
    told = list[str]()
    teacher = TeachingSession(
        Journal(path),
        lambda question, turn: [*offered, f"{question} {turn}"],
        lambda question, answer: len(question + answer) < 20,
        told.append,
    )
    return "".join(teacher.run(inputs)), told


def kept(path: Path) -> list[list[str]]:
    return [[each["content"] for each in read().messages] for read in conversations_in(path)]


def test_a_number_takes_an_answer_and_anything_else_is_one(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    shown, told = taught(path, "a?", "2", " ", "b?", "No, never.", "c?", "", "d?", "9", "1", "/exit", "e?")
    assert shown.startswith("  1  yes\n  2  no\n  3  a? 0\n")  # equal answers and empty ones are offered once, or never
    assert kept(path) == [["a?", "no"], ["b?", "No, never."], ["d?", "yes"]]
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0])["offered"] == ["yes", "no", "a? 0"]
    hint = (
        "there are answers 1 to 3: type one of these numbers, =9 if 9 itself is the answer, or an answer of your own; "
    )
    assert told[0] == hint + "an empty line leaves the question out"
    assert told[-1] == f"3 answers were added to {path}"


def test_an_answer_is_asked_for_where_the_model_wrote_none(tmp_path: Path) -> None:
    path, told = tmp_path / "journal.jsonl", list[str]()
    teacher = TeachingSession(Journal(path), lambda question, turn: ["", " "], lambda *texts: True, told.append)
    assert list(teacher.run(["a?", "", "b?", "yes"])) == ["", ""]
    assert told[:2] == ["the model wrote no answer: type one, or an empty line to leave the question out"] * 2
    assert kept(path) == [["b?", "yes"]]


def test_each_question_has_draws_of_its_own(tmp_path: Path) -> None:
    shown, _ = taught(tmp_path / "journal.jsonl", "a?", "1", "b?", "", "c?", "1", offered=())
    assert shown == "  1  a? 0\n  1  b? 1\n  1  c? 2\n"


def test_what_is_longer_than_the_context_is_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    shown, told = taught(path, 20 * "a", "b?", 18 * "c", "short")
    assert kept(path) == [["b?", "short"]]
    assert shown.startswith("  1  yes\n")
    assert [text.split(":")[0] for text in told[:2]] == [
        "the question is longer than the context of the model",
        "question and answer are longer than the context of the model",
    ]


def test_commands_are_neither_questions_nor_answers(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    shown, told = taught(path, "/help", "a?", "/help", "/two", "2", "b?", " /tmp", "c?", "/quit", "d?", "1")
    assert shown.count("  1  yes\n") == 3
    assert kept(path) == [["a?", "no"], ["b?", "/tmp"]]
    assert told[:2] == [HELP, HELP]
    assert told[2] == f"unknown command /two; {HELP}. A message that begins with / needs a space before it"


@pytest.mark.parametrize("inputs", [("a?",), ("a?", "/exit"), ("/exit",), ("/quit",), ("a?", "/bye"), ()])
def test_without_a_choice_nothing_is_kept(tmp_path: Path, inputs: tuple[str, ...]) -> None:
    path = tmp_path / "journal.jsonl"
    assert taught(path, *inputs)[1] == [f"0 answers were added to {path}"]
    assert not path.exists()


def test_a_journal_grows_and_a_line_that_was_cut_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    taught(path, "a?", "1")
    path.write_bytes(path.read_bytes() + b'{"messages": [{"ro')  # a crash
    taught(path, "b?", "2")
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(lines[number])["messages"][0]["content"] for number in (0, 2)] == ["a?", "b?"]


def test_a_journal_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal.jsonl")
    (tmp_path / "journal.jsonl").mkdir()  # after it was looked at
    with pytest.raises(RunError, match=f"cannot write {tmp_path}"):
        journal.add("a?", "yes", ["yes"])


@pytest.mark.parametrize("number", ["0", "4", "9" * 9, "1" * 5_000, "\u0664"])
def test_a_number_of_no_answer_is_asked_for_again(tmp_path: Path, number: str) -> None:
    _, told = taught(tmp_path / "journal.jsonl", "a?", number, "2")
    assert kept(tmp_path / "journal.jsonl") == [["a?", "no"]]
    assert told[0].startswith("there are answers 1 to 3")


def test_what_is_no_journal_is_refused_before_the_first_question(tmp_path: Path) -> None:
    record = tmp_path / "minigrad.json"
    record.write_text('{\n  "settings": {}\n}\n', encoding="utf-8")
    for path in (record, tmp_path / "no" / "such" / "folder", tmp_path):
        with pytest.raises(InputError):
            Journal(path)
    assert record.read_text(encoding="utf-8") == '{\n  "settings": {}\n}\n'


def test_a_number_can_be_typed_as_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    taught(path, "7 x 8?", "=56", "x?", "= 1")
    assert kept(path) == [["7 x 8?", "56"], ["x?", "= 1"]]
    alone = TeachingSession(Journal(path), lambda question, turn: [], lambda question, answer: True, lambda text: None)
    assert "".join(alone.run(["9 x 9?", "81"])) == ""
    assert kept(path)[-1] == ["9 x 9?", "81"]
