"""The matmul backend: one choice for the whole process, which every product follows and float64 ignores."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import InputError, Tensor, ops
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SPLIT, Block
from minigrad.kernels.gemm import backend as products
from minigrad.kernels.gemm.panels import multiply
from tests.kernels.codegen.twins import rounded
from tests.op_table import TABLE

Array = NDArray[Any]
pytestmark = pytest.mark.usefixtures("_restore_products")

BACKENDS = [backend for backend in products.BACKENDS if backend != "numba" or FLOAT32 is not None]
CHOICES = [(backend, precision) for backend in BACKENDS for precision in products.PRECISIONS]
every_choice = pytest.mark.parametrize("choice", CHOICES, ids="-".join)
every_arithmetic = pytest.mark.parametrize("choice", [each for each in CHOICES if each[1] != "float64"], ids="-".join)
"""The choices that differ in how they multiply float32: float64 multiplies it as float32 does, which a test checks."""
by_hand = pytest.mark.skipif(FLOAT32 is None, reason="our own loops have no block for this processor")
sides = st.sampled_from([0, 1, 2, 5, 33, 64, 70])
seeds = st.integers(0, 2**16)


@pytest.fixture(autouse=True, scope="module")
def _choice_is_unchanged() -> Iterator[None]:
    before = products.in_use()
    yield
    assert products.in_use() == before


def factors(m: int, k: int, n: int, seed: int = 0, dtype: Any = np.float32) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(k, n)).astype(dtype)


def exact(a: Array, b: Array, precision: str) -> tuple[Array, Array]:
    """Return the product that is wanted, and |a| @ |b|, in float64."""
    if precision == "bfloat16" and a.dtype == np.float32:
        a, b = ((rounded(x) << 16).view(np.float32) for x in (a, b))
    a, b = a.astype(np.float64), b.astype(np.float64)
    return a @ b, np.abs(a) @ np.abs(b)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gpu",), "unknown backend of matrix products 'gpu'. Known: auto, blas, numba"),
        (("blas", "float16"), "unknown precision of matrix products 'float16'; did you mean 'bfloat16'?"),
        (("", ""), "unknown backend of"),
    ],
)
def test_an_unknown_name_is_refused_and_the_choice_stays(arguments: tuple[str, ...], message: str) -> None:
    products.use("blas", "bfloat16")
    with pytest.raises(InputError, match=message):
        products.use(*arguments)
    assert products.in_use() == ("blas", "bfloat16")


def test_a_choice_of_its_own_ends_with_its_block() -> None:
    before = products.in_use()
    with products.own_choice():
        products.use("blas", "bfloat16")
        assert products.in_use() == ("blas", "bfloat16")
    assert products.in_use() == before
    with contextlib.suppress(KeyError), products.own_choice():
        products.use("blas", "bfloat16")
        raise KeyError
    assert products.in_use() == before


def test_without_arguments_the_faster_backend_multiplies_in_float32() -> None:
    products.use("blas", "bfloat16")
    products.use()
    assert products.in_use() == ("auto", "float32")


@pytest.mark.parametrize("shape", [(20, 200, 400), (400, 200, 20), (63, 64, 64)])
@pytest.mark.parametrize("backend", ["auto", "blas"])
def test_small_products_are_left_to_blas(backend: str, shape: tuple[int, int, int]) -> None:
    products.use(backend)
    a, b = factors(*shape)
    assert products.goes_to_blas(a, b)
    assert products.product(a, b).tobytes() == (a @ b).tobytes()


def test_large_products_are_computed_in_tiles_where_there_are_any(monkeypatch: Any) -> None:
    a, b = factors(64, 70, 65)
    if SPLIT is not None:
        with_tiles = np.empty((64, 65), np.float32)
        multiply(a, b, with_tiles, SPLIT)
        assert not products.goes_to_blas(a, b)
        assert products.goes_to_blas(a.astype(np.float64), b.astype(np.float64))
        assert products.product(a, b).tobytes() == with_tiles.tobytes()
    monkeypatch.setattr(products, "SPLIT", None)
    monkeypatch.setattr(products.blas, "openblas_core", lambda: "")
    assert products.goes_to_blas(a, b)
    assert products.product(a, b).tobytes() == (a @ b).tobytes()


@pytest.mark.skipif(FLOAT32 is None or FLOAT32.lanes < 16, reason="this processor has no AVX-512")
@pytest.mark.parametrize("shape", [(100, 200, 100), (100, 199, 100), (4, 1_000, 1_000)])
def test_where_openblas_has_slower_kernels_our_own_loops_multiply_from_some_size_on(
    monkeypatch: Any, shape: tuple[int, int, int]
) -> None:
    blocks: list[Block] = []

    def noted(a: Array, b: Array, out: Array, block: Block) -> Any:
        blocks.append(block)
        return multiply(a, b, out, block)

    monkeypatch.setattr(products, "SPLIT", None)
    monkeypatch.setattr(products, "multiply", noted)
    a, b = factors(*shape)
    monkeypatch.setattr(products, "OWN_LOOPS_FROM", {"slow": 2_000_000, "slower": 0})
    for core, size in (("slow", 2_000_000), ("slower", 0), ("fast", np.inf), ("", np.inf)):
        blocks.clear()
        monkeypatch.setattr(products.blas, "openblas_core", lambda core=core: core)
        np.testing.assert_allclose(products.product(a, b), a @ b, rtol=1e-4, atol=1e-4)
        wanted = [FLOAT32] if len(a) > 4 and a.size * b.shape[1] >= size else []
        assert blocks == wanted
        assert products.goes_to_blas(a, b) == (not wanted)


@every_choice
@given(m=sides, k=sides, n=sides, seed=seeds)
def test_every_choice_multiplies(choice: tuple[str, str], m: int, k: int, n: int, seed: int) -> None:
    products.use(*choice)
    a, b = factors(m, k, n, seed)
    wanted, size = exact(a, b, choice[1])
    in_parts = SPLIT is not None and choice[0] != "blas" and choice[1] != "bfloat16"
    allowed = (k + 3 + 4 * in_parts) * 2.0**-24  # products of three parts leave a little out
    before = np.random.default_rng(seed).normal(size=(m, n)).astype(np.float32)
    for out in (np.full((m, n), np.nan, np.float32), np.full((n, m), np.nan, np.float32).T):
        products.product_into(a, b, out, False)
        assert (np.abs(out - wanted) <= allowed * size).all()
        out[...] = before
        products.product_into(a, b, out, True)
        assert (np.abs(out - (wanted + before)) <= allowed * (size + np.abs(before))).all()
    y = products.product(a, b)
    assert y.dtype == np.float32
    assert (np.abs(y - wanted) <= allowed * size).all()
    transposed = products.product(b.T, a.T)
    assert (np.abs(transposed.T - wanted) <= allowed * size).all()


@pytest.mark.parametrize("backend", BACKENDS)
@given(m=sides, k=sides, n=sides, seed=seeds)
@example(m=140, k=150, n=140, seed=0)  # large enough for loops of our own and for products in parts
def test_float32_is_multiplied_alike_where_float64_is_chosen(backend: str, m: int, k: int, n: int, seed: int) -> None:
    found = set()
    for precision in ("float32", "float64"):
        products.use(backend, precision)
        found.add(products.product(*factors(m, k, n, seed)).tobytes())
    assert len(found) == 1


@every_choice
@given(m=sides, k=sides, n=sides, seed=seeds)
def test_float64_is_multiplied_in_full_whatever_is_chosen(
    choice: tuple[str, str], m: int, k: int, n: int, seed: int
) -> None:
    products.use(*choice)
    a, b = factors(m, k, n, seed, np.float64)
    out = np.ones((m, n))
    products.product_into(a, b, out, True)
    assert products.product(a, b).tobytes() == (a @ b).tobytes()
    np.testing.assert_array_equal(out, 1 + a @ b)


@every_arithmetic
@pytest.mark.parametrize("name", ["matmul", "linear", "swiglu_linear", "linear_cross_entropy"])
@given(data=st.data())
def test_ops_and_their_gradients_follow_the_choice(choice: tuple[str, str], name: str, data: st.DataObject) -> None:
    """Compare with the same op in float64; the tolerance of bfloat16 is what training needs."""
    case = data.draw(TABLE[name].cases)
    function = getattr(ops, name)
    products.use()
    y, gradients = value_and_gradients(function, case.arrays, case.options)
    assume(np.isfinite(y).all())
    products.use(*choice)
    # Sums of a few terms of sizes around 1: a unit of bfloat16 for each factor, some of them in a row.
    tolerance = 1e-4 if choice[1] != "bfloat16" else 0.15
    again, again_gradients = value_and_gradients(function, [_single(x) for x in case.arrays], case.options)
    scale = max(1.0, *(np.abs(x).max(initial=0) for x in (y, *gradients)))
    assert again.dtype == np.float32
    np.testing.assert_allclose(again, y, rtol=0, atol=tolerance * scale)
    for got, wanted in zip(again_gradients, gradients, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=0, atol=tolerance * scale)


def _single(x: Array) -> Array:
    return x.astype(np.float32) if x.dtype == np.float64 else x


def value_and_gradients(function: Any, arrays: Any, options: Any) -> tuple[Array, list[Array]]:
    tensors = [Tensor(np.array(x), requires_grad=x.dtype.kind == "f") for x in arrays]
    y = function(*tensors, **options)
    y.backward(np.ones(y.shape))
    return y.data, [t.grad for t in tensors if t.grad is not None]


@pytest.mark.skipif(BFLOAT16 is None, reason="this processor multiplies no bfloat16")
@pytest.mark.parametrize("backend", products.BACKENDS)
@given(m=sides, k=st.sampled_from([1, 2, 33, 70, 1_100]), n=sides, seed=seeds)
def test_without_the_instructions_products_are_equal_up_to_the_order_of_sums(
    backend: str, m: int, k: int, n: int, seed: int
) -> None:
    a, b = factors(m, k, n, seed)
    products.use(backend, "bfloat16")
    hardware = products.product(a, b)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "BFLOAT16", None)
        emulated = products.product(a, b)
        added = np.ones_like(emulated)
        products.product_into(a, b, added, True)
    _, size = exact(a, b, "bfloat16")
    assert (np.abs(hardware.astype(np.float64) - emulated) <= 2 * (k + 2) * 2.0**-24 * size).all()
    assert (np.abs(added.astype(np.float64) - emulated - 1) <= (k + 3) * 2.0**-24 * (size + 1)).all()


def test_bfloat16_without_the_instructions_rounds_the_factors_and_not_the_result(monkeypatch: Any) -> None:
    monkeypatch.setattr(products, "BFLOAT16", None)
    products.use("blas", "bfloat16")
    coarse, fine = np.float32(1 + 2**-7), np.float32(1 + 2**-10)  # the second lies between two bfloat16 numbers
    a, b = np.array([[coarse, fine]], np.float32), np.array([[coarse], [fine]], np.float32)
    assert products.product(a, b)[0, 0] == coarse * coarse + 1


@pytest.mark.parametrize("precision", products.PRECISIONS)
def test_blas_stays_with_a_warning_where_our_own_loops_have_no_block(monkeypatch: Any, precision: str) -> None:
    monkeypatch.setattr(products, "FLOAT32", None)
    with pytest.warns(UserWarning, match="no vector registers that our matrix product knows; BLAS is used"):
        products.use("numba", precision)
    assert products.in_use() == ("blas", precision)
    a, b = factors(5, 6, 7)
    wanted, size = exact(a, b, precision)
    assert (np.abs(products.product(a, b) - wanted) <= 1e-6 * size).all()


@pytest.mark.parametrize(
    ("choice", "kind", "said"),
    [
        (("blas", "float32"), None, "float32 by BLAS"),
        (("auto", "float32"), None, "float32 by BLAS"),
        (("auto", "float32"), "split", "float32 by AMX tiles"),
        pytest.param(("auto", "float32"), "behind", "float32 by our own loops", marks=by_hand),
        (("blas", "float32"), "behind", "float32 by BLAS"),
        (("blas", "float32"), "split", "float32 by BLAS"),
        pytest.param(("numba", "float32"), "split", "float32 by AMX tiles", marks=by_hand),
        (("auto", "float64"), "split", "float64 by BLAS"),
        pytest.param(("numba", "float32"), None, "float32 by our own loops", marks=by_hand),
        (("blas", "float64"), None, "float64 by BLAS"),
        pytest.param(("numba", "float64"), None, "float64 by BLAS", marks=by_hand),
        (("blas", "bfloat16"), "tiles", "bfloat16 by AMX tiles"),
        (("blas", "bfloat16"), "bfloat16", "bfloat16 by AVX512-BF16"),
        (("blas", "bfloat16"), None, "float32 on factors rounded to bfloat16"),
    ],
)
def test_the_plan_describes_precision_and_backend(monkeypatch: Any, choice: Any, kind: str | None, said: str) -> None:
    monkeypatch.setattr(products, "SPLIT", Block("tiles", 32, 32, 16, parts=3) if kind == "split" else None)
    monkeypatch.setattr(products, "BFLOAT16", kind and Block(kind, 12, 32, 16))
    monkeypatch.setattr(products, "FLOAT32", FLOAT32 and replace(FLOAT32, lanes=16))
    monkeypatch.setattr(products.blas, "openblas_core", lambda: "Haswell" if kind == "behind" else "")
    products.use(*choice)
    assert products.describe() == said
