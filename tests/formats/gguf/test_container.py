"""The layout of a file: every value and array comes back, and every byte is where the format puts it."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.errors import InputError
from minigrad.formats.gguf import container
from minigrad.formats.gguf.container import StoredTensor
from tests.formats.gguf import reader

METADATA: dict[str, container.Value] = {
    "a.number": 7,
    "a.large number": 2**32 - 1,
    "a.switch": True,
    "a.ratio": 0.25,
    "a.text": "é 🙂",
    "a.texts": ["Ġthe", "", "中"],
    "a.numbers": [1, -2, 3],
    "a.ratios": [0.5, -1.5],
    "a.nothing": [],
}


def written(tmp_path: Path, metadata: Any, tensors: Any) -> reader.Content:
    path = tmp_path / "file.gguf"
    with path.open("wb") as file:
        container.write(file, metadata, tensors)
    assert path.stat().st_size % 32 == 0
    return reader.read(path)


def test_every_value_comes_back_with_the_type_that_readers_expect(tmp_path):
    content = written(tmp_path, METADATA, {})
    assert content.metadata == METADATA
    assert list(content.metadata) == list(METADATA)
    assert content.kinds == {
        "a.number": 4,
        "a.large number": 4,
        "a.switch": 7,
        "a.ratio": 6,
        "a.text": 8,
        "a.texts": (9, 8),
        "a.numbers": (9, 5),
        "a.ratios": (9, 6),
        "a.nothing": (9, 8),
    }


def test_a_text_that_utf_8_lacks_is_refused(tmp_path):
    for value in ("\ud800", ["a", "\ud800"]):
        with pytest.raises(InputError, match="has a lone surrogate, which a GGUF file cannot hold"):
            written(tmp_path, {"a.text": value}, {})


def test_arrays_come_back_and_each_begins_at_a_multiple_of_32(tmp_path):
    draw = np.random.default_rng(0)
    arrays = {f"array {size}": draw.standard_normal(size).astype(np.float32) for size in ((5,), (3, 7), (2, 3, 4))}
    content = written(tmp_path, METADATA, {name: StoredTensor(array, "f32") for name, array in arrays.items()})
    for name, array in arrays.items():
        np.testing.assert_array_equal(content.arrays[name], array)
        assert content.offsets[name] % container.ALIGNMENT == 0
    assert set(content.storages.values()) == {0}


def test_types_are_mixed_in_one_file(tmp_path):
    array = np.linspace(-1, 1, 96, dtype=np.float32).reshape(3, 32)
    content = written(tmp_path, {}, {name: StoredTensor(array, name) for name in ("q8_0", "f16", "f32")})
    assert content.storages == {"q8_0": 8, "f16": 1, "f32": 0}
    np.testing.assert_array_equal(content.arrays["f32"], array)
    np.testing.assert_array_equal(content.arrays["f16"], array.astype(np.float16).astype(np.float32))
    assert np.abs(content.arrays["q8_0"] - array).max() < 1 / 127


def test_the_bytes_of_a_small_file():
    file = io.BytesIO()
    container.write(file, {"k": 5}, {"t": StoredTensor(np.array([[1, 2, 3]], np.float32), "f32")})
    expected = b"GGUF" + struct.pack("<IQQ", 3, 1, 1)
    expected += struct.pack("<Q", 1) + b"k" + struct.pack("<II", 4, 5)
    expected += struct.pack("<Q", 1) + b"t" + struct.pack("<IQQIQ", 2, 3, 1, 0, 0)
    expected += bytes(-len(expected) % 32)
    assert file.getvalue() == expected + struct.pack("<3f", 1, 2, 3) + bytes(20)


@given(st.lists(st.integers(1, 40), max_size=5))
def test_offsets_count_every_byte(sizes):
    file = io.BytesIO()
    arrays = [np.full(size, number, np.float32) for number, size in enumerate(sizes)]
    container.write(file, {}, {f"{number}": StoredTensor(array, "f32") for number, array in enumerate(arrays)})
    aligned = sum(-(-4 * size // 32) * 32 for size in sizes)
    header = -(-(24 + sum(8 + len(str(i)) + 4 + 8 + 4 + 8 for i in range(len(sizes)))) // 32) * 32
    assert len(file.getvalue()) == header + aligned


@pytest.mark.parametrize("number", [-1, 2**32, 1e300])
def test_a_number_that_does_not_fit_is_refused_and_never_cut(number):
    with pytest.raises(InputError, match=r"k is .*, which a GGUF file cannot hold"):
        container.write(io.BytesIO(), {"k": number}, {})
