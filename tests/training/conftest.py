"""The fixtures of training."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from minigrad.kernels import threads
from minigrad.system import hardware
from tests.hand_built_runs import make

__all__ = ["make", "two_threads"]


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Let kernels use two threads, whatever the machine has."""
    count = hardware.threads()
    threads.set_threads(2)
    yield
    threads.set_threads(count)
