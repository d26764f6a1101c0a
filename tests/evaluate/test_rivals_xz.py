"""The baseline xz: repeated text costs little, and of a long text only the last part is compressed."""

from __future__ import annotations

import hashlib
import sys
from types import SimpleNamespace

import pytest

from minigrad.evaluate import rivals


def test_text_that_repeats_the_training_text_costs_xz_little():
    pytest.importorskip("lzma")
    noise = [hashlib.blake2b(bytes([number])).hexdigest() for number in range(100)]
    seen = rivals.xz_bits_per_byte(noise, noise[20:60])
    unseen = rivals.xz_bits_per_byte(noise[:50], noise[50:])
    assert seen < 0.5
    assert 4 <= unseen < 5  # a hexadecimal digit holds 4 bits


def test_without_xz_there_is_no_figure(monkeypatch):
    monkeypatch.setitem(sys.modules, "lzma", None)
    assert rivals.xz_bits_per_byte(["a"], ["b"]) is None


def test_xz_compresses_only_the_last_part_of_a_long_text(monkeypatch):
    lzma = pytest.importorskip("lzma")
    packed = []

    def compress(data, **options):
        packed.append(data)
        return lzma.compress(data, **options)

    monkeypatch.setattr(rivals, "MOST_BYTES", 4_096)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "lzma", SimpleNamespace(**vars(lzma) | {"compress": compress}))
        rivals.xz_bits_per_byte(["long ago " * 1_000, "the end"], ["new"])
    assert [len(data) for data in packed] == [4_096, 4_096 + 1 + 3]
    assert packed[0].endswith(b"the end")
    assert packed[1].endswith(b"the end\nnew")


@pytest.mark.parametrize("most", range(1, 16))
def test_the_end_of_a_text_is_that_of_its_joined_documents(monkeypatch, most):
    monkeypatch.setattr(rivals, "MOST_BYTES", most)
    for texts in (["abc", "", "πd", "e"], ["abcdefghij", "k"], [""], []):
        assert rivals._end_of(texts) == "\n".join(texts).encode()[-most:]


def test_the_figure_is_that_of_the_whole_text_in_one_dictionary():
    lzma = pytest.importorskip("lzma")
    train, new = ["to be or not to be " * 90], [" ".join(map(str, range(500)))]
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 64 << 20}]
    known, both = train[0].encode(), f"{train[0]}\n{new[0]}".encode()
    before, after = (len(lzma.compress(data, filters=filters)) for data in (known, both))
    assert rivals.xz_bits_per_byte(train, new) == 8 * (after - before) / len(new[0])
