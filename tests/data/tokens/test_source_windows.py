from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.data.tokens import token_files
from minigrad.data.tokens.source import Windows
from minigrad.errors import InputError

lengths = st.integers(2, 400).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n - 1)))
seeds = st.integers(0, 2**32)


def drawn(num_tokens, context, **options):
    """Return tokens and targets of a batch, one window a row; the tokens of the text are 0, 1, 2 and so on."""
    batch = Windows(np.arange(num_tokens), context).batch(**options)
    assert batch.tokens.dtype == batch.targets.dtype == np.int32
    assert (batch.layout.lengths == context).all()
    return batch.tokens.reshape(-1, context), batch.targets.reshape(-1, context)


@given(lengths, seeds, st.integers(0, 3))
def test_every_window_of_an_epoch_is_used_once(length, seed, epoch):
    num_tokens, context = length
    windows = Windows(np.arange(num_tokens), context).per_epoch
    inputs, targets = drawn(num_tokens, context, seed=seed, step=epoch, batch_size=windows)
    assert inputs.shape == targets.shape == (windows, context)
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
    whole = drawn(*length, seed=seed, step=step, batch_size=size * parts)
    steps = range(step * parts, (step + 1) * parts)
    each = [drawn(*length, seed=seed, step=number, batch_size=size) for number in reversed(steps)]
    np.testing.assert_array_equal(whole[0], np.concatenate([inputs for inputs, _ in reversed(each)]))
    np.testing.assert_array_equal(whole[1], np.concatenate([targets for _, targets in reversed(each)]))


def test_a_batch_depends_on_seed_and_step_only():
    first, _ = drawn(5_000, 16, seed=1, step=70, batch_size=4)
    for step in (0, 71, 500):  # other epochs push this one out of the cache
        assert not np.array_equal(drawn(5_000, 16, seed=1, step=step, batch_size=4)[0], first)
    assert not np.array_equal(drawn(5_000, 16, seed=2, step=70, batch_size=4)[0], first)
    np.testing.assert_array_equal(drawn(5_000, 16, seed=1, step=70, batch_size=4)[0], first)


def test_epochs_differ_in_order_and_shift():
    epochs = [drawn(1_000, 10, seed=0, step=step, batch_size=99)[0][:, 0] for step in range(20)]
    assert len({int(starts.min()) for starts in epochs}) > 5
    assert len({tuple(starts // 10) for starts in epochs}) == 20


def test_batches_come_from_token_files_too():
    row, options = np.arange(40), {"seed": 0, "step": 3, "batch_size": 2}
    of_file = Windows(token_files.TokenFile(row.astype(np.uint16), 40, ""), 5).batch(**options)
    np.testing.assert_array_equal(of_file.tokens, Windows(row, 5).batch(**options).tokens)


def test_too_short_a_text_names_both_numbers_and_the_way_out():
    with pytest.raises(InputError, match=r"has 1,000 tokens.*1,000 needs 1,001.*smaller --context, more text, or"):
        Windows(np.arange(1_000), 1_000)
    with pytest.raises(InputError, match="at least 1"):
        Windows(np.arange(1_000), 0)
