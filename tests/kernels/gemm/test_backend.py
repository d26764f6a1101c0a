"""Who multiplies: one choice for the whole process, that every product keeps to and float64 never notices."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import InputError, Tensor, ops
from minigrad.kernels import cpu as processor
from minigrad.kernels import jit
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SPLIT, Block
from minigrad.kernels.gemm import backend as products
from minigrad.kernels.gemm import panels as matmul
from minigrad.system import hardware
from tests.kernels.matmul_twins import rounded
from tests.op_table import TABLE

Array = NDArray[Any]

ROOT = Path(__file__).parents[3]
CHOICES = [(backend, precision) for backend in products.BACKENDS for precision in products.PRECISIONS]
every_choice = pytest.mark.parametrize("choice", CHOICES, ids="-".join)
by_hand = pytest.mark.skipif(FLOAT32 is None, reason="our own loops have no registers to work with")
sides = st.sampled_from([0, 1, 2, 5, 33, 64, 70])
seeds = st.integers(0, 2**16)


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_left() -> Iterator[None]:
    before = products.in_use()
    yield
    assert products.in_use() == before


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    yield
    products.use()


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
        (("gpu",), r"the backend of matrix products is one of auto, blas, numba, not 'gpu'"),
        (("blas", "float16"), r"the precision of matrix products is one of float32, bfloat16, float64, not 'float16'"),
        (("", ""), r"the backend of"),
    ],
)
def test_an_unknown_name_is_refused_and_the_choice_stays(arguments: tuple[str, ...], message: str) -> None:
    products.use("blas", "bfloat16")
    with pytest.raises(InputError, match=message):
        products.use(*arguments)
    assert products.in_use() == ("blas", "bfloat16")


def test_the_faster_one_in_float32_is_what_is_used_if_nobody_asks() -> None:
    products.use("blas", "bfloat16")
    products.use()
    assert products.in_use() == ("auto", "float32")


@pytest.mark.parametrize("shape", [(20, 300, 400), (400, 300, 20), (63, 64, 64)])
@pytest.mark.parametrize("backend", ["auto", "blas"])
def test_small_products_are_left_to_blas(backend: str, shape: tuple[int, int, int]) -> None:
    products.use(backend)
    a, b = factors(*shape)
    assert products.goes_to_blas(a, b)
    assert products.product(a, b).tobytes() == (a @ b).tobytes()


def test_large_products_go_to_the_tiles_where_there_are_any(monkeypatch: Any) -> None:
    a, b = factors(64, 70, 65)
    if SPLIT is not None:
        with_tiles = np.empty((64, 65), np.float32)
        matmul.multiply(a, b, with_tiles, SPLIT)
        assert not products.goes_to_blas(a, b)
        assert products.goes_to_blas(a.astype(np.float64), b.astype(np.float64))
        assert products.product(a, b).tobytes() == with_tiles.tobytes()
    monkeypatch.setattr(products, "SPLIT", None)
    assert products.goes_to_blas(a, b)
    assert products.product(a, b).tobytes() == (a @ b).tobytes()


@every_choice
@given(m=sides, k=sides, n=sides, seed=seeds)
def test_every_choice_multiplies(choice: tuple[str, str], m: int, k: int, n: int, seed: int) -> None:
    products.use(*choice)
    a, b = factors(m, k, n, seed)
    wanted, size = exact(a, b, choice[1])
    in_pieces = SPLIT is not None and choice[0] != "blas" and choice[1] == "float32"
    allowed = (k + 3 + 4 * in_pieces) * 2.0**-24  # products of three pieces leave a little out
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


@every_choice
@given(m=sides, k=sides, n=sides, seed=seeds)
def test_float64_is_multiplied_in_full_whoever_is_chosen(
    choice: tuple[str, str], m: int, k: int, n: int, seed: int
) -> None:
    products.use(*choice)
    a, b = factors(m, k, n, seed, np.float64)
    out = np.ones((m, n))
    products.product_into(a, b, out, True)
    assert products.product(a, b).tobytes() == (a @ b).tobytes()
    np.testing.assert_array_equal(out, 1 + a @ b)


@every_choice
@pytest.mark.parametrize("name", ["matmul", "linear", "swiglu_linear", "linear_cross_entropy"])
@given(data=st.data())
def test_operations_and_their_gradients_keep_to_the_choice(
    choice: tuple[str, str], name: str, data: st.DataObject
) -> None:
    """Against the same operation in float64; a model's gradients need no more than that of bfloat16."""
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
def test_without_the_instructions_the_same_comes_out_up_to_the_order_of_sums(
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
def test_where_our_own_loops_have_no_registers_blas_stays_and_a_notice_says_so(
    monkeypatch: Any, precision: str
) -> None:
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
def test_the_plan_is_told_who_multiplies(monkeypatch: Any, choice: Any, kind: str | None, said: str) -> None:
    monkeypatch.setattr(products, "SPLIT", Block("tiles", 32, 32, 16, pieces=3) if kind == "split" else None)
    monkeypatch.setattr(products, "BFLOAT16", kind and Block(kind, 12, 32, 16))
    products.use(*choice)
    assert products.describe() == said


AVX2, AVX512 = {"avx2", "fma", "avx"}, {"avx2", "fma", "avx", "avx512f"}


@pytest.mark.parametrize(
    ("features", "lanes", "registers"),
    [(AVX512, 16, 32), (AVX2, 8, 16), ({"avx2"}, None, 0), ({"neon"}, 4, 32), ({"sse4.2"}, None, 0), (set(), None, 0)],
)
def test_the_block_of_float32_fits_into_the_registers(features: Any, lanes: int | None, registers: int) -> None:
    block = processor._float32_block(features)
    assert (block and block.lanes) == lanes
    if block is not None:
        assert (block.kind, block.chunk, block.columns % block.lanes) == ("float32", 1, 0)
        across = block.columns // block.lanes
        assert (
            registers // 2 < block.rows * across <= registers - across - 1
        )  # a row of the right, a number of the left


@pytest.mark.parametrize(("features", "lanes"), [(AVX512, 16), (AVX2, 8), ({"neon"}, 4), ({"avx2"}, 16), (set(), 16)])
def test_the_small_block_has_the_lanes_of_the_large_one_and_is_there_in_any_case(features: Any, lanes: int) -> None:
    small, large = processor._small_block(features), processor._float32_block(features)
    assert (small.lanes, small.columns % lanes) == (lanes, 0)
    assert large is None or (large.lanes == lanes and small.rows <= large.rows)


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    ("features", "kinds"),  # if Linux lets us have the tile registers, and if not
    [
        (AVX512 | {"avx512bf16", "amx-tile", "amx-bf16"}, ("tiles", "bfloat16")),
        (AVX512 | {"avx512bf16"}, ("bfloat16", "bfloat16")),
        (AVX512 | {"amx-tile"}, (None, None)),
        (AVX512 | {"amx-tile", "amx-bf16"}, ("tiles", None)),
        (AVX512, (None, None)),
        ({"neon"}, (None, None)),
        (set(), (None, None)),
    ],
)
def test_the_block_of_bfloat16_is_the_best_that_may_be_used(
    monkeypatch: Any, features: Any, kinds: Any, allowed: bool
) -> None:
    monkeypatch.setattr(processor, "may_use_tiles", lambda: allowed)
    block = processor._bfloat16_block(features)
    assert (block and block.kind) == kinds[not allowed]


