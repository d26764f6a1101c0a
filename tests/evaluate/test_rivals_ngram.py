"""The n-gram model that the comparison counts with: its probabilities are probabilities, and those of the formula."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad.errors import InputError
from minigrad.evaluate import rivals

texts = st.lists(st.binary(max_size=12), min_size=1, max_size=4)


@given(documents=texts, context=st.binary(min_size=3, max_size=3), order=st.integers(1, 4))
@settings(max_examples=30)
def test_probabilities_add_up_to_one(documents: list[bytes], context: bytes, order: int) -> None:
    model = rivals.NGram(documents, order)
    packed = np.full(256, int.from_bytes(context, "big"), np.uint64)
    chances = model.probabilities(packed, np.arange(256, dtype=np.uint64), order - 1)
    assert (chances > 0).all()
    assert chances.sum() == pytest.approx(1, abs=1e-12)


def test_the_counts_of_a_small_text_by_hand() -> None:
    """After "ab" three times "c" twice and "d" once, with two different bytes."""
    documents = [b"abc", b"abc", b"abd"]
    # Order 1: nine bytes, four different ones, over the uniform distribution.
    first = {byte: (count + 4 / 256) / (9 + 4) for byte, count in zip(b"abcd", (3, 3, 2, 1), strict=True)}
    after_b = (2 + 2 * first[ord("c")]) / (3 + 2)
    after_ab = (2 + 2 * after_b) / (3 + 2)
    model = rivals.NGram(documents, 3)
    found = model.probabilities(np.array([int.from_bytes(b"ab", "big")], np.uint64), np.array([ord("c")], np.uint64), 2)
    assert found[0] == pytest.approx(after_ab)
    assert model.bits_per_byte([b"a"]) == pytest.approx(-math.log2(first[ord("a")]))


def test_the_loss_of_a_text_is_that_of_each_byte_after_those_before_it() -> None:
    model, evaluated, bits = rivals.NGram([b"abcab", b"bca"], 3), [b"abcaab", b"c", b""], 0.0
    for text in evaluated:
        for place, byte in enumerate(text):
            before = text[max(place - 2, 0) : place]
            context, following = np.array([int.from_bytes(before, "big")], np.uint64), np.array([byte], np.uint64)
            bits -= math.log2(model.probabilities(context, following, len(before))[0])
    assert model.bits_per_byte(evaluated) == pytest.approx(bits / 7)


def test_contexts_do_not_cross_the_beginning_of_a_document() -> None:
    apart, together = rivals.NGram([b"ab", b"cd"], 2), rivals.NGram([b"abcd"], 2)
    context, following = np.array([ord("b")], np.uint64), np.array([ord("c")], np.uint64)
    assert together.probabilities(context, following, 1)[0] > apart.probabilities(context, following, 1)[0]


@given(documents=texts, held_out=texts, order=st.integers(1, 4), portion=st.integers(1, 30))
@settings(max_examples=30)
def test_counting_in_portions_changes_nothing(
    documents: list[bytes], held_out: list[bytes], order: int, portion: int
) -> None:
    whole = rivals.NGram(documents, order)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rivals, "_PORTION", portion)
        parts = rivals.NGram(documents, order)
        assert parts.bits_per_byte(held_out) == pytest.approx(whole.bits_per_byte(held_out), rel=1e-12)
    for name in ("pairs", "totals"):
        for first, second in zip(getattr(whole, name), getattr(parts, name), strict=True):
            for one, other in zip(first, second, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("order", [0, 9])
def test_an_order_whose_contexts_do_not_fit_into_64_bits_is_refused(order: int) -> None:
    with pytest.raises(InputError, match=f"1 to 8, not {order}"):
        rivals.NGram([b"abcdefghij"], order)
