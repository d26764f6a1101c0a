"""The first number of a generator is that of the generator."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.rowwise.selection import first_uniform
from minigrad.random import generator, philox_key


def test_the_number_is_the_first_of_numpys_generator() -> None:
    for seed, step, index in ((0, 0, 0), (1, 5, 0), (2**40, 0, 7), (3, 2**63, 2**64 - 1)):
        found = first_uniform(np.uint64(philox_key(seed, "a purpose")), np.uint64(step), np.uint64(index))
        assert found == generator(seed, "a purpose", step, index).random()
