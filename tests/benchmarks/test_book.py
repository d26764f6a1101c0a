"""The book that ships: each question has one short answer, held-out wordings are not taught, code in it is true."""

from __future__ import annotations

import collections
import math

import numpy as np
import pytest

from minigrad.finetuning.conversations import Conversation, conversations_in
from tests.source_files import ROOT

FOLDER = ROOT / "models" / "pretrained"
TAUGHT = [read() for read in conversations_in(FOLDER / "book.jsonl")]
HELD_OUT = [read() for read in conversations_in(FOLDER / "book-held-out.jsonl")]


def pair(conversation: Conversation) -> tuple[str, str]:
    question, answer = (each["content"] for each in conversation.messages)
    return question, answer


SINGLE = [pair(each) for each in TAUGHT if len(each.messages) == 2]


def test_each_question_has_one_answer_and_each_answer_several_questions() -> None:
    assert len(dict(SINGLE)) == len(SINGLE)
    assert min(collections.Counter(answer for _, answer in SINGLE).values()) >= 3


def test_answers_are_short_and_conversations_repeat_them() -> None:
    answers = {answer for _, answer in SINGLE}
    assert max(len(answer) for answer in answers) <= 130
    for conversation in TAUGHT:
        assert {each["content"] for each in conversation.messages if each["role"] == "assistant"} <= answers


def test_held_out_wordings_are_not_taught_and_their_answers_are() -> None:
    taught = {each["content"].casefold() for row in TAUGHT for each in row.messages if each["role"] == "user"}
    answers = {answer for _, answer in SINGLE}
    assert not {pair(each)[0].casefold() for each in HELD_OUT} & taught
    assert {pair(each)[1] for each in HELD_OUT} <= answers


@pytest.mark.parametrize(
    ("words", "value", "expected"),
    [
        ("The sum is 0.30000000000000004", 0.1 + 0.2, 0.30000000000000004),
        ("range(3) is 0, 1, 2", list(range(3)), [0, 1, 2]),
        ("[x * x for x in range(5)]", [x * x for x in range(5)], [0, 1, 4, 9, 16]),
        ("items[1:3] holds the elements 1 and 2", list(range(5))[1:3], [1, 2]),
        ("It is a subclass of int", issubclass(bool, int), True),
        ("where both have a key, b wins", {"k": 1} | {"k": 2}, {"k": 2}),
        ("7 // 2 is 3", 7 // 2, 3),
        ("7 % 2 is 1", 7 % 2, 1),
        ("2 ** 10 is 1024", 2**10, 1024),
        ("Halves go to the even neighbour", (round(0.5), round(1.5)), (0, 2)),
        ('Counter("hello")["l"] is 2', collections.Counter("hello")["l"], 2),
        ("np.zeros((2, 3)).shape is (2, 3)", np.zeros((2, 3)).shape, (2, 3)),
        ("np.arange(6).reshape(2, 3)", np.arange(6).reshape(2, 3).tolist(), [[0, 1, 2], [3, 4, 5]]),
        ("Changing one changes the other", np.shares_memory(array := np.arange(4), array[1:]), True),
        ("math.sqrt, math.sin, math.pi", math.sin(math.pi / 2) == math.sqrt(1), True),
        ("up to the end of the shorter one", list(zip("ab", "c", strict=False)), [("a", "c")]),
    ],
)
def test_what_it_says_of_code_is_true(words: str, value: object, expected: object) -> None:
    assert any(words in answer for _, answer in SINGLE)
    assert value == expected
