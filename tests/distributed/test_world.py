"""One process alone: the sum over all is the value itself."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.distributed.world import ALONE, mpiexec, total
from tests.distributed.rooms import together


def test_alone_every_meeting_returns_what_was_brought() -> None:
    array = np.arange(4.0)
    ALONE.add(array)
    ALONE.reduce(array, [0, 4])
    ALONE.complete(array, [0, 4])
    assert array.tolist() == [0, 1, 2, 3]
    assert ALONE.gather(array, [0, 4]) is array
    assert (ALONE.share("a"), ALONE.collect("a"), total(ALONE, 0.1), mpiexec(ALONE)) == ("a", ["a"], 0.1, "")
    ALONE.last_word("nobody reads this")
    with pytest.raises(ValueError, match="process 0 of 1 cannot send to process 1"):
        ALONE.send(array, 1)
    with pytest.raises(ValueError, match="process 0 of 1 cannot receive from process 1"):
        ALONE.receive(array, 1)


def test_a_total_and_the_command_of_several() -> None:
    assert together(3, lambda world: total(world, world.rank + 2**24 + 0.5)) == [3 * 2**24 + 4.5] * 3
    assert together(2, mpiexec) == ["mpiexec -n 2 "] * 2
