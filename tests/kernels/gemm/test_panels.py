"""The matrix product in blocks: any shape, any layout, the same bits on any number of threads."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import types
from numpy.typing import NDArray

from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SPLIT, Block
from minigrad.kernels.gemm import panels
from minigrad.kernels.gemm.panels import multiply
from minigrad.kernels.threads import set_threads
from tests.kernels.codegen.twins import rounded

Array = NDArray[Any]

BLOCKS = [block for block in (FLOAT32, BFLOAT16, SPLIT) if block is not None]
every_block = pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.kind}-{block.parts}")
with_tiles = pytest.mark.skipif(SPLIT is None, reason="this processor has no tile registers")
UNIT = {"float32": 2.0**-24, "bfloat16": 2.0**-8}  # half the distance from 1 to the next one

sides = st.sampled_from([0, 1, 2, 3, 7, 11, 12, 13, 31, 32, 33, 65, 100])
depths = st.sampled_from([0, 1, 2, 15, 33, 511, 512, 513, 1_023, 1_025, 1_030, 2_100])  # words may hold two steps
seeds = st.integers(0, 2**16)


def factors(m: int, k: int, n: int, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, k)).astype(np.float32), rng.normal(size=(k, n)).astype(np.float32)


def product(a: Array, b: Array, block: Block) -> Array:
    """Multiply into an array of NaN, which shows what was not written."""
    out = np.full((a.shape[0], b.shape[1]), np.nan, np.float32)
    multiply(a, b, out, block)
    return out


def as_multiplied(x: Array, block: Block) -> Array:
    """Return the elements as they are multiplied, in float64: rounded, if the block holds one bfloat16 part."""
    return ((rounded(x) << 16).view(np.float32) if block.parts == 1 else x).astype(np.float64)


def assert_within(got: Array, wanted: Array, size: Array, unit: float) -> None:
    """`size` is |a| @ |b|: terms that cancel in the sum have been rounded too."""
    assert got.shape == wanted.shape
    assert (np.abs(got - wanted) <= unit * size).all()


def allowed(depth: int, block: Block) -> float:
    """Return the error that a sum may have; three parts leave out products of up to 2^-22, which short sums show."""
    return (depth + 2 + (4 if block.parts == 3 else 0)) * UNIT["float32"]


def check_product(a: Array, b: Array, block: Block) -> None:
    x, y = as_multiplied(a, block), as_multiplied(b, block)
    # Products of rounded factors are exact in float32, so that what is left are the roundings of the sum.
    assert_within(product(a, b, block), x @ y, np.abs(x) @ np.abs(y), allowed(a.shape[1], block))


@every_block
@given(m=sides, k=depths, n=sides, seed=seeds)
def test_the_product_is_that_of_float64(block: Block, m: int, k: int, n: int, seed: int) -> None:
    check_product(*factors(m, k, n, seed), block)


@every_block
@pytest.mark.parametrize("shape", [(700, 1_100, 40), (40, 1_100, 700), (3, 40, 3_000), (3_000, 40, 3), (70, 9, 2_100)])
def test_more_panels_than_a_cache_holds(block: Block, shape: tuple[int, int, int]) -> None:
    check_product(*factors(*shape), block)


@every_block
def test_panels_that_do_not_fit_into_the_second_level_cache_are_packed_in_groups(block: Block) -> None:
    assert (
        max(panels._WORDS, panels._TILE_WORDS, panels._SPLIT_WORDS) < 1_200 * 512
    )  # columns of the shorter side times words at a time
    check_product(*factors(1_300, 520, 1_200), block)
    check_product(*factors(1_200, 520, 1_300), block)


@pytest.mark.skipif(BFLOAT16 is None, reason="this processor multiplies no bfloat16")
@given(m=sides, k=depths, n=sides, seed=seeds)
def test_the_error_of_bfloat16_is_that_of_rounding_the_factors(m: int, k: int, n: int, seed: int) -> None:
    assert BFLOAT16 is not None
    a, b = (x.astype(np.float64) for x in factors(m, k, n, seed))
    unit = UNIT["bfloat16"]
    allowed = (1 + unit) ** 2 * (1 + (k + 2) * UNIT["float32"]) - 1
    got = product(a.astype(np.float32), b.astype(np.float32), BFLOAT16)
    assert_within(got, a @ b, np.abs(a) @ np.abs(b), allowed)


@pytest.mark.skipif(BFLOAT16 is None, reason="this processor multiplies no bfloat16")
def test_the_bound_for_bfloat16_is_not_loose() -> None:
    assert BFLOAT16 is not None
    a, b = factors(64, 64, 64)
    error = np.abs(product(a, b, BFLOAT16) - a.astype(np.float64) @ b) / (np.abs(a) @ np.abs(b))
    assert error.max() > 1e-4  # the factors were rounded: float32 would be a thousand times closer


@with_tiles
@pytest.mark.parametrize("k", [16, 100, 576, 2_100])
@given(seed=seeds, exponent=st.integers(-45, 50))
def test_three_parts_are_closer_to_the_true_product_than_float32(k: int, seed: int, exponent: int) -> None:
    """Splitting the factors costs no accuracy: BLAS rounds every term of a sum, the tiles every second one."""
    assert SPLIT is not None
    a, b = (x * np.float32(2.0**exponent) for x in factors(70, k, 70, seed))
    true = a.astype(np.float64) @ b
    split, blas = (np.abs(y - true).sum() for y in (product(a, b, SPLIT), a @ b))
    assert split < 0.95 * blas


@with_tiles
def test_the_largest_float32_are_multiplied_too() -> None:
    assert SPLIT is not None
    largest = np.finfo(np.float32).max
    a, b = np.full((3, 1), largest), np.array([[1.0, -0.5, 0.0]], np.float32)
    np.testing.assert_array_equal(product(a, b, SPLIT), a @ b)


def _every_second(x: Array) -> Array:
    wide = np.full((2 * x.shape[0], 3 * x.shape[1]), np.nan, np.float32)
    wide[::2, ::3] = x
    return wide[::2, ::3]


def _backwards(x: Array) -> Array:
    return np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]


def _read_only(x: Array) -> Array:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


def _unaligned(x: Array) -> Array:
    view = np.zeros(x.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(x.shape)
    view[...] = x
    assert not view.flags.aligned or not x.size
    return view


def _inside(x: Array) -> Array:
    """Return rows that do not begin where a cache line does, with NaN all around."""
    wide = np.full((x.shape[0] + 2, x.shape[1] + 5), np.nan, np.float32)
    wide[1:-1, 3:-2] = x
    return wide[1:-1, 3:-2]


LAYOUTS: dict[str, Any] = {
    "transposed": lambda x: np.ascontiguousarray(x.T).T,
    "every second": _every_second,
    "backwards": _backwards,
    "read-only": _read_only,
    "read-only and transposed": lambda x: _read_only(x.T).T,
    "unaligned": _unaligned,
    "unaligned and transposed": lambda x: _unaligned(x.T).T,
    "inside": _inside,
    "one row for all": lambda x: np.broadcast_to(x[:1], x.shape),
}


@every_block
@given(m=sides, k=depths, n=sides, seed=seeds, names=st.tuples(*[st.sampled_from(sorted(LAYOUTS))] * 2))
def test_how_the_factors_lie_in_memory_changes_no_bit(
    block: Block, m: int, k: int, n: int, seed: int, names: tuple[str, str]
) -> None:
    a, b = (LAYOUTS[name](x) for name, x in zip(names, factors(m, k, n, seed), strict=True))
    kept = a.copy(), b.copy()
    assert product(a, b, block).tobytes() == product(np.array(a, order="C"), np.array(b, order="C"), block).tobytes()
    assert [x.tobytes() for x in (a, b)] == [x.tobytes() for x in kept]


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.skipif(not BLOCKS, reason="this processor has no vector registers that our matrix product knows")
def test_no_layout_compiles_the_product_again() -> None:
    for lay in LAYOUTS.values():
        for block in BLOCKS:
            product(*map(lay, factors(13, 20, 13)), block)
    kernel: Any = panels.multiply_panels
    assert len({tuple(map(types.unliteral, signature)) for signature in kernel.signatures}) == 1  # one for all blocks


@pytest.mark.usefixtures("_restore_pool")
@every_block
@pytest.mark.parametrize("shape", [(300, 1_100, 70), (70, 1_100, 300), (130, 700, 130), (1_000, 513, 33)])
def test_the_same_bits_on_any_number_of_threads(
    block: Block, shape: tuple[int, int, int], shared_loops: list[int]
) -> None:
    a, b = factors(*shape)
    results = []
    for count in (1, 2, 3):
        set_threads(count)
        results += [product(a, b, block).tobytes() for _ in range(2)]
    assert len(set(results)) == 1
    assert set(shared_loops) == {2, 3}


@every_block
def test_infinity_and_nan_stay_in_their_row_and_column(block: Block) -> None:
    a, b = factors(14, 70, 35)
    a[3, 5], b[7, 33] = np.nan, np.inf
    got = product(a, b, block)
    touched = np.zeros(got.shape, bool)
    touched[3], touched[:, 33] = True, True
    assert np.isnan(got[3]).all()
    infinite = np.delete(got[:, 33], 3)
    assert (np.isnan(infinite) if block is SPLIT else np.isinf(infinite)).all()  # the parts of infinity are NaN
    clean = product(*factors(14, 70, 35), block)
    np.testing.assert_array_equal(got[~touched], clean[~touched])


def test_a_sum_that_lacks_one_step_is_caught() -> None:
    a, b = factors(5, 40, 6)
    wanted, size = a.astype(np.float64) @ b, np.abs(a).astype(np.float64) @ np.abs(b)
    wrong = (a[:, 1:] @ b[1:]).astype(np.float32)  # one step of the sum is missing
    with pytest.raises(AssertionError):
        assert_within(wrong, wanted, size, 42 * UNIT["float32"])
