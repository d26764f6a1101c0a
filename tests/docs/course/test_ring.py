"""The ring adds and gathers what its processes have, and sends no more than its chapter says."""

from __future__ import annotations

import queue
from typing import Any

import numpy as np
import pytest

from docs.course.ring import together
from minigrad.distributed.shares import even_cuts


@pytest.mark.parametrize("size", [1, 2, 5])
def test_the_meetings(size: int) -> None:
    arrays = np.random.default_rng(0).normal(size=(size, 12))
    cuts = even_cuts(slice(0, 12), size)

    def work(world: Any) -> list[Any]:
        flat, own = arrays[world.rank].copy(), slice(cuts[world.rank], cuts[world.rank + 1])
        world.reduce(flat, cuts)
        part = flat[own].copy()
        world.complete(flat, cuts)
        sent, number, square = world.sent, np.array(2.0), arrays[world.rank].reshape(3, 4).copy()
        world.add(number)
        world.add(square)
        others = [world.gather(part, cuts), world.collect(world.rank), world.share(world.rank)]
        return [flat, square, number, sent, *others]

    found = together(size, work)
    for flat, square, number, *_, ranks, first in found:
        np.testing.assert_allclose(flat, arrays.sum(axis=0), rtol=1e-12)
        assert flat.tobytes() == found[0][0].tobytes()
        np.testing.assert_allclose(square, flat.reshape(3, 4), rtol=1e-12)
        assert square.tobytes() == found[0][1].tobytes()
        assert number == 2 * size
        assert ranks == list(range(size))
        assert first == 0
    assert sum(each[3] for each in found) == 2 * (size - 1) * 12 * 8
    np.testing.assert_array_equal(found[0][4], found[0][0])
    assert all(each[4] is None for each in found[1:])


def test_one_that_is_missing_is_noticed() -> None:
    def work(world: Any) -> None:
        if world.rank == 0:
            world.share(1)

    with pytest.raises(queue.Empty):
        together(2, work, patience=0.01)
