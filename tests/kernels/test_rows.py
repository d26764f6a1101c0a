"""The layout that kernels work on: whatever comes in, they get contiguous, writable rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import InputError
from minigrad.kernels.rows import rows_of


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("shape", "width", "rows"),
    [((3, 4), None, (3, 4)), ((2, 3, 4), None, (6, 4)), ((2, 3, 4), 12, (2, 12)), ((5,), None, (1, 5))],
)
def test_leading_axes_become_rows_without_a_copy(dtype: Any, shape: Any, width: int | None, rows: Any) -> None:
    x = np.zeros(shape, dtype)
    y = rows_of(x, width)
    assert y.shape == rows
    assert np.shares_memory(x, y)


@pytest.mark.parametrize(("shape", "rows"), [((0, 4), (0, 4)), ((4, 0), (0, 0)), ((2, 0, 3), (0, 3))])
def test_empty_arrays_have_no_rows(shape: Any, rows: Any) -> None:
    assert rows_of(np.zeros(shape)).shape == rows


def _read_only(x: Any) -> Any:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


@pytest.mark.parametrize(
    "lay",
    [
        lambda x: np.asfortranarray(x),
        lambda x: np.repeat(x, 2, axis=0)[::2],
        lambda x: np.ascontiguousarray(x[:, ::-1])[:, ::-1],
        _read_only,
    ],
    ids=["transposed", "strided", "reversed", "read-only"],
)
def test_other_layouts_are_copied_and_equal(lay: Any) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    laid = lay(x)
    y = rows_of(laid)
    assert not np.shares_memory(laid, y)
    assert y.flags.c_contiguous
    assert y.flags.writeable
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("dtype", ["int64", "float16", ">f4", "complex64"])
def test_other_types_are_refused(dtype: str) -> None:
    with pytest.raises(InputError, match=r"expected an array of float32 or float64, got .*; use .astype\('float32'\)"):
        rows_of(np.zeros((2, 2), dtype))
