"""Text that is read in portions is the text that is read at once."""

from __future__ import annotations

import gzip
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.data import text_files
from minigrad.errors import InputError

texts = st.lists(st.sampled_from(["\ufeff", "a", "\r", "\n", "\r\n", "é", "π", "🙂"]), max_size=12).map("".join)


@given(texts, st.integers(1, 5), st.booleans())
def test_portions_may_end_anywhere(text, portion, packed):
    data = gzip.compress(text.encode()) if packed else text.encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_PORTION", portion)
        read = "".join(text_files.text_portions(io.BytesIO(data), "a.gz" if packed else "a"))
    assert read == text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    assert read == text_files.text_in(io.BytesIO(text.encode()), "a")


@given(texts, st.sampled_from([b"\xff", b"\xc3(", b"\xe2\x82", b"\0"]), texts, st.integers(1, 5))
def test_bytes_that_are_no_text_are_refused_with_their_place(before, wrong, after, portion):
    start = len(before.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "_PORTION", portion)
        with pytest.raises(InputError, match=rf"a\.txt is not UTF-8 text: byte {start:,} is "):
            list(text_files.text_portions(io.BytesIO(before.encode() + wrong + after.encode()), "a.txt"))


def test_a_packed_file_that_breaks_off_says_after_how_much(monkeypatch):
    monkeypatch.setattr(text_files, "_PORTION", 100)
    data = gzip.compress(bytes(range(1, 128)) * 9, 0)
    with pytest.raises(InputError, match=r"a\.gz cannot be unpacked after the first 900 bytes: "):
        list(text_files.text_portions(io.BytesIO(data[:1_000]), "a.gz"))
