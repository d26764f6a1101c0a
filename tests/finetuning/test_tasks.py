"""Tasks: a function of the seed, each with an answer that its question determines."""

from __future__ import annotations

import pytest

from minigrad import InputError
from minigrad.finetuning.tasks import EXAMINATION, TASKS, Problem, is_right, problem, task_of

PAIRS = {"(": ")", "[": "]", "{": "}"}


def solve(task: str, question: str) -> str:
    """Answer a question from its words alone, in another way than the task does."""
    words = question.split()
    if task == "arithmetic":
        return str(int(words[0]) + int(words[2]))
    if task == "copying":
        return question.removeprefix("Copy: ")
    if task == "reversing":
        return " ".join(reversed(words[1:]))
    if task == "sorting":
        return " ".join(letter for letter in "abcdefgh" for _ in range(words[1:].count(letter)))
    if task == "facts":
        return words[words.index(words[-1].rstrip("?")) + 3].rstrip(".")
    text, shorter = "".join(words[1:]), ""
    while text != shorter:
        shorter, text = text, text.replace("()", "").replace("[]", "").replace("{}", "")
    return " ".join(PAIRS[each] for each in reversed(text))


@pytest.mark.parametrize("task", TASKS)
def test_the_answer_follows_from_the_question(task: str) -> None:
    problems = [problem(task, 0, "practice", index) for index in range(60)]
    for each in problems:
        assert is_right(each, solve(task, each.question)), each
        assert not is_right(each, each.answer + each.answer)
        assert not is_right(each, "")
    assert len({each.question for each in problems}) > 40
    assert problems[7] == problem(task, 0, "practice", 7)
    assert problems[7] != problem(task, 1, "practice", 7) or problems[8] != problem(task, 1, "practice", 8)
    assert problems[:5] != [problem(task, 0, "examination", index) for index in range(5)]


@pytest.mark.parametrize("task", TASKS)
def test_no_question_of_an_examination_is_ever_practised(task: str) -> None:
    asked = {problem(task, 0, EXAMINATION, index).question for index in range(200)}
    others = {problem(task, 0, purpose, index).question for purpose in ("practice", "course") for index in range(500)}
    assert not asked & others
    assert len(asked) > 60


def test_spaces_around_an_answer_do_not_matter() -> None:
    assert is_right(Problem("2 + 3 =", "5"), " 5\n")
    assert not is_right(Problem("2 + 3 =", "5"), "5 5")


def test_a_task_is_named_by_its_data() -> None:
    assert (task_of("task:facts"), task_of("facts"), task_of("runs/task:x")) == ("facts", None, None)
    with pytest.raises(InputError, match="--data task:sort: unknown task 'sort'; did you mean 'sorting'"):
        task_of("task:sort")
    with pytest.raises(InputError, match="unknown task"):
        problem("sums", 0, "practice", 0)
