"""A selection is read again each time, and notices when it would be another text."""

from __future__ import annotations

import pytest

from minigrad.data.selection import DocumentPass, Selection, evenly
from minigrad.errors import InputError

TEXTS = ["one", "two", "three", "four"]


def chosen(documents, changed):
    reading = DocumentPass(documents)
    assert [*reading] == [*enumerate(documents)]
    return Selection(documents, changed, reading, reading.num_bytes)


def test_documents_are_left_out_and_replaced():
    selection = chosen(TEXTS, {0: None, 2: "3"})
    for _ in range(2):
        assert [*selection] == ["two", "3", "four"]
    assert len(tuple(selection)) == 3


def test_a_text_that_changed_is_noticed():
    documents = [*TEXTS]
    selection = chosen(documents, {0: None})
    documents[1:3] = ["tw", "othree"]  # the same characters in the same order
    with pytest.raises(InputError, match="the text changed while it was read"):
        list(selection)


def test_a_selection_is_known_by_what_is_left_of_what():
    cases = [
        (TEXTS, {}),
        (TEXTS, {0: None}),
        (TEXTS, {1: None}),
        (TEXTS, {0: "0"}),
        (TEXTS[1:], {}),
        (["".join(TEXTS)], {}),
    ]
    digests = [chosen(*case).digest for case in cases]
    assert len(set(digests)) == len(cases)
    assert chosen([*TEXTS], {1: None}).digest == digests[2]


def test_a_share_of_documents_is_evenly_spaced_and_holds_at_least_one():
    selection = chosen(TEXTS, {})
    assert [*evenly(selection, 1.0)] == TEXTS
    assert [*evenly(selection, 1e-9)] == TEXTS[:1]
    for share in (0.1, 0.25, 0.5, 0.7):
        assert [*evenly(map(str, range(20)), share)] == [str(int(n / share)) for n in range(round(20 * share))]
    assert [*evenly(chosen([], {}), 0.5)] == []
