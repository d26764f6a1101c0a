"""The dtype that an operation computes in, and the dtypes that it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import InputError, Tensor, nn, ops
from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.typing import Array


def test_numbers_and_arrays_of_float64_leave_a_float32_tensor_float32() -> None:
    x = Tensor([1.0], requires_grad=True)
    for number in (0.5, 2, np.float64(0.5), np.ones(1), True):
        assert (x * number).dtype == np.float32, number
    with pytest.raises(InputError, match=r"multiply got tensors of dtype float32 and float64.*astype"):
        x * Tensor(np.ones(1))


def test_integer_tensors_and_python_numbers_leave_a_float32_tensor_float32() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    integers = Tensor([3, 4])
    for y in (
        x * integers,
        ops.concatenate(x, integers),
        ops.where(Tensor([True, False]), x, integers),
        x @ integers,
        x * ((x > 1.5) * 2.0),
        np.power(x, np.float64(2)),
    ):
        assert y.dtype == np.float32
        y.sum().backward()
    assert integers.mean().dtype == np.float32
    assert (integers / 3).dtype == np.float32


def test_integers_and_float16_are_refused_by_kernels() -> None:
    for call in (Tensor([1, 2, 3]).softmax, lambda: ops.gelu(Tensor([1, 2])), Tensor(np.float16([1, 2])).softmax):
        with pytest.raises(InputError, match="float32 or float64"):
            call()


def test_conversion_to_integers_ends_the_gradient() -> None:
    assert not Tensor([1.5, 2.5], requires_grad=True).astype("int64").requires_grad


def test_an_argument_of_integers_is_declared_and_not_found_by_its_name() -> None:
    @op(integers=("index",))
    def pick(x: Array, index: Array) -> tuple[Array, Backward]:
        return x[index], lambda dy: (np.zeros_like(x), None)

    @op
    def plus(x: Array, ids: Array) -> tuple[Array, Backward]:
        return x + ids, lambda dy: (dy, dy)

    x = Tensor([1.0, 2.0])
    assert pick(x, [1, 0]).tolist() == [2.0, 1.0]
    assert plus(x, [1, 0]).dtype == np.float32


def test_float64_data_in_a_float32_layer_names_both_arguments_and_the_way_out() -> None:
    with pytest.raises(InputError) as caught:
        nn.Linear(3, 2)(Tensor(np.ones((4, 3))))
    message = str(caught.value)
    assert "linear got tensors of dtype float64 and float32: x is float64, weight is float32" in message
    assert ".astype('float32')" in message
    assert "dtype='float32'" in message


def test_python_floats_do_not_narrow_arrays() -> None:
    assert ops.add(np.ones(2), 0.5).dtype == np.float64
    assert ops.add(1.0, 0.5).dtype == np.float32
    assert ops.add(np.ones(2, np.float32), np.ones(2)).dtype == np.float64


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32", "bool"])
def test_integers_do_not_wrap_around(dtype: str) -> None:
    x, y = Tensor(np.array([1, 0, 1], dtype)), Tensor(np.array([1, 1, 0], dtype))
    for result, wanted in ((x - y, [0, -1, 1]), (-x, [-1, 0, -1]), (x + y, [2, 1, 1]), (x.sum(), 2)):
        assert result.tolist() == wanted
        assert result.dtype == np.int64
    assert (Tensor(np.full(2, 200, np.uint8)) + Tensor(np.full(2, 100, np.uint8))).tolist() == [300, 300]


def test_integers_become_float32_where_the_result_is_no_integer() -> None:
    x = Tensor(np.array([1, 4], np.uint8))
    for result, wanted in (
        (x.sqrt(), [1, 2]),
        (x / 8, [0.125, 0.5]),
        (x.mean(), 2.5),
        (x**-1, [1, 0.25]),
        (x**0.5, [1, 2]),
    ):
        assert result.dtype == np.float32
        assert result.tolist() == wanted
    assert x.sigmoid().data[1] == pytest.approx(1 / (1 + np.exp(-4)))
    assert (x**2).tolist() == [1, 16]


def test_other_types_of_arguments_are_named() -> None:
    x = Tensor([1.0])
    for other in ("1", None, 1j, object()):
        with pytest.raises(InputError, match=f"add got b of type {type(other).__name__}"):
            x + other


def test_integers_of_64_bits_without_a_sign_are_refused_where_they_might_wrap() -> None:
    huge = Tensor(np.array([2**64 - 1], np.uint64))
    with pytest.raises(InputError, match=r"add got a of dtype uint64, but it computes in int64; convert it"):
        huge + 1
    assert huge.max().item() == 2**64 - 1
    assert huge.sqrt().item() == pytest.approx(2**32)


def test_conversion_gives_the_dtype_that_was_asked_for() -> None:
    for given, wanted in (([1, 2], "float64"), ([1, 2], "float16"), ([1.5], "int32"), ([True], "float64")):
        assert Tensor(given).astype(wanted).dtype == wanted


def test_a_list_of_tensors_is_not_taken_for_one_argument() -> None:
    a, b = Tensor([1.0, 2.0]), Tensor([3.0, 4.0])
    for join in (ops.concatenate, ops.stack):
        with pytest.raises(InputError, match=rf"{join.__name__} got a list of tensors; give them one by one"):
            join([a, b])
    assert np.concatenate([a, b]).tolist() == [1, 2, 3, 4]


def test_a_condition_has_no_say_in_the_dtype() -> None:
    condition, large = Tensor([1.0, 0.0]), 2**24 + 1  # which is no float32
    assert ops.where(condition, Tensor([large, 2]), Tensor([3, 4])).tolist() == [large, 4]
    a, b = (Tensor([each, each], dtype="float64") for each in (1.0, 2.0))
    assert ops.where(condition, a, b).dtype == np.float64


def test_data_that_is_no_array_of_numbers_is_refused() -> None:
    for make in (
        lambda: Tensor([[1, 2], [3]], dtype="float32"),
        lambda: Tensor(["a"], dtype="float32"),
        lambda: ops.add(Tensor([1.0]), [[1, 2], [3]]),
    ):
        with pytest.raises(InputError, match="a Tensor cannot be made of this data"):
            make()


def test_integers_of_more_than_64_bits_are_numbers() -> None:
    assert (Tensor([1.0]) / 10**20).tolist() == [np.float32(1e-20)]
    assert Tensor([1.0, 10**20]).tolist() == [1, np.float32(1e20)]
    with pytest.raises(InputError, match="a Tensor cannot be made of this data: int too large"):
        Tensor([10**400])
    with pytest.raises(InputError, match="it takes tensors, arrays and numbers"):
        ops.add(Tensor([1.0]), [10**20, "a"])
