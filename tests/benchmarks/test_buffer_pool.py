"""The pool that is measured is a pool: memory comes back by its size, and no two arrays share any."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.buffer_pool import Pool, steps


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(1, 4)), max_size=20))
def test_arrays_in_use_share_no_memory(shapes: list[tuple[int, int]]) -> None:
    pool = Pool()
    for _ in range(2):
        arrays = [pool.acquire(shape) for shape in shapes]
        for number, (array, shape) in enumerate(zip(arrays, shapes, strict=True)):
            assert (array.shape, array.dtype) == (shape, np.float32)
            array[...] = number
        assert all((array == number).all() for number, array in enumerate(arrays))
        for array in arrays:
            pool.release(array)
    assert (pool.misses, pool.hits) == (len(shapes), len(shapes))


def test_sizes_of_one_power_of_two_share_a_list() -> None:
    pool = Pool()
    pool.release(pool.acquire((3, 5)))
    assert pool.acquire((4, 4)).shape == (4, 4)
    assert (pool.hits, pool.misses, pool.bytes) == (1, 1, 64)


def test_a_step_takes_as_often_as_it_gives() -> None:
    taken: list[tuple[int, ...]] = []
    given_back: list[object] = []

    def take(shape: tuple[int, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        taken.append(shape)
        return np.empty((1, 1), np.float32)

    assert steps(take, given_back.append) > 0
    assert len(taken) == len(given_back) == 30 * 45
