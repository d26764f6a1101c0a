"""The laws that every operation in the table must keep, one function per law."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad import InputError, Tensor
from minigrad.autograd import gradcheck
from tests.op_table import Case, Row

Array = NDArray[Any]
Op = Callable[..., Tensor]


def run(op: Op, case: Case) -> tuple[Array, list[Array | None]]:
    """Run forward and backward; return the result and each argument's gradient."""
    tensors = [Tensor(array, requires_grad=array.dtype.kind == "f") for array in case.arrays]
    result = op(*tensors, **case.options)
    result.backward(weights(result.shape))
    return result.data, [tensor.grad for tensor in tensors]


def weights(shape: tuple[int, ...]) -> Array:
    """Return an arriving gradient whose elements all differ."""
    return np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape)


def check_forward(op: Op, row: Row, case: Case) -> None:
    """Compare with NumPy: same shape, same dtype, same values."""
    expected = np.asarray(row.reference(*case.arrays, **case.options))
    result = op(*map(Tensor, case.arrays), **case.options).data
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype == np.float64
    np.testing.assert_allclose(result, expected, rtol=1e-11, atol=1e-11)


def check_gradient(op: Op, case: Case) -> None:
    """Compare with central differences."""
    gradcheck.check(lambda *tensors: op(*tensors, **case.options), *case.arrays)


def check_inputs_unchanged(op: Op, case: Case) -> None:
    """Neither forward nor backward may write into its arguments."""
    before = [array.copy() for array in case.arrays]
    run(op, case)
    for array, copy in zip(case.arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


def check_float32(op: Op, case: Case, keeps_dtype: bool = True) -> None:
    """Neither forward nor backward may turn float32 into float64, and the values must be close to those of float64."""
    single = Case(tuple(a.astype(np.float32) if a.dtype.kind == "f" else a for a in case.arrays), case.options)
    result, gradients = run(op, single)
    wanted, wanted_gradients = run(op, case)
    if keeps_dtype:
        assert result.dtype == np.float32, f"float32 became {result.dtype}"
    _assert_close(result, wanted, 1e-4)
    for array, gradient, expected in zip(single.arrays, gradients, wanted_gradients, strict=True):
        assert (gradient is None) == (expected is None)
        if gradient is not None and expected is not None:
            assert (gradient.dtype, gradient.shape) == (np.float32, array.shape)
            _assert_close(gradient, expected, 1e-4)


def check_any_layout(op: Op, case: Case) -> None:
    """Strided and read-only arrays must give what contiguous ones give."""
    result, gradients = run(op, case)
    strided = Case(tuple(strided_and_read_only(array) for array in case.arrays), case.options)
    strided_result, strided_gradients = run(op, strided)
    _assert_close(strided_result, result, 1e-13)
    for gradient, expected in zip(strided_gradients, gradients, strict=True):
        assert (gradient is None) == (expected is None)
        if gradient is not None and expected is not None:
            _assert_close(gradient, expected, 1e-13)


def strided_and_read_only(array: Array) -> Array:
    """Return an equal array that is read-only and skips every second element of a larger one."""
    larger = np.zeros([2 * size for size in array.shape], array.dtype)
    view = larger[(..., *[slice(None, None, 2)] * array.ndim)]
    view[...] = array
    view.flags.writeable = False
    return view


def check_special_values(op: Op, row: Row, special: Case, formula_is_finite: bool = True) -> None:
    """NaN, infinities and zeros give what NumPy gives, and in float32 the same as in float64, gradients included.

    Unless `formula_is_finite`, the formula multiplies by 0 what the operation leaves out, which makes NaN of infinity;
    its NaNs are not compared.
    """
    single = Case(tuple(a.astype(np.float32) if a.dtype.kind == "f" else a for a in special.arrays), special.options)
    with np.errstate(all="ignore"):
        result, gradients = run(op, special)
        expected = np.asarray(row.reference(*special.arrays, **special.options))
        single_result, single_gradients = run(op, single)
    compared = np.ones(expected.shape, bool) if formula_is_finite else ~np.isnan(expected)
    _assert_close(result[compared], expected[compared], 1e-9)
    _assert_close(single_result, result, 1e-3)
    for gradient, wanted in zip(single_gradients, gradients, strict=True):
        assert (gradient is None) == (wanted is None)
        if gradient is not None and wanted is not None:
            _assert_close(gradient, wanted, 1e-3)


SPECIAL_VALUES = (np.nan, 0.0, -0.0, np.inf, -np.inf)


def with_special_values(case: Case, seed: int, values: Sequence[float] = SPECIAL_VALUES) -> Case:
    """Return the case with up to two elements of each float array replaced by special values."""
    rng, arrays = np.random.default_rng(seed), []
    for array in case.arrays:
        if array.dtype.kind == "f" and array.size:
            array = array.copy()
            places = rng.integers(0, array.size, 2)
            array.reshape(-1)[places] = rng.choice(values, 2)
        arrays.append(array)
    return Case(tuple(arrays), case.options)


DTYPES = ("bool", "int8", "uint8", "int32", "uint64", ">i4", "float16", "longdouble", ">f4", ">f8")


def check_dtype(op: Op, case: Case, dtype: str) -> None:
    """An argument of any other dtype gives the same as in float64, or is refused by its name with the way out."""
    narrow = Case(tuple(small_integers(array, dtype) for array in case.arrays), case.options)
    is_float = [array.dtype.kind == "f" for array in case.arrays]
    arrays = zip(narrow.arrays, is_float, strict=True)
    wide = Case(tuple(array.astype(np.float64) if convert else array for array, convert in arrays), case.options)
    has_gradients = np.dtype(dtype).kind == "f"
    with np.errstate(all="ignore"):
        try:
            result, gradients = run(op, narrow) if has_gradients else (forward(op, narrow), [])
        except InputError as error:
            assert np.dtype(dtype).isnative or not has_gradients, "another byte order is no other dtype"
            message = str(error)
            assert all(part in message for part in (op.__name__, f"of dtype {np.dtype(dtype).newbyteorder('=')}"))
            assert "convert it" in message
            return
        wanted, wanted_gradients = run(op, wide) if has_gradients else (forward(op, wide), [])
    assert result.dtype.isnative
    _assert_close(result, wanted, 1e-3)
    for gradient, expected in zip(gradients, wanted_gradients, strict=True):
        assert (gradient is None) == (expected is None)
        if gradient is not None and expected is not None:
            _assert_close(gradient, expected, 1e-3)


def forward(op: Op, case: Case) -> Array:
    """Return the result alone."""
    return op(*map(Tensor, case.arrays), **case.options).data


def small_integers(array: Array, dtype: str) -> Array:
    """Return a float array as integers from 1 to 5, or as booleans, of the given dtype; another array as it is."""
    if array.dtype.kind != "f":
        return array
    return (array > 0 if dtype == "bool" else np.clip(np.abs(np.rint(array)), 1, 5)).astype(dtype)


def _assert_close(got: Array, wanted: Array, tolerance: float) -> None:
    # Relative to the largest value: where large terms cancel, a small difference cannot be more accurate than they are.
    scale = max(1.0, float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0)))
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * scale)
