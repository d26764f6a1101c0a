"""Tasks whose answers can be checked: endless problems, drawn from a seed, each with its one right answer.

Teaching by rewards needs no book of answers, only a judge of right and wrong; here a comparison of two short texts is
enough. `--data task:sorting` names a task.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from minigrad.errors import InputError
from minigrad.options import unknown
from minigrad.random import generator

PREFIX = "task:"

_NAMES = ("Ann", "Bob", "Cid", "Dan", "Eve", "Fay")
_THINGS = ("cat", "dog", "fox", "hen", "owl", "pig")
_LETTERS = "abcdefgh"
_PAIRS = {"(": ")", "[": "]", "{": "}"}


class Problem(NamedTuple):
    """A question and its right answer."""

    question: str
    answer: str


def is_right(problem: Problem, response: str) -> bool:
    """Return whether a response is the right answer, and nothing else; spaces around it do not matter.

    >>> is_right(Problem("2 + 3", "5"), " 5"), is_right(Problem("2 + 3", "5"), "55")
    (True, False)
    """
    return response.strip() == problem.answer


def problem(task: str, seed: int, purpose: str, index: int) -> Problem:
    """Return one problem of a task, a function of the arguments alone; raises InputError for an unknown task.

    >>> problem("arithmetic", 0, "practice", 7) == problem("arithmetic", 0, "practice", 7)
    True
    """
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    return TASKS[task](generator(seed, f"task {task}: {purpose}", index))


def task_of(data: str) -> str | None:
    """Return the task that `--data` names, or None if it names a file; raises InputError for an unknown task.

    >>> task_of("task:sorting"), task_of("book.txt")
    ('sorting', None)
    """
    if not data.startswith(PREFIX):
        return None
    task = data.removeprefix(PREFIX)
    if task not in TASKS:
        raise InputError(f"--data {data}: {unknown('task', task, TASKS)}")
    return task


def _arithmetic(draw: np.random.Generator) -> Problem:
    a, b = draw.integers(0, 20, 2)
    return Problem(f"{a} + {b} =", str(a + b))


def _letters(draw: np.random.Generator) -> str:
    return " ".join(draw.choice(list(_LETTERS), draw.integers(2, 6)))


def _copying(draw: np.random.Generator) -> Problem:
    text = _letters(draw)
    return Problem(f"Copy: {text}", text)


def _reversing(draw: np.random.Generator) -> Problem:
    text = _letters(draw)
    return Problem(f"Reverse: {text}", text[::-1])


def _sorting(draw: np.random.Generator) -> Problem:
    text = _letters(draw)
    return Problem(f"Sort: {text}", " ".join(sorted(text.split())))


def _brackets(draw: np.random.Generator) -> Problem:
    """Which brackets close the open ones? Some of them were closed again already."""
    text, still_open = list[str](), list[str]()
    for opens in draw.random(draw.integers(2, 7)) < 0.7:
        if opens or not still_open:
            still_open.append(str(draw.choice(list(_PAIRS))))
            text.append(still_open[-1])
        else:
            text.append(_PAIRS[still_open.pop()])
    if not still_open:
        text.append("(")
        still_open.append("(")
    return Problem(f"Close: {' '.join(text)}", " ".join(_PAIRS[each] for each in reversed(still_open)))


def _facts(draw: np.random.Generator) -> Problem:
    names, things = draw.permutation(_NAMES)[:3], draw.permutation(_THINGS)[:3]
    told = " ".join(f"{name} has a {thing}." for name, thing in zip(names, things, strict=True))
    asked = draw.integers(3)
    return Problem(f"{told} What has {names[asked]}?", str(things[asked]))


TASKS: dict[str, Callable[[np.random.Generator], Problem]] = {
    "arithmetic": _arithmetic,
    "copying": _copying,
    "reversing": _reversing,
    "brackets": _brackets,
    "sorting": _sorting,
    "facts": _facts,
}
