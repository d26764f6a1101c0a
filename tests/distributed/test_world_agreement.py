"""Processes that differ are refused, each with the same message."""

from __future__ import annotations

import pytest

from minigrad.distributed.world import ALONE, check_agreement, check_equal
from minigrad.errors import InputError, RunError
from tests.distributed.rooms import Room, together


def test_equal_processes_agree() -> None:
    together(3, lambda world: check_agreement(world, {"the text": "a", "--batch": 4}))
    together(3, lambda world: check_equal(world, "weights", "a", ""))
    check_agreement(ALONE, {"the text": "a"})
    check_equal(ALONE, "weights", "a", "")


def test_what_differs_is_named_with_both_values_in_every_process() -> None:
    def disagree(world: Room) -> str:
        with pytest.raises(InputError) as caught:
            check_agreement(world, {"--batch": 4, "the text": "b" if world.rank == 2 else "a"})
        return str(caught.value)

    messages = together(3, disagree)
    assert len(set(messages)) == 1
    assert "disagree on the text: process 0 on " in messages[0]
    assert " has a, process 2 on " in messages[0]


def test_a_fact_that_one_process_lacks_is_named() -> None:
    def lack(world: Room) -> None:
        check_agreement(world, {"--batch": 4} | ({} if world.rank == 1 else {"the text": "a"}))

    with pytest.raises(InputError, match=r"disagree on the text: process 0 on .* has a, process 1 on .* has None"):
        together(2, lack)


def test_other_weights_end_the_run() -> None:
    def differ(world: Room) -> str:
        with pytest.raises(RunError) as caught:
            check_equal(world, "weights after step 9", f"{world.rank % 2}", "The checkpoint of step 5 is intact.")
        return str(caught.value)

    two, four = together(2, differ), together(4, differ)
    assert two[0].startswith("process 1 has other weights after step 9 than process 0")
    assert four[3].startswith("processes 1, 3 have other weights")
    assert two[0].endswith("The checkpoint of step 5 is intact.")
