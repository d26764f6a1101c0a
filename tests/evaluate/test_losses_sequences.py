"""Held-out text is evaluated so that every token is predicted once, from its own text and from enough of it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from minigrad.constants import IGNORE
from minigrad.data.tokens import reading
from minigrad.data.tokens.documents import Documents
from minigrad.data.tokens.source import Spans
from minigrad.errors import InputError
from minigrad.evaluate import losses as evaluation
from minigrad.evaluate.losses import evaluation_batches, sequences


def texts(*lengths: int) -> Spans:
    """Return texts of these lengths; the tokens are 0, 1, 2 and so on, through all of them."""
    counts = np.array(lengths, np.int64)
    return Spans(np.arange(counts.sum() + 1), np.cumsum(counts) - counts, counts)


def sequences_of(batch):
    """Return each sequence of a batch as a batch of its own."""
    return [batch.between(first, last) for first, last in itertools.pairwise(batch.layout.offsets)]


spans = st.lists(st.integers(1, 90), min_size=1, max_size=6).map(lambda lengths: texts(*lengths))


@given(spans, st.integers(1, 60), st.floats(0, 1), st.integers(1, 200))
@example(texts(9), 4, 1.0, 100)
def test_every_token_is_predicted_once_from_its_own_text_and_from_enough_of_it(spans, context, overlap, rows):
    scored = []
    for batch in evaluation_batches(spans, context=context, overlap=overlap, rows=rows):
        assert len(batch.tokens) <= rows or len(batch.layout.lengths) == 1
        assert batch.tokens.dtype == batch.targets.dtype == np.int32
        for sequence in sequences_of(batch):
            assert 1 <= len(sequence.tokens) <= context
            np.testing.assert_array_equal(sequence.tokens, np.arange(len(sequence.tokens)) + sequence.tokens[0])
            start = spans.starts[spans.starts <= sequence.tokens[0]].max()  # of its text
            for place in np.flatnonzero(sequence.targets != IGNORE):
                assert place + 1 >= min(overlap * context, sequence.tokens[place] + 1 - start)
                scored.append(sequence.targets[place])
    assert scored == list(range(1, spans.lengths.sum() + 1))


def test_evaluation_does_no_more_work_than_it_must():
    found = sequences(texts(100, 5), context=20, overlap=0.5)
    assert len(found.starts) == 10  # 1 + (100 - 20) / 10 = 9, and the short text
    assert found.lengths.tolist() == [20] * 9 + [5]
    assert found.known.tolist() == [0, *[10] * 8, 0]
    assert evaluation.tokens_read(texts(100, 5), context=20) == 185


def test_windows_cross_documents_and_documents_are_evaluated_alone():
    row = np.array([0, 1, 2, 0, 3, 0])
    assert [span.tolist() for span in reading.spans("windows", row, 2)[1:]] == [[0], [5]]
    assert [span.tolist() for span in Documents(row, 2).spans()[1:]] == [[0, 3], [3, 2]]


@pytest.mark.parametrize(("num_tokens", "context", "overlap"), [(1, 8, 0.5), (9, 0, 0.5), (9, 8, 1.5), (9, 8, -0.1)])
def test_evaluation_refuses_what_cannot_be_evaluated(num_tokens, context, overlap):
    with pytest.raises(InputError, match=f"evaluate {num_tokens} tokens with a context of {context}"):
        next(evaluation_batches(texts(num_tokens - 1), context=context, overlap=overlap))


@given(spans, st.integers(1, 20), st.integers(1, 100), st.integers(1, 300))
def test_a_few_sequences_of_an_evaluation_are_some_of_all_spread_evenly(spans, context, rows, limit):
    def taken(**options):
        batches = evaluation_batches(spans, context=context, **options)
        parts = [part for batch in batches for part in sequences_of(batch)]
        return [(part.tokens.tobytes(), part.targets.tobytes()) for part in parts]

    every, few = taken(), taken(rows=rows, limit=limit)
    total = sequences(spans, context=context).lengths.sum()
    assert len(few) == min(len(every), max(1, limit * len(every) // total))
    places = [every.index(each) for each in few]
    assert places == sorted(set(places))
    assert max(np.diff([*places, len(every)]), default=0) <= -(-len(every) // len(few))


def test_only_the_requested_sequences_are_computed(monkeypatch):
    made = []
    gather = evaluation.gather
    monkeypatch.setattr(evaluation, "gather", lambda *given: (made.append(given), gather(*given))[1])
    assert len(list(evaluation_batches(texts(10_000), context=4, limit=12))) == 3
    assert len(made) == 3
