"""Portions hold every document once, in order, and only as many as are asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from minigrad.data.tokens.token_files import in_portions


@given(st.lists(st.text(max_size=4)), st.integers(1, 9))
def test_portions(documents, size):
    found = list(in_portions(iter(documents), size))
    assert [document for portion in found for document in portion] == documents
    assert all(len("".join(portion)) >= size for portion in found[:-1])
    assert all(len("".join(portion[:-1])) < size for portion in found)
