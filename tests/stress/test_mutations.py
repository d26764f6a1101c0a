"""A slice of the hostile inputs: each is used or refused, in time, with the right exit code and without a traceback."""

from __future__ import annotations

import collections
import sys

import pytest

from tests.small_runs import quick_runs
from tests.stress import mutations
from tests.stress.cases import Case


def test_hostile_inputs_are_used_or_refused() -> None:
    outcomes = mutations.feed(list(range(100)), seed=1, num_workers=2)
    failures = [
        f"--seed 1 --only {number}: {each}" for number, each in outcomes.items() if each["kind"] in mutations.KINDS
    ]
    assert not failures
    counts = collections.Counter(each["kind"] for each in outcomes.values())
    assert counts["exit 2"] > 30, "the mutations are too weak"
    assert counts["exit 0"] > 10, "the inputs are no longer read at all"


def crash() -> int:
    raise KeyError("a")


def say(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        (Case("", crash), "traceback"),
        (Case("", lambda: say("Traceback (most recent call last):", 2)), "traceback"),
        (Case("", lambda: say("bell \x07", 2)), "control character"),
        (Case("", lambda: 0, lambda: "it is damaged"), "silent acceptance"),
        (Case("", lambda: say("refused", 1)), "wrong exit code"),
        (Case("", lambda: say("no network", 1), codes=(0, 1, 2)), "exit 1"),
        (Case("", lambda: say("refused", 2), lambda: "it is damaged"), "exit 2"),
    ],
)
def test_each_fault_is_counted(case: Case, kind: str) -> None:
    with quick_runs():  # which resets the threads afterwards
        assert mutations.outcome(case)["kind"] == kind