def test_compiled_code_is_kept_apart_by_whether_it_may_use_tiles(monkeypatch: Any, tmp_path: Path) -> None:
    """Code with tile instructions ends a process that Linux does not allow them."""
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    folders = set()
    for allowed in (True, False):
        monkeypatch.setattr(jit, "may_use_tiles", lambda allowed=allowed: allowed)
        folders.add(jit._code_folder())
    assert len(folders) == 2


def test_the_tile_registers_are_asked_for_on_linux_only(monkeypatch: Any) -> None:
    monkeypatch.setattr(hardware.sys, "platform", "darwin")
    assert not hardware.may_use_tiles()


_WITHOUT_TILES = "+avx,+avx2,+fma,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16"


@pytest.mark.parametrize("features", ["+avx,+avx2,+fma", "+sse4.2", _WITHOUT_TILES])
def test_a_lesser_processor_of_this_kind_multiplies_as_well(features: str, tmp_path: Path) -> None:
    """Numba takes the features it may use from the environment: the loops for AVX2 run, or the way without any."""
    if not processor.host_features() >= {name[1:] for name in features.split(",")}:
        pytest.skip("this processor has not even these")
    names = "every_choice_multiplies or that_of_float64 or changes_no_bit or of_factors"
    tests = ("gemm/test_backend.py", "gemm/test_panels.py", "attention/test_operands.py")
    files = [str(ROOT / "tests/kernels" / name) for name in tests]
    command = [sys.executable, "-m", "pytest", "-q", *files, "-k", names, "--hypothesis-profile=few"]
    lesser = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-W", "ignore:this processor has no vector"],
        env=os.environ | lesser,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
