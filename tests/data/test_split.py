"""A text in three parts: which documents, and which ends of documents, are held out."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.data import split as splitting
from minigrad.data.selection import Selection
from minigrad.data.split import LARGE, SHARE, Parts, first_by_hash, in_pieces, num_bytes, split
from minigrad.errors import InputError

WORDS = "to be or not to be that is the question\n"


def written(number: int, size: int) -> str:
    """Return a document of that many bytes; one that may be cut has only letters, and no other one begins so."""
    digits = str(2 * 10**15 + number * 3**29)  # of 16 digits
    name = digits[::-1] if size < 9 else digits.translate(str.maketrans("0123456789", "abcdefghij")) + "\n"
    return (name + WORDS * (size // len(WORDS)))[:size]


# Numbers and sizes: from one byte to a megabyte, the same ones often, and some that are empty.
sizes = st.one_of(st.integers(0, 60), st.integers(0, 3_000), st.sampled_from([10**4, 10**5, 10**6]))
texts = st.lists(st.tuples(st.integers(0, 60), sizes), min_size=1, max_size=100).map(
    lambda pairs: [written(*pair) for pair in pairs]
)


def pieces(parts: Parts) -> list[list[str]]:
    return [sorted(part) for part in (parts.train, parts.validation, parts.test)]


def parts_of(documents: list[str]) -> Parts | None:
    """Return the parts; None for a text that is refused, which may only happen to a short one."""
    try:
        return split(documents)
    except InputError:
        assert num_bytes(documents) < 2_000
        return None


@given(texts, st.randoms())
def test_the_parts_are_disjoint_cover_everything_and_depend_on_the_texts_alone(documents, random):
    if (parts := parts_of(documents)) is None:
        return
    assert isinstance(parts.train, Selection)
    left = Counter(documents)
    for text in [*parts.train, *parts.validation, *parts.test]:
        if left[text]:
            left[text] -= 1
    cut = Counter(in_pieces(text) for text in left.elements())  # what is not in one part as a whole is in all three
    for number, part in enumerate((parts.train, parts.validation, parts.test)):
        whole = Counter(part) - Counter(each[number] for each in cut.elements())
        assert not whole - Counter(documents)
    assert sum(map(num_bytes, (parts.train, parts.validation, parts.test))) == num_bytes(documents)
    assert parts.train.num_bytes == num_bytes(parts.train)
    found = pieces(parts)
    random.shuffle(documents)
    assert pieces(split(documents)) == found


@given(texts)
def test_held_out_is_a_share_of_the_bytes_and_equal_documents_stay_together(documents):
    if (parts := parts_of(documents)) is None:
        return
    total = num_bytes(documents)
    for part in (parts.validation, parts.test):
        assert num_bytes(part) <= (1.5 * SHARE + LARGE) * total + 8
    assert num_bytes(parts.train) >= num_bytes(parts.held_out)
    whole = set(documents)
    for one, other in ((parts.train, parts.validation), (parts.train, parts.test), (parts.validation, parts.test)):
        assert not whole & set(one) & set(other) - {""}


@pytest.mark.parametrize("sizes", [(6, 1_000), (24_000, 56_000), (56_000, 24_000), (500_000, 40, 40, 40)])
def test_of_few_documents_each_large_one_gives_its_end(sizes):
    """Whichever hash is the smallest: a run is never trained on the small file and judged by the large one."""
    for first in range(5):
        documents = [written(first + number, size) for number, size in enumerate(sizes)]
        parts = split(documents)
        assert num_bytes(parts.train) > 0.78 * num_bytes(documents)
        for part in (parts.validation, parts.test):
            assert 0.4 * SHARE < num_bytes(part) / num_bytes(documents) < 2 * SHARE
        largest = max(documents, key=len)
        head, validation, test = in_pieces(largest)
        assert head + validation + test == largest
        assert (head in list(parts.train), validation in parts.validation, test in parts.test) == (True, True, True)


def test_of_many_documents_whole_ones_are_held_out_in_the_order_of_their_hashes():
    documents = [f"{number:04}" for number in range(1_000)]
    parts = split(documents)
    order = first_by_hash(documents, 10**9)
    assert sorted(order) == documents
    assert (set(parts.validation), set(parts.test)) == (set(order[:63]), set(order[63:126]))
    assert list(parts.train) == sorted(order[126:])
    more = split([f"{number:04}" for number in range(1_100)])
    assert len(set(more.validation) & set(parts.validation)) > 55


def test_beside_a_large_document_only_their_share_of_the_small_ones_is_held_out():
    small = [written(number, 400) for number in range(1, 101)]
    parts = split([written(0, 500_000), *small])
    assert 10 <= len({*small} & {*parts.held_out}) <= 15  # twice a sixteenth of 100


def test_a_single_document_gives_its_last_two_sixteenths_after_line_breaks():
    text = WORDS * 32
    for documents in ([text], [text] * 3):
        parts = split(documents)
        assert set(parts.train) == {WORDS * 28}
        assert set(parts.validation) == set(parts.test) == {WORDS * 2}
    assert split(["x" * 160]).held_out == ("x" * 10, "x" * 10)
    assert num_bytes(split([written(1, 10**6)]).train) == pytest.approx(0.875e6, rel=0.001)
    with pytest.raises(InputError, match="3 bytes of text is too little for three parts"):
        split(["xyz"])


def test_a_cut_is_moved_to_a_line_break_within_half_a_share_before_it_and_no_further():
    for before, cut in ((25, 1_375), (75, 1_400)):
        text = "x" * (1_400 - before - 1) + "\n" + "x" * (200 + before)  # a share has 100 characters
        assert [len(piece) for piece in in_pieces(text, share=1 / 16)] == [cut, 1_500 - cut, 100]


def test_of_a_long_text_a_smaller_share_is_held_out(monkeypatch):
    for documents in ([f"{number:04}" for number in range(1_000)], [WORDS * 1_000]):
        whole = split(documents)
        monkeypatch.setattr(splitting, "MOST_BYTES", num_bytes(whole.validation) // 2)
        half = split(documents)
        for name in ("validation", "test"):
            assert num_bytes(getattr(half, name)) == pytest.approx(num_bytes(getattr(whole, name)) / 2, rel=0.05)
        monkeypatch.undo()
