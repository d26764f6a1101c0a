"""Documents are packed without padding, and every token is read once in an epoch."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.data.tokens import documents as documents_module
from minigrad.data.tokens.documents import Documents
from minigrad.data.tokens.token_files import TokenFile
from minigrad.errors import InputError

seeds = st.integers(0, 2**32)
lengths = st.lists(st.integers(1, 60), min_size=1, max_size=12)


def row_of(lengths):
    """Return documents of these lengths as a row: 0 begins a document, any other token says its place."""
    row = np.arange(1_000, 1_000 + sum(lengths) + 1)
    row[np.cumsum([0, *lengths])] = 0
    return row


def sequences_of(batch):
    """Return each sequence of a batch as a batch of its own."""
    return [batch.between(first, last) for first, last in itertools.pairwise(batch.layout.offsets)]


@given(lengths, seeds, st.integers(1, 20), st.integers(1, 5))
def test_every_token_is_read_once_in_an_epoch(lengths, seed, context, batch_size):
    row, rows = row_of(lengths), sum(lengths)
    documents, read = Documents(row, context), []
    steps = -(-2 * rows // (batch_size * context))
    for step in range(steps):
        batch = documents.batch(seed=seed, step=step, batch_size=batch_size)
        assert len(batch.tokens) == len(batch.targets) == batch_size * context
        assert batch.layout.lengths.min() >= 1
        assert batch.layout.lengths.max() <= context
        read += sorted(zip(batch.tokens.tolist(), batch.targets.tolist(), strict=True))
    pairs = sorted(zip(row[:-1].tolist(), row[1:].tolist(), strict=True))
    # The last step may end within an epoch, in which it has read some of the pairs and not the others.
    whole, begun = len(read) // rows, -(-len(read) // rows)
    for pair in pairs:
        assert pairs.count(pair) * whole <= read.count(pair) <= pairs.count(pair) * begun


@given(lengths, seeds, st.integers(1, 20))
def test_a_beginning_of_its_own_is_never_predicted_and_nothing_is_predicted_from_an_end(lengths, seed, context):
    end, begin = 0, 1
    whole = [[begin, *range(first, first + length), end] for first, length in enumerate(lengths, start=10)]
    row = np.concatenate(whole)
    documents = Documents(row, context)
    assert documents.starts.tolist() == np.flatnonzero(row == begin).tolist()
    assert documents.num_rows == documents.lengths.sum() == sum(len(each) - 1 for each in whole)
    assert documents.tokens_per_pass(3) == documents.num_rows
    batch = documents.batch(seed=seed, step=0, batch_size=-(-documents.num_rows // context))
    assert end not in batch.tokens
    assert begin not in batch.targets
    assert (batch.tokens == begin).sum() >= len(lengths)
    assert (batch.targets == end).sum() >= len(lengths)


@given(lengths, seeds, st.integers(1, 20), st.integers(0, 9), st.integers(1, 5))
def test_a_sequence_lies_within_one_document(lengths, seed, context, step, batch_size):
    row = row_of(lengths)
    batch = Documents(row, context).batch(seed=seed, step=step, batch_size=batch_size)
    for part in sequences_of(batch):
        np.testing.assert_array_equal(part.tokens[1:], part.targets[:-1])
        assert (part.tokens[1:] != 0).all()  # the token that begins a document is in no other place of a sequence
        later = part.tokens[part.tokens > 0]
        np.testing.assert_array_equal(later, np.arange(len(later)) + (later[0] if len(later) else 0))


@given(st.lists(st.integers(1, 16), min_size=1, max_size=12), seeds)
def test_an_epoch_of_short_documents_is_whole_documents(lengths, seed):
    row = row_of(lengths)
    documents = Documents(row, 16)
    begins, ends, where = documents._pieces(seed, 3)
    assert sorted(where) == np.flatnonzero(row[:-1] == 0).tolist()
    assert sorted(ends - begins) == sorted(lengths)
    per_step = 2 * 16 * len(lengths) / sum(lengths)
    assert documents.describe(2) == f": about {per_step:.2g} documents and 0 pieces of longer ones"
    assert (documents.tokens_before(3, seed=seed, batch_size=2), documents.tokens_per_pass(2)) == (96, sum(lengths))


@pytest.mark.parametrize("part", [1, 5, 7])
def test_the_ends_of_a_long_text_are_found_part_by_part(part, monkeypatch):
    row = row_of([3, 1, 9, 2, 14])
    whole = Documents(row, 4)
    monkeypatch.setattr(documents_module, "_PART", part)
    in_parts = Documents(row, 4)
    assert in_parts.starts.tolist() == whole.starts.tolist()
    assert in_parts.lengths.tolist() == whole.lengths.tolist()


def test_one_document_a_step_is_no_plural():
    assert Documents(row_of([16, 16]), 16).describe(1) == ": about 1 document and 0 pieces of longer ones"


@given(st.integers(2, 200), seeds, st.integers(1, 20))
def test_a_long_document_becomes_as_few_pieces_as_possible_cut_elsewhere_in_every_epoch(length, seed, context):
    documents = Documents(row_of([length]), context)
    for epoch in range(3):
        begins, ends, where = documents._pieces(seed, epoch)
        assert len(ends) == -(-length // context)
        order = np.argsort(where)
        sizes = (ends - begins)[order]
        np.testing.assert_array_equal(where[order], np.cumsum(sizes) - sizes)
        assert (sizes[1:-1] == context).all()
    firsts = {int(documents._pieces(0, epoch)[2].tolist().index(0)) for epoch in range(40)}
    assert len(firsts) > 1 or length <= 2 * context


def test_pieces_are_cut_in_other_places_in_another_epoch():
    documents = Documents(row_of([100]), 30)
    cuts = {tuple(np.sort(documents._pieces(0, epoch)[2])) for epoch in range(40)}
    assert len(cuts) > 10
    assert {cut[1] for cut in cuts} <= set(range(10, 31))  # 4 pieces have room for 20 more tokens


def test_a_batch_depends_on_seed_and_step_only():
    documents, options = Documents(row_of([40, 3, 90, 17, 60] * 9), 16), {"batch_size": 4}
    first = documents.batch(seed=1, step=40, **options).tokens
    for step in (0, 41, 500):  # other epochs push this one out of the cache
        assert not np.array_equal(documents.batch(seed=1, step=step, **options).tokens, first)
    assert not np.array_equal(documents.batch(seed=2, step=40, **options).tokens, first)
    np.testing.assert_array_equal(documents.batch(seed=1, step=40, **options).tokens, first)
    again = Documents(TokenFile(documents.row.astype(np.uint16), 0, ""), 16)
    np.testing.assert_array_equal(again.batch(seed=1, step=40, **options).tokens, first)


def test_a_text_may_be_shorter_than_a_step():
    batch = Documents(row_of([3, 2]), 4).batch(seed=0, step=5, batch_size=10)
    assert len(batch.tokens) == 40
    assert (batch.tokens == 0).sum() == 16


def test_the_length_that_a_token_attends_within_is_measured():
    assert Documents(row_of([10, 30]), 64).attended_length() == (10 * 10 + 30 * 30) / 40
    assert Documents(row_of([64]), 16).attended_length() == 16


def test_the_halves_of_a_step_have_nearly_equally_many_tokens():
    draw = np.random.default_rng(0)
    documents = Documents(row_of(draw.integers(20, 600, 200).tolist()), 256)
    for count, most in ((2, 1.1), (4, 1.35)):
        shares = [documents.batch(seed=0, step=step, batch_size=8).parts(count) for step in range(20)]
        largest = [max(len(part.tokens) for part in parts) / (2_048 / count) for parts in shares]
        assert np.mean(largest) < most


@pytest.mark.parametrize(("tokens", "context"), [(0, 8), (1, 8), (9, 0)])
def test_a_text_with_nothing_to_predict_is_refused(tokens, context):
    with pytest.raises(InputError, match=f"has {tokens} tokens? and the context is {context}"):
        Documents(np.arange(tokens), context)
