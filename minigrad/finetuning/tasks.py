"""Tasks whose answers can be checked: problems drawn from a seed, each with its one right answer.

Teaching by rewards needs no book of answers, only a judge of right and wrong; here a comparison of two short texts is
enough. `--data task:sorting` names a task.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from minigrad.errors import InputError
from minigrad.options import unknown
from minigrad.random import generator

PREFIX, EXAMINATION = "task:", "examination"

_RESERVED = 4  # one question in four

_NAMES = ("Ann", "Bob", "Cid", "Dan", "Eve", "Fay")
_THINGS = ("cat", "dog", "fox", "hen", "owl", "pig")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


class Problem(NamedTuple):
    """A question and its right answer."""

    question: str
    answer: str


def is_right(problem: Problem, response: str) -> bool:
    """Return whether a response is the right answer, and nothing else; spaces around it do not matter."""
    return response.strip() == problem.answer


def problem(task: str, seed: int, purpose: str, index: int) -> Problem:
    """Return one problem of a task, a function of the arguments alone; raises InputError for an unknown task.

    A quarter of all questions, chosen by their hashes, is for the examination alone: the tasks are so small that
    otherwise most of its questions would have been practised.
    """
    if task not in TASKS:
        raise unknown("task", task, TASKS)
    draw = generator(seed, f"task {task}: {purpose}", index)
    while True:
        found = TASKS[task](draw)
        is_reserved = hashlib.blake2b(found.question.encode(), digest_size=1).digest()[0] % _RESERVED == 0
        if is_reserved == (purpose == EXAMINATION):
            return found


def task_of(data: str) -> str | None:
    """Return the task that `--data` names, or None if it names a file; raises InputError for an unknown task."""
    if not data.startswith(PREFIX):
        return None
    task = data.removeprefix(PREFIX)
    if task not in TASKS:
        raise InputError(f"--data {data}: {unknown('task', task, TASKS)}")
    return task


def _arithmetic(draw: np.random.Generator) -> Problem:
    a, b = draw.integers(0, 20, 2)
    return Problem(f"{a} + {b} =", str(a + b))


def _of_letters(verb: str, change: Callable[[str], str]) -> Callable[[np.random.Generator], Problem]:
    """Return the task of changing a row of letters."""

    def draw_problem(draw: np.random.Generator) -> Problem:
        text = " ".join(draw.choice(list("abcdefgh"), draw.integers(2, 6)))
        return Problem(f"{verb}: {text}", change(text))

    return draw_problem


def _brackets(draw: np.random.Generator) -> Problem:
    """Which brackets close the open ones? Some of them have already been closed."""
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
    "copying": _of_letters("Copy", str),
    "reversing": _of_letters("Reverse", lambda text: text[::-1]),
    "brackets": _brackets,
    "sorting": _of_letters("Sort", lambda text: " ".join(sorted(text.split()))),
    "facts": _facts,
}
