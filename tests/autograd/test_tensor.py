"""What a Tensor is made of, and how it lives beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import GraphError, InputError, ShapeError, Tensor, no_grad, ops


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, np.float32),
        ([1.0, 2.0], np.float32),
        ([1, 2], np.int64),
        ([True], np.bool_),
        (np.zeros(2), np.float64),
        (np.float64(1), np.float64),
        (np.zeros(2, np.float32), np.float32),
        (np.zeros(2, np.int32), np.int32),
    ],
)
def test_dtypes(data: Any, dtype: Any) -> None:
    assert Tensor(data).dtype == dtype
    assert Tensor(Tensor(data)).dtype == dtype
    assert Tensor(data, dtype="float64").dtype == np.float64


def test_only_numbers() -> None:
    with pytest.raises(InputError, match="holds numbers"):
        Tensor(["a"])


@pytest.mark.parametrize("data", [[1, 2], [True]])
def test_whole_numbers_cannot_learn(data: Any) -> None:
    with pytest.raises(InputError, match=r"dtype (int64|bool) cannot have a gradient.*float"):
        Tensor(data, requires_grad=True)


def test_backward_asks_for_what_it_needs() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GraphError, match="requires_grad=True"):
        Tensor([1.0]).backward()
    with no_grad(), pytest.raises(GraphError, match="no_grad"):
        (x * 2).backward()
    with pytest.raises(ShapeError, match=r"shape \(2,\) needs a gradient"):
        (x * 2).backward()
    with pytest.raises(ShapeError, match=r"shape \(3,\) for a tensor of shape \(2,\)"):
        (x * 2).backward(np.ones(3))


def test_gradient_of_a_leaf_itself() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    assert x.grad is None
    x.backward([3.0, 4.0])
    x.backward(Tensor([1.0, 1.0]))
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 5.0]
    x.zero_grad()
    assert x.grad.tolist() == [0.0, 0.0]


def test_setting_data_and_gradient_checks_shapes() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(ShapeError, match=r"\(3,\) cannot replace data of shape \(2,\)"):
        x.data = np.zeros(3)
    with pytest.raises(ShapeError, match="does not fit"):
        x.grad = np.zeros(2)  # float64
    with pytest.raises(GraphError, match="only a leaf"):
        (x * 2).grad = np.zeros(2, np.float32)


def test_operators_mean_the_operations() -> None:
    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    x, y = Tensor(a), Tensor(b)
    results = {
        "add": (x + y, a + b),
        "radd": (1 + x, 1 + a),
        "sub": (x - y, a - b),
        "rsub": (1 - x, 1 - a),
        "mul": (x * y, a * b),
        "rmul": (2 * x, 2 * a),
        "div": (x / y, a / b),
        "rdiv": (1 / x, 1 / a),
        "matmul": (x @ y, a @ b),
        "rmatmul": (np.eye(2) @ x, a),
        "neg": (-x, -a),
        "pow": (x**2, a**2),
        "less": (x < 2, a < 2),
        "at least": (x >= 2, a >= 2),
        "equal": (x == 2, a == 2),
        "not equal": (x != y, a != b),
        "mean": (x.mean(), a.mean()),
        "T": (Tensor(np.eye(2, 3)).T, np.eye(2, 3).T),
    }
    for name, (got, wanted) in results.items():
        np.testing.assert_array_equal(got.data, wanted, err_msg=name)


def test_an_array_and_a_tensor_make_a_tensor_with_a_gradient() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    array = np.array([3.0, 4.0], np.float32)
    for result in (array + x, array * x, array - x, array / x, np.exp(x), np.add(array, x), -np.tanh(x)):
        assert isinstance(result, Tensor)
        assert result.requires_grad
        assert result.dtype == np.float32
    (array * x).sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 4.0]
    assert isinstance(array < x, Tensor)


def test_float64_numbers_do_not_widen_a_float32_tensor() -> None:
    x = Tensor([1.0], requires_grad=True)
    for number in (0.5, 2, np.float64(0.5), np.ones(1), True):
        assert (x * number).dtype == np.float32, number
    with pytest.raises(InputError, match=r"multiply got tensors of dtype float32 and float64.*astype"):
        x * Tensor(np.ones(1))


def test_numpy_functions_without_a_gradient_say_so() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(InputError, match=r"np\.sin does not know gradients.*detach"):
        np.sin(x)
    with pytest.raises(InputError, match=r"np\.add does not know gradients"):
        np.add.reduce(x)
    with pytest.raises(InputError, match=r"requires a gradient.*detach\(\)\.numpy\(\)"):
        np.asarray(x)
    assert np.asarray(x.detach()) is not None
    assert np.asarray(Tensor([1.0]), dtype="float64").dtype == np.float64


def test_detach_shares_memory_and_is_cut_off() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    y = x.detach()
    assert y.data is x.data
    assert not y.requires_grad
    assert not (y * 2).requires_grad


def test_plain_python_values() -> None:
    x = Tensor([[1.5]])
    assert (x.item(), float(x), int(x), bool(x), x.tolist(), len(x)) == (1.5, 1.5, 1, True, [[1.5]], 1)
    assert isinstance(Tensor(3).item(), int)
    with pytest.raises(ShapeError, match=r"one element; this one has shape \(2,\)"):
        Tensor([1.0, 2.0]).item()


def test_iteration_ends() -> None:
    assert [row.tolist() for row in Tensor([[1.0, 2.0], [3.0, 4.0]])] == [[1.0, 2.0], [3.0, 4.0]]
    first, second = Tensor([5, 6])
    assert (first.item(), second.item()) == (5, 6)


def test_repr_tells_values_dtype_and_gradient() -> None:
    assert repr(Tensor([1.0], requires_grad=True)) == "Tensor([1.], dtype=float32, requires_grad=True)"
    assert repr(Tensor(1)) == "Tensor(1, dtype=int64)"


def test_tensors_are_hashable_by_identity() -> None:
    x, y = Tensor([1.0]), Tensor([1.0])
    assert len({x, y, x}) == 2


def test_a_tensor_over_another_tensors_memory_shares_its_version() -> None:
    a = Tensor([1.0, 2.0], requires_grad=True)
    h = a * 2
    y = h * h
    Tensor(h)[0] = 100.0
    with pytest.raises(GraphError, match="changed in place"):
        y.sum().backward()


def test_whole_numbers_and_python_numbers_do_not_leave_float32() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    whole = Tensor([3, 4])
    for y in (
        x * whole,
        ops.concatenate(x, whole),
        ops.where(Tensor([True, False]), x, whole),
        x @ whole,
        x * ((x > 1.5) * 2.0),
        np.power(x, np.float64(2)),
    ):
        assert y.dtype == np.float32
        y.sum().backward()
    assert whole.mean().dtype == np.float32
    assert (whole / 3).dtype == np.float32


def test_whole_numbers_where_only_real_ones_make_sense_are_refused() -> None:
    for wrong in (Tensor([1, 2, 3]).softmax, lambda: ops.gelu(Tensor([1, 2])), Tensor(np.float16([1, 2])).softmax):
        with pytest.raises(InputError, match="float32 or float64"):
            wrong()


def test_rounding_to_whole_numbers_ends_the_gradient() -> None:
    assert not Tensor([1.5, 2.5], requires_grad=True).astype("int64").requires_grad
