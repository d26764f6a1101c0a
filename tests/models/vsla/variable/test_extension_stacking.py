"""Stacks, windows and pyramids of streams."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import InputError, ShapeError, Tensor, gradcheck
from models.vsla.variable import add, equivalent, pyramid, shrink, window_stack, zero_extended_stack
from tests.models.vsla.variable.drawn import extensions, groups, tensors

streams = st.integers(0, 9).flatmap(groups)


@given(data=st.data())
def test_a_stack_does_not_depend_on_the_members_of_the_classes(data: st.DataObject) -> None:
    parts = data.draw(groups(3))
    extended = [data.draw(extensions(part)) for part in parts]
    stacked = zero_extended_stack(*parts)
    assert equivalent(zero_extended_stack(*extended), stacked)
    for row, part in zip(stacked, parts, strict=True):
        assert equivalent(row, part)


@given(six=groups(6))
def test_a_stack_of_sums_is_the_sum_of_stacks(six: list[Tensor]) -> None:
    first, second = six[:3], six[3:]
    sums = [add(a, b) for a, b in zip(first, second, strict=True)]
    stacks = add(zero_extended_stack(*first), zero_extended_stack(*second))
    assert zero_extended_stack(*sums).tolist() == stacks.tolist()


@given(stream=streams, size=st.integers(1, 4))
def test_windows_do_not_overlap_and_miss_nothing_but_the_rest(stream: list[Tensor], size: int) -> None:
    windows = list(window_stack(stream, size))
    assert [len(each) for each in windows] == [size] * (len(stream) // size)
    rows = [row for window in windows for row in window]
    assert all(equivalent(row, part) for row, part in zip(rows, stream[: len(rows)], strict=True))

    with_rest = list(window_stack(stream, size, keep_rest=True))
    assert sum(map(len, with_rest)) == len(stream)
    assert [each.tolist() for each in with_rest[: len(windows)]] == [each.tolist() for each in windows]


@given(stream=streams, size=st.integers(1, 3), levels=st.integers(0, 3), keep_rest=st.booleans())
def test_each_level_of_a_pyramid_is_a_window_of_the_one_below(
    stream: list[Tensor], size: int, levels: int, keep_rest: bool
) -> None:
    tops = list(pyramid(stream, size, levels, keep_rest))
    expected: list[Tensor] = stream
    for _ in range(levels):
        expected = list(window_stack(expected, size, keep_rest))
    assert [each.tolist() for each in tops] == [each.tolist() for each in expected]
    assert all(top.ndim == stream[0].ndim + levels for top in tops)
    if not keep_rest:
        assert len(tops) == len(stream) // size**levels


@given(parts=groups(2), zeros=st.integers(1, 2))
def test_a_rest_that_is_kept_equals_the_full_window_with_nothing_for_the_missing(
    parts: list[Tensor], zeros: int
) -> None:
    """A shorter window is the full one without zeros at its end."""
    nothing = [Tensor(np.zeros((0,) * parts[0].ndim))] * zeros
    (rest,) = window_stack(parts, len(parts) + zeros, keep_rest=True)
    (full,) = window_stack([*parts, *nothing], len(parts) + zeros)
    assert equivalent(rest, full)
    assert shrink(rest).tolist() == shrink(full).tolist()


def test_an_endless_stream_is_read_only_as_far_as_it_is_asked() -> None:
    taken = 0

    def endless() -> Iterator[Tensor]:
        nonlocal taken
        for taken in itertools.count(1):
            yield Tensor([float(taken)])

    tops = pyramid(endless(), size=2, levels=2)
    assert next(tops).tolist() == [[[1.0], [2.0]], [[3.0], [4.0]]]
    assert taken == 4


@given(data=st.data())
def test_gradients_go_back_through_a_pyramid(data: st.DataObject) -> None:
    shapes = [data.draw(tensors()).shape for _ in range(4)]
    rng = np.random.default_rng(data.draw(st.integers(0, 1000)))

    def top(*parts: Tensor) -> Tensor:
        (only,) = pyramid(parts, size=2, levels=2)
        return only

    gradcheck.check(top, *[rng.normal(size=shape) for shape in shapes])


def test_sizes_that_are_no_windows_are_refused_at_once() -> None:
    with pytest.raises(InputError, match="a window holds at least 1 tensor, not 0"):
        window_stack([], size=0)
    with pytest.raises(InputError, match="a window holds at least 1 tensor, not -1"):
        pyramid([], size=-1, levels=1)
    with pytest.raises(InputError, match="at least 0 levels, not -1"):
        pyramid([], size=2, levels=-1)


def test_a_stack_is_of_tensors_with_equally_many_axes() -> None:
    with pytest.raises(ShapeError, match=r"at least one; got none"):
        zero_extended_stack()
    with pytest.raises(ShapeError, match=r"equally many axes, at least one; got \(1,\), \(1, 1\)"):
        zero_extended_stack(Tensor([1]), Tensor([[1]]))
    with pytest.raises(InputError, match="float32 and float64"):
        zero_extended_stack(Tensor([1.0]), Tensor([1.0], dtype="float64"))


def test_parts_of_several_dtypes_get_one_that_holds_all() -> None:
    stacked = zero_extended_stack(Tensor(np.array([1], np.int8)), Tensor(np.array([300, 5])))
    assert (stacked.dtype, stacked.tolist()) == (np.int64, [[1, 0], [300, 5]])
