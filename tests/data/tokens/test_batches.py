"""Batches of packed sequences, and their division into parts."""

from __future__ import annotations

import dataclasses

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch, balanced, gather, join
from minigrad.nn.layout import Layout


def numbered(lengths: list[int]) -> Batch:
    rows = np.arange(sum(lengths), dtype=np.int32)
    return Batch(rows, rows + 1, Layout.packed(lengths), first_row=100)


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 10))
def test_parts_are_whole_sequences_in_order_none_of_them_empty(lengths: list[int], count: int) -> None:
    batch = numbered(lengths)
    parts = batch.parts(count)
    assert len(parts) <= count
    assert [token for part in parts for token in part.tokens] == batch.tokens.tolist()
    assert [token for part in parts for token in part.targets] == batch.targets.tolist()
    assert [n for part in parts for n in part.layout.lengths if n] == [n for n in lengths if n]
    for part in parts:
        assert len(part.tokens)
        assert part.first_row == 100 + part.tokens[0]
        np.testing.assert_array_equal(part.layout.positions, Layout.packed(part.layout.lengths).positions)


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(1, 10))
def test_each_border_of_the_parts_is_the_nearest_to_an_equal_share(lengths: list[int], count: int) -> None:
    batch, rows = numbered(lengths), sum(lengths)
    borders = {part.first_row - 100 for part in batch.parts(count)}
    for share in range(1, count):
        distances = np.abs(batch.layout.offsets - share * rows / count)
        nearest = batch.layout.offsets[distances == distances.min()].max()  # of two that are equally near, the later
        assert nearest in borders | {rows}


def test_equal_sequences_are_shared_as_array_split_shares_them() -> None:
    for sequences, count in ((8, 2), (8, 4), (6, 3), (5, 2), (7, 7), (3, 5)):
        sizes = [len(part.layout.lengths) for part in numbered([4] * sequences).parts(count)]
        assert sizes == [len(part) for part in np.array_split(np.arange(sequences), count) if len(part)]


def test_two_texts_of_very_different_lengths_are_still_two_parts() -> None:
    assert [len(part.tokens) for part in numbered([1, 255]).parts(2)] == [1, 255]
    assert [len(part.tokens) for part in numbered([255, 1]).parts(2)] == [255, 1]
    assert [len(part.tokens) for part in numbered([256]).parts(2)] == [256]


def test_a_batch_is_gathered_from_a_row_of_tokens() -> None:
    batch = gather(np.array([7, 8, 9, 7, 5, 6, 7], np.uint16), np.array([3, 0]), np.array([2, 3]))
    assert batch.tokens.tolist() == [7, 5, 7, 8, 9]
    assert batch.targets.tolist() == [5, 6, 8, 9, 7]
    assert batch.layout.offsets.tolist() == [0, 2, 5]
    assert batch.tokens.dtype == batch.targets.dtype == np.int32


def test_targets_that_do_not_count_are_not_counted() -> None:
    batch = Batch.rectangular([[1, 2], [3, 4]], [[2, IGNORE], [IGNORE, 5]])
    assert batch.num_targets == 2
    assert batch.layout.offsets.tolist() == [0, 2, 4]


@given(st.lists(st.integers(0, 9), max_size=8), st.integers(1, 10))
def test_long_sequences_are_cut_and_everything_else_stays(lengths: list[int], context: int) -> None:
    batch, cut = numbered(lengths), numbered(lengths).cut(context)
    assert cut.tokens is batch.tokens or cut.tokens.tolist() == batch.tokens.tolist()
    assert (cut.targets.tolist(), cut.first_row) == (batch.targets.tolist(), 100)
    pieces = [min(context, length - first) for length in lengths for first in range(0, length, context)]
    assert cut.layout.lengths.tolist() == pieces
    np.testing.assert_array_equal(cut.layout.positions, Layout.packed(pieces).positions)


@given(st.lists(st.integers(1, 256), min_size=2, max_size=24))
def test_balanced_halves_differ_by_less_than_the_longest(lengths: list[int]) -> None:
    counts = np.array(lengths)
    order = balanced(counts)
    assert sorted(order) == list(range(len(lengths)))
    sums = np.cumsum([0, *counts[order]])
    assert np.abs(sums - sums[-1] / 2).min() <= counts.max() / 2


some = st.lists(st.integers(1, 9), min_size=1, max_size=5)


@given(st.lists(some.map(numbered), min_size=1, max_size=4), st.booleans())
def test_joined_batches_have_the_sequences_of_all(parts: list[Batch], weighted: bool) -> None:
    if weighted:
        parts = [
            dataclasses.replace(part, weights=np.full(len(part.tokens), number, np.float32))
            for number, part in enumerate(parts)
        ]
    whole = join(parts)
    expected = sorted(each for part in parts for each in sequences(part))
    assert sorted(sequences(whole)) == expected


def sequences(batch: Batch) -> list[tuple[tuple[float, ...], ...]]:
    """Return the tokens, the targets and the weights of each sequence."""
    weights = np.zeros(len(batch.tokens)) if batch.weights is None else batch.weights
    rows = np.column_stack([batch.tokens, batch.targets, weights])
    return [tuple(map(tuple, part.tolist())) for part in np.split(rows, batch.layout.offsets[1:-1])]
