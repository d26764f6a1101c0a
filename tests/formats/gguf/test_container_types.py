"""The types of arrays, against plain NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from minigrad.errors import InputError
from minigrad.formats.gguf.container import STORAGES, q8_0, storage_for


def plain_q8_0(elements):
    """Return (scale, whole numbers) of each block, one element at a time, in the arithmetic of float32."""
    blocks = []
    for row in elements.reshape(-1, 32):
        scale = max(abs(x) for x in row) / np.float32(127)
        inverse = np.float32(1) / scale if scale >= np.finfo(np.float32).tiny else np.float32(0)
        numbers = []
        for x in row:
            magnitude = float(abs(np.float32(x * inverse)))
            numbers.append(int(np.sign(x)) * int(magnitude + 0.5))  # halves away from zero
        blocks.append((np.float16(scale), numbers))
    return blocks


@given(arrays(np.float32, 64, elements=st.floats(-1000, 1000, width=32)))
@example(np.full(64, 1e-38, np.float32))  # one over the scale is infinite
def test_q8_0_is_its_plain_definition(elements):
    found = q8_0(elements)
    for block, (scale, numbers) in zip(found, plain_q8_0(elements), strict=True):
        assert block["scale"] == scale
        assert block["elements"].tolist() == numbers


def test_halves_are_rounded_away_from_zero():
    elements = np.zeros(32, np.float32)
    elements[:5] = [127, 0.5, 1.5, -0.5, -2.5]
    assert q8_0(elements)["elements"][0, :5].tolist() == [127, 1, 2, -1, -3]


def test_the_error_of_q8_0_is_half_a_step():
    draw = np.random.default_rng(0).standard_normal(320).astype(np.float32)
    blocks = q8_0(draw)
    restored = (blocks["scale"].astype(np.float32)[:, None] * blocks["elements"]).reshape(-1)
    steps = np.repeat(blocks["scale"].astype(np.float32), 32)
    assert (np.abs(restored - draw) <= 0.5 * steps + 127 * steps * 2.0**-11).all()


@given(arrays(np.float32, (3, 5), elements=st.floats(-60000, 60000, width=32)))
def test_float16_rounds_to_the_nearest_and_float32_keeps_every_bit(array):
    half = np.frombuffer(STORAGES["f16"].encode(array, "x"), "<f2")
    np.testing.assert_array_equal(half, array.astype(np.float16).reshape(-1))
    assert STORAGES["f32"].encode(array, "x") == array.tobytes()


@pytest.mark.parametrize("name", STORAGES)
def test_the_size_is_the_number_of_bytes(name):
    array = np.ones((4, 32), np.float32)
    assert len(STORAGES[name].encode(array, "x")) == STORAGES[name].size(array.size)


def test_arrays_of_any_layout_and_precision_are_stored_row_by_row():
    array = np.arange(64.0).reshape(32, 2).T
    assert STORAGES["f32"].encode(array, "x") == array.astype(np.float32).tobytes()


@pytest.mark.parametrize(("name", "value"), [("f16", 70_000), ("q8_0", 1e8), ("f32", 1e300)])
def test_an_element_that_a_type_cannot_hold_is_refused(name, value):
    array = np.zeros((1, 32))
    array[0, 3] = value
    with pytest.raises(InputError, match=r"blk\.0\.x has elements up to .*, which this type cannot hold"):
        STORAGES[name].encode(array, "blk.0.x")


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("name", STORAGES)
def test_damaged_weights_are_not_a_matter_of_the_type(name, value):
    array = np.array([1.0, value] * 16, np.float32)
    with pytest.raises(InputError, match=r"^w has elements that are not finite: the weights are damaged$"):
        STORAGES[name].encode(array, "w")


def test_which_arrays_keep_more_bits():
    matrix, odd, vector = np.zeros((3, 64)), np.zeros((64, 3)), np.zeros(64)
    assert [storage_for("x.weight", matrix, name) for name in STORAGES] == ["f32", "f16", "q8_0"]
    assert [storage_for("x.weight", odd, name) for name in STORAGES] == ["f32", "f16", "f16"]
    assert {storage_for("x.weight", vector, name) for name in STORAGES} == {"f32"}
    assert {storage_for("position_embd.weight", matrix, name) for name in STORAGES} == {"f32"}
