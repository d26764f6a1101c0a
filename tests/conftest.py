"""Fixtures of every test: Hypothesis profiles, and a check that a test resets what it switched."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from minigrad.autograd import graph, observers
from minigrad.autograd.operators import OPS
from minigrad.kernels import threads
from minigrad.kernels.gemm import backend as products
from minigrad.system import hardware

# The first example of a test may compile kernels, so neither a deadline nor "too slow" means anything here.
settings.register_profile("minigrad", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("minigrad"), derandomize=True, print_blob=True)
settings.register_profile("few", settings.get_profile("ci"), max_examples=4)
settings.load_profile("ci" if os.environ.get("CI") else "minigrad")


_PRODUCTS = products.in_use()


@pytest.fixture(autouse=True)
def _switches_are_turned_back() -> Iterator[None]:
    """Fail a test that leaves a setting of the process changed: it would affect the tests after it."""
    yield
    left = {
        "recording off": not graph.is_recording(),
        "an observer watching": bool(observers.active),
        f"products by {products.in_use()}": products.in_use() != _PRODUCTS,
    }
    products.use(*_PRODUCTS)  # so that of several tests only the one that left it fails
    assert not any(left.values()), f"the test left {[what for what, is_left in left.items() if is_left]}"


@pytest.fixture
def _restore_pool() -> Iterator[None]:
    """Give kernels the number of threads again that they had before the test."""
    before = threads._pool.count if threads._pool is not None else hardware.threads()
    yield
    threads.set_threads(before)


@pytest.fixture
def shared_loops(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Share every loop, however short it is; return a list of the number of threads of each loop that was shared."""
    shared: list[int] = []
    run = threads._Pool.run

    def noted(pool: threads._Pool, loop: threads.Loop, rows: int, count: int, *others: Any) -> None:
        shared.append(count)
        run(pool, loop, rows, count, *others)

    monkeypatch.setattr(threads._Pool, "run", noted)
    monkeypatch.setattr(threads, "_INLINE_BELOW", 0)
    monkeypatch.setattr(threads, "_RANGE", 1)
    return shared


@pytest.fixture(autouse=True)
def _operations_of_tests_are_forgotten() -> Iterator[None]:
    """Remove the operations that a test defined from the table of all operations."""
    yield
    for name in [name for name, function in OPS.items() if function.__module__.startswith("tests.")]:
        del OPS[name]
