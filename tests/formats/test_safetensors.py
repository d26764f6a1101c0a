"""Safetensors files: arrays are read bit for bit, and damaged or other files are refused."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from minigrad.formats.safetensors import read_headers, read_tensors, save_tensors
from minigrad.formats.weights import read_weights
from tests.refusals import refusal

DTYPES = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])).filter(lambda s: s != "__metadata__"), arrays))
def test_any_arrays_come_back_bit_for_bit(arrays):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_tensors(path, arrays)
        ours, library = read_tensors(path), load_file(path)
    assert set(ours) == set(library) == set(arrays)
    for name, array in arrays.items():
        for read in (ours[name], library[name]):
            assert (read.dtype, read.shape) == (array.dtype, array.shape)
            assert read.tobytes() == array.tobytes()


def test_a_strided_view_is_saved_by_its_values(tmp_path):
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    save_tensors(tmp_path / "file", {"transposed": matrix.T, "every other": matrix[:, ::2]})
    read = read_tensors(tmp_path / "file")
    np.testing.assert_array_equal(read["transposed"], matrix.T)
    np.testing.assert_array_equal(read["every other"], matrix[:, ::2])


def header_of(path: Path) -> dict:
    content = path.read_bytes()
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def test_the_header_has_the_metadata_that_transformers_needs(tmp_path):
    save_tensors(tmp_path / "file", {"a": np.ones(1)})
    assert header_of(tmp_path / "file")["__metadata__"] == {"format": "pt"}


def test_arrays_are_aligned_and_little_endian(tmp_path):
    arrays = {"a": np.ones(3, np.int8), "b": np.array([1.5, 2.5], ">f8"), "c": np.ones(1, np.float16)}
    save_tensors(tmp_path / "file", arrays)
    header, start = header_of(tmp_path / "file"), 8 + int.from_bytes((tmp_path / "file").read_bytes()[:8], "little")
    assert start % 8 == 0
    assert all(header[name]["data_offsets"][0] % array.itemsize == 0 for name, array in arrays.items())
    assert read_tensors(tmp_path / "file")["b"].tolist() == [1.5, 2.5]


def write_raw(path: Path, header: object, data: bytes) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_bfloat16_and_float16_widen_to_float32(tmp_path):
    values = np.array([[1.0, -2.5, 0.0], [np.inf, 3.140625, -np.inf]], np.float32)  # each is a bfloat16
    data = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    entry = {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}
    read = read_tensors(write_raw(tmp_path / "bf16", {"w": entry}, data))["w"]
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, values)
    save_file({"w": values.astype(np.float16)}, tmp_path / "f16")
    read = read_tensors(tmp_path / "f16")["w"]
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, values)


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
DAMAGED = "is damaged or not a safetensors file"


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        ({"w": ENTRY}, b"123", DAMAGED),
        ({"w": ENTRY}, b"12345", DAMAGED),
        ({"w": ENTRY | {"shape": [2]}}, b"1234", DAMAGED),
        ({"w": ENTRY | {"dtype": "F8_E4M3", "shape": [4]}}, b"1234", "w is stored as F8_E4M3; convert it to F32 or"),
        ({"w": ENTRY, "v": ENTRY}, b"1234", DAMAGED),  # the two overlap
        ({"w": {"dtype": "F32"}}, b"1234", DAMAGED),
        ({"w": 3}, b"1234", DAMAGED),
        (["w"], b"1234", DAMAGED),
        ("w", b"1234", DAMAGED),
    ],
)
def test_a_wrong_header_is_refused(tmp_path, header, data, message):
    path = write_raw(tmp_path / "file", header, data)
    refused = refusal(read_weights, path)
    assert str(path) in refused
    assert message in refused


@given(st.binary(max_size=80))
def test_any_foreign_file_is_refused(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        refusal(read_weights, path)


def test_bfloat16_among_other_types_is_found_at_its_place(tmp_path):
    header, data = {}, b""
    for name, dtype, values in (
        ("c", "I8", b"123"),
        ("a", "BF16", b"\x80\x3f\x00\x40"),
        ("b", "F32", b"\x00\x00\x80\x3f"),
    ):
        shape = [len(values) // {"I8": 1, "BF16": 2, "F32": 4}[dtype]]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(values)]}
        data += values
    read = read_tensors(write_raw(tmp_path / "file", header, data))
    assert {name: array.tolist() for name, array in read.items()} == {"c": [49, 50, 51], "a": [1.0, 2.0], "b": [1.0]}


NO_SHAPES = [None, "3", 5, True, [None], [0.5], [-1], [2**64], [2**63, 0], [0, 2**40, 2**40], [1] * 40 + [0]]


@pytest.mark.parametrize("shape", NO_SHAPES)
def test_any_shape_in_a_header_is_read_or_refused(tmp_path, shape):
    path = write_raw(tmp_path / "file", {"w": ENTRY | {"shape": shape, "data_offsets": [0, 0]}}, b"")
    assert str(path) in refusal(read_weights, path)


@pytest.mark.parametrize("offsets", [["0", 4], [[0], 4], [0.5, 4], [0], [4, 0], None, [0, 2**64]])
def test_any_offsets_in_a_header_are_read_or_refused(tmp_path, offsets):
    path = write_raw(tmp_path / "file", {"w": ENTRY | {"data_offsets": offsets}}, b"1234")
    assert DAMAGED in refusal(read_weights, path)


def test_a_deeply_nested_header_is_refused(tmp_path):
    text = b'{"w":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    path = tmp_path / "file"
    path.write_bytes(len(text).to_bytes(8, "little") + text)
    assert DAMAGED in refusal(read_weights, path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such device")
def test_a_device_in_the_place_of_a_file_is_refused(tmp_path):
    (tmp_path / "file").symlink_to("/dev/zero")
    assert "it is a device" in refusal(read_weights, tmp_path / "file")


def test_a_header_of_more_arrays_than_any_model_has_is_refused_at_once(tmp_path):
    entry = '"{}":{{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}'
    text = ("{" + ",".join(entry.format(number) for number in range(200_000)) + "}").encode()
    (tmp_path / "file").write_bytes(len(text).to_bytes(8, "little") + text)
    for read in (read_headers, read_weights):
        assert "its header has 11.5 MB, and one of 8.4 MB describes" in refusal(read, tmp_path / "file")
