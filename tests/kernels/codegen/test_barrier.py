"""A barrier counts who has arrived; that threads really wait is tested by the programs that need it."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad.kernels.codegen.barrier import arrive_and_wait


def test_the_last_to_arrive_passes() -> None:
    arrived = np.array([2], np.int64)
    arrive_and_wait(arrived, 3)
    assert arrived[0] == 3
    with pytest.raises(AssertionError):  # plain Python has one thread: another one would never come
        arrive_and_wait(arrived, 8)
