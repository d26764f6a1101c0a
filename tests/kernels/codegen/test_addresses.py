"""Arrays at an address are the memory that lies there."""

from __future__ import annotations

import numpy as np

from minigrad.kernels.codegen.addresses import address_of, elements_at


def test_elements_at_an_address_are_those_of_the_array() -> None:
    for dtype in (np.float32, np.float64, np.int8):
        x = np.arange(6, dtype=dtype).reshape(2, 3)
        same = elements_at(address_of(x), 6, dtype)
        assert same.tolist() == [0, 1, 2, 3, 4, 5]
        same[4] = 9
        assert x[1, 1] == 9
    assert elements_at(0, 0, np.float32).size == 0
