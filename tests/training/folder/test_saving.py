"""Writing in the background: from copies, one after the other, with errors that are reported in order."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from minigrad.errors import RunError
from minigrad.training.folder.saving import Writer
from minigrad.typing import Arrays


def test_what_is_written_is_a_copy_from_before_the_arrays_changed() -> None:
    writer, arrays, go_on, written = (
        Writer(),
        {"a": np.zeros(3), "b": np.zeros((2, 2), np.float32)},
        threading.Event(),
        {},
    )

    def write(copies: Arrays) -> None:
        assert go_on.wait(timeout=60)
        written.update({name: array.copy() for name, array in copies.items()})

    writer.begin(arrays, write)
    for array in arrays.values():
        array += 1  # training goes on
    assert not written
    go_on.set()
    writer.wait()
    assert not any(array.any() for array in written.values())
    assert {name: array.dtype for name, array in written.items()} == {"a": np.float64, "b": np.float32}


def test_a_write_waits_for_the_one_before_and_uses_its_memory_again() -> None:
    writer, array, order, places = Writer(), np.zeros(4), list[float](), set[int]()

    def write(copies: Arrays) -> None:
        order.append(float(copies["a"][0]))
        places.add(copies["a"].ctypes.data)

    for number in range(5):
        array[:] = number
        writer.begin({"a": array}, write)
    writer.wait()
    assert order == [0, 1, 2, 3, 4]
    assert len(places) == 1


def fail(copies: Arrays) -> None:
    raise RunError("the disk is full")


def test_a_write_that_failed_is_reported_once_by_whatever_comes_next() -> None:
    writer = Writer()
    writer.begin({}, fail)
    with pytest.raises(RunError, match="the disk is full"):
        writer.wait()
    writer.check()
    writer.begin({}, fail)
    with pytest.raises(RunError, match="the disk is full"):
        writer.begin({}, lambda copies: None)
    with pytest.raises(RunError, match="the disk is full"), writer:
        writer.begin({}, fail)


def test_the_block_does_not_end_before_the_write_and_keeps_the_error_that_ended_it() -> None:
    ended = []

    def write(copies: Arrays) -> None:
        ended.append(copies)
        raise RunError("the disk is full")

    def interrupted() -> None:
        with Writer() as writer:
            writer.begin({}, write)
            raise KeyError("another")

    with pytest.raises(KeyError, match="another"):
        interrupted()
    assert ended
