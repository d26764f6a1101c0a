"""The baseline xz: repeated text costs little, and of a long text only the last part is compressed."""

from __future__ import annotations

import hashlib
import sys

import pytest

from minigrad.data import xz


def test_text_that_repeats_the_training_text_costs_xz_little():
    pytest.importorskip("lzma")
    noise = [hashlib.blake2b(bytes([number])).hexdigest() for number in range(100)]
    seen = xz.xz_bits_per_byte(noise, noise[20:60])
    unseen = xz.xz_bits_per_byte(noise[:50], noise[50:])
    assert seen < 0.5
    assert 4 <= unseen < 5  # a hexadecimal digit holds 4 bits


def test_without_xz_there_is_no_figure(monkeypatch):
    monkeypatch.setitem(sys.modules, "lzma", None)
    assert xz.xz_bits_per_byte(["a"], ["b"]) is None


def test_xz_compresses_only_the_last_part_of_a_long_text(monkeypatch):
    lzma = pytest.importorskip("lzma")
    packed = []
    compress = lzma.compress
    monkeypatch.setattr(lzma, "compress", lambda data, **options: (packed.append(data), compress(data, **options))[1])
    monkeypatch.setattr(xz, "DICTIONARY", 4_096)
    xz.xz_bits_per_byte(["long ago " * 1_000, "the end"], ["new"])
    assert [len(data) for data in packed] == [4_096, 4_096 + 1 + 3]
    assert packed[0].endswith(b"the end")
    assert packed[1].endswith(b"the end\nnew")
