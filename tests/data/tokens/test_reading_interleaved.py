"""Several texts are read by their shares, each from its beginning to its end before it is read again."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.data.tokens.reading import BLOCKS, Interleaved, apportioned, reader, training_source
from minigrad.data.tokens.token_files import TokenFile, TokenMixture

CONTEXT = 4
FIRST, SECOND = np.array([0, *range(1_000, 1_100), 0]), np.array([0, *range(2_000, 2_050), 0, 2_060, 0])


def mixed(way="packed", shares=(0.75, 0.25)):
    files = tuple(TokenFile(row, len(row), "") for row in (FIRST, SECOND))
    return training_source(way, TokenMixture(files, shares), CONTEXT)


@given(st.sampled_from(["packed", "windows"]), st.integers(0, 2**32), st.integers(0, 30_000), st.integers(1, 9))
def test_a_step_has_its_tokens_and_each_text_goes_on_where_it_was(way, seed, step, size):
    source = mixed(way)
    batch = source.batch(seed=seed, step=step, batch_size=size)
    assert batch.tokens.shape == (size * CONTEXT,)
    found = Counter(zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True))
    expected = Counter()
    begins, ends = (source.blocks_before(seed, at * size) for at in (step, step + 1))
    for row, begin, end in zip((FIRST, SECOND), begins, ends, strict=True):
        if end > begin:
            alone = reader(way, row, CONTEXT).blocks(seed, int(begin), int(end))
            expected += Counter(zip(alone.tokens.tolist(), alone.targets.tolist(), strict=True))
    assert found == expected


@given(st.lists(st.floats(0.01, 1), min_size=1, max_size=5), st.integers(0, 9), st.integers(0, 3 * BLOCKS))
def test_the_shares_are_kept_at_every_moment(weights, seed, blocks):
    shares = [weight / sum(weights) for weight in weights]
    counts = Interleaved([None] * len(shares), shares).blocks_before(seed, blocks)
    assert counts.sum() == blocks
    # Evenly spread within each plan: a text is ahead or behind by a block for each of the texts, and the rounding.
    np.testing.assert_allclose(counts, np.array(shares) * blocks, atol=2 * len(shares) + 3 * blocks / BLOCKS)


def test_the_order_depends_on_the_seed_and_changes_with_each_plan():
    orders = {tuple(mixed(shares=(0.61, 0.39))._order(seed, plan)) for seed in range(2) for plan in range(2)}
    assert len(orders) == 4


def test_one_text_with_all_of_the_share_is_that_text():
    whole = Interleaved([reader("packed", FIRST, CONTEXT)], [1.0])
    alone = reader("packed", FIRST, CONTEXT)
    for step in (0, 7, 30):
        batches = [source.batch(seed=3, step=step, batch_size=3) for source in (whole, alone)]
        assert sorted(batches[0].tokens.tolist()) == sorted(batches[1].tokens.tolist())


def test_what_a_plan_is_made_of():
    source = mixed()
    each = [reader("packed", row, CONTEXT) for row in (FIRST, SECOND)]
    assert source.tokens_before(5, seed=0, batch_size=2) == 5 * 2 * CONTEXT
    first, second = (reader.num_rows for reader in each)
    assert source.tokens_per_pass(2) == round(1 / (0.75**2 / first + 0.25**2 / second))
    lengths = [text.attended_length() for text in each]
    assert source.attended_length() == pytest.approx(0.75 * lengths[0] + 0.25 * lengths[1])
    assert source.describe(2) == " of 2 texts"


@given(st.lists(st.floats(0.001, 1), min_size=1, max_size=9))
def test_whole_numbers_are_as_near_to_the_shares_as_they_can_be(weights):
    shares = np.array(weights) / sum(weights)
    counts = apportioned(shares.tolist(), 1_000)
    assert counts.sum() == 1_000
    assert counts.min() >= 1
    assert np.abs(counts - 1_000 * shares).max() <= 1 + (counts == 1).sum()
