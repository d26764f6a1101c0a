from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.constants import IGNORE
from minigrad.data import batches as data
from minigrad.data import token_files
from minigrad.errors import InputError

lengths = st.integers(2, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1)))
seeds = st.integers(0, 2**32)


@given(lengths, seeds, st.integers(0, 3))
def test_every_window_of_an_epoch_is_used_once(length, seed, epoch):
    num_tokens, context = length
    windows = data.windows_per_epoch(num_tokens, context)
    inputs, targets = data.batch(np.arange(num_tokens), seed=seed, step=epoch, batch_size=windows, context=context)
    assert inputs.shape == targets.shape == (windows, context)
    assert inputs.dtype == targets.dtype == np.int32
    np.testing.assert_array_equal(targets, inputs + 1)
    assert targets.max() < num_tokens
    starts = np.sort(inputs[:, 0])
    shift = starts[0]
    assert 0 <= shift < context
    np.testing.assert_array_equal(starts, shift + context * np.arange(windows))
    np.testing.assert_array_equal(inputs, inputs[:, :1] + np.arange(context))
    # Less than two windows of the text are left out of an epoch.
    assert windows * context > num_tokens - 1 - 2 * context


@given(lengths, seeds, st.integers(0, 50), st.integers(1, 4), st.integers(1, 4))
def test_a_step_of_a_larger_batch_reads_what_several_steps_of_a_smaller_one_read(length, seed, step, size, parts):
    num_tokens, context = length
    row = np.arange(num_tokens, dtype=np.uint16)
    whole = data.batch(row, seed=seed, step=step, batch_size=size * parts, context=context)
    steps = range(step * parts, (step + 1) * parts)
    each = [data.batch(row, seed=seed, step=number, batch_size=size, context=context) for number in reversed(steps)]
    np.testing.assert_array_equal(whole[0], np.concatenate([inputs for inputs, _ in reversed(each)]))
    np.testing.assert_array_equal(whole[1], np.concatenate([targets for _, targets in reversed(each)]))


def test_a_batch_depends_on_seed_and_step_only():
    row = np.arange(5_000)
    settings = {"batch_size": 4, "context": 16}
    first, _ = data.batch(row, seed=1, step=70, **settings)
    for step in (0, 71, 500):  # other epochs push this one out of the cache
        assert not np.array_equal(data.batch(row, seed=1, step=step, **settings)[0], first)
    assert not np.array_equal(data.batch(row, seed=2, step=70, **settings)[0], first)
    np.testing.assert_array_equal(data.batch(row, seed=1, step=70, **settings)[0], first)


def test_epochs_differ_in_order_and_shift():
    row = np.arange(1_000)
    epochs = [data.batch(row, seed=0, step=step, batch_size=99, context=10)[0][:, 0] for step in range(20)]
    assert len({int(starts.min()) for starts in epochs}) > 5
    assert len({tuple(starts // 10) for starts in epochs}) == 20


def test_batches_come_from_token_files_too():
    row = np.arange(40)
    settings = {"seed": 0, "step": 3, "batch_size": 2, "context": 5}
    of_file = data.batch(token_files.TokenFile(row.astype(np.uint16), 40, None), **settings)
    for got, expected in zip(of_file, data.batch(row, **settings), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_too_short_a_text_names_both_numbers_and_the_way_out():
    with pytest.raises(InputError, match=r"has 1,000 tokens.*1,000 needs 1,001.*smaller --context or more text"):
        data.batch(np.arange(1_000), seed=0, step=0, batch_size=1, context=1_000)
    with pytest.raises(InputError, match="at least 1"):
        data.batch(np.arange(1_000), seed=0, step=0, batch_size=1, context=0)


@given(st.integers(2, 300), st.integers(1, 60), st.floats(0, 1), st.integers(1, 7))
def test_evaluation_predicts_every_token_once_with_enough_context(num_tokens, context, overlap, batch_size):
    scored = []
    for inputs, targets in data.evaluation_windows(
        np.arange(num_tokens), context=context, overlap=overlap, batch_size=batch_size
    ):
        assert inputs.shape == targets.shape == (batch_size, context)
        assert inputs.dtype == targets.dtype == np.int32
        rows, places = np.nonzero(targets != IGNORE)
        scored += targets[rows, places].tolist()
        np.testing.assert_array_equal(inputs[rows, places] + 1, targets[rows, places])
        for row, place in zip(rows, places, strict=True):
            known = inputs[row, : place + 1]
            assert len(known) >= min(overlap * context, targets[row, place])
            np.testing.assert_array_equal(known, np.arange(known[0], targets[row, place]))
    assert scored == list(range(1, num_tokens))


def test_evaluation_does_no_more_work_than_it_must():
    batches = list(data.evaluation_windows(np.arange(101), context=20, overlap=0.5, batch_size=3))
    assert len(batches) == 3  # 1 + (100 - 20) / 10 = 9 windows
    assert all((targets != IGNORE).any(axis=1).all() for _, targets in batches)


@pytest.mark.parametrize(("num_tokens", "context", "overlap"), [(1, 8, 0.5), (9, 0, 0.5), (9, 8, 1.5), (9, 8, -0.1)])
def test_evaluation_refuses_what_cannot_be_evaluated(num_tokens, context, overlap):
    with pytest.raises(InputError, match=f"evaluate {num_tokens} tokens with a context of {context}"):
        next(data.evaluation_windows(np.arange(num_tokens), context=context, overlap=overlap))


@given(st.integers(2, 300), st.integers(1, 20), st.integers(1, 7), st.integers(1, 9))
def test_a_few_windows_of_an_evaluation_are_some_of_all_spread_evenly(num_tokens, context, batch_size, max_windows):
    def windows(**options):
        batches = data.evaluation_windows(np.arange(num_tokens), context=context, **options)
        rows = [row for inputs, targets in batches for row in np.hstack([inputs, targets])]
        return [row.tobytes() for row in rows if (row[context:] != IGNORE).any()]

    every, few = windows(), windows(batch_size=batch_size, max_windows=max_windows)
    assert len(few) == min(max_windows, len(every))
    places = [every.index(each) for each in few]
    assert places == sorted(set(places))
    assert max(np.diff([*places, len(every)]), default=0) <= -(-len(every) // len(few))


def test_only_the_requested_windows_are_computed(monkeypatch):
    made = []
    full = np.full
    monkeypatch.setattr(np, "full", lambda *given: (made.append(given), full(*given))[1])
    assert len(list(data.evaluation_windows(np.arange(10_000), context=4, max_windows=3))) == 3
    assert len(made) == 3
