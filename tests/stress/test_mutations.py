"""A slice of the mutations: every mutated file is used or refused, in time, and no traceback is printed."""

from __future__ import annotations

import collections

from tests.stress import mutations


def test_mutated_files_are_used_or_refused() -> None:
    outcomes = mutations.feed(list(range(100)), seed=1, num_workers=2)
    failures = [
        f"--seed 1 --only {number}: {each}" for number, each in outcomes.items() if each["kind"] in mutations.KINDS
    ]
    assert not failures
    counts = collections.Counter(each["kind"] for each in outcomes.values())
    assert counts["exit 2"] > 30, "the mutations are too weak"
    assert counts["exit 0"] > 10, "the inputs are no longer read at all"
