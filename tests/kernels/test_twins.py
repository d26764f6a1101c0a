"""Every kernel computes what its plain NumPy twin computes, on any shape, and has one."""

from __future__ import annotations

import copy
import importlib
import os
import pkgutil
import subprocess
import sys
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import kernels
from minigrad.kernels.jit import KERNELS
from tests.kernels.attention import chosen_twins, panel_twins, softmax_twins, tile_twins
from tests.kernels.attention import twins as attention
from tests.kernels.codegen import twins as codegen
from tests.kernels.decoding import attention_twins, kept_twins, line_twins
from tests.kernels.decoding import twins as decoding
from tests.kernels.gemm import packing_twins
from tests.kernels.gemm import twins as gemm
from tests.kernels.rowwise import draw_twins, layer_twins, selection_twins
from tests.kernels.rowwise import twins as rowwise
from tests.kernels.twin import Array, fenced, leaves, side_by_side, written
from tests.models.wiola.kernels import context_twins
from tests.models.wiola.kernels import twins as wiola
from tests.source_files import ROOT, module_of

for module in pkgutil.walk_packages(kernels.__path__, "minigrad.kernels."):
    importlib.import_module(module.name)
for path in (ROOT / "models").glob("*/kernels/*.py"):
    importlib.import_module(module_of(path))

TABLES = (
    attention,
    attention_twins,
    chosen_twins,
    codegen,
    context_twins,
    decoding,
    draw_twins,
    gemm,
    kept_twins,
    layer_twins,
    line_twins,
    packing_twins,
    panel_twins,
    rowwise,
    selection_twins,
    softmax_twins,
    tile_twins,
    wiola,
)
TABLE = {name: row for table in TABLES for name, row in table.TWINS.items()}
TOLERANCE = {np.float32: 3e-5, np.float64: 1e-11}


def test_every_kernel_has_a_twin() -> None:
    assert set(KERNELS) == set(TABLE)
    assert len(TABLE) == sum(len(table.TWINS) for table in TABLES)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", TABLE)
@given(data=st.data())
def test_kernel_equals_its_twin(name: str, dtype: Any, data: st.DataObject) -> None:
    row = TABLE[name]
    arguments = data.draw(row.arguments(dtype))
    expected, fences = copy.deepcopy(arguments), list[Array]()
    arguments = fenced(arguments, fences)
    call = row.portable if row.portable and numba.config.DISABLE_JIT else KERNELS[name]
    with np.errstate(all="ignore"):  # compiled code warns of no value that is not finite, and plain Python need not
        returned = leaves(call(*arguments))
    over = written(fences, row.overrun)
    assert not over, f"{name} writes outside its arrays: fences {over} of {len(fences)}, two for each array"
    with np.errstate(invalid="ignore"):  # BLAS may multiply what lies behind a short row, and warn of it
        wanted = leaves(row.twin(*expected))
    assert len(returned) == len(wanted)
    if not numba.config.DISABLE_JIT and not KERNELS[name].targetoptions.get("_nrt", True):  # type: ignore[attr-defined]
        assert not any(isinstance(each, np.ndarray) for each in returned), "a kernel that counts no references"
    if row.only_sizes:
        assert all(array.size >= size for array, size in zip(returned, wanted, strict=True))
        return
    if any(each is not None for each in returned):  # such a kernel's arrays are its input and scratch memory
        np.testing.assert_allclose(returned, wanted, rtol=3e-7, atol=row.error)
        return
    close: dict[str, Any] = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    results = len(arguments) - row.scratch
    for position in range(results):
        for array, want in zip(leaves(arguments[position]), leaves(expected[position]), strict=True):
            np.testing.assert_allclose(array, want, err_msg=f"argument {position} of {name}", **close)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", [name for name, row in TABLE.items() if not (row.only_sizes or row.overrun)])
@given(data=st.data())
def test_no_bit_depends_on_where_the_arrays_lie(name: str, dtype: Any, data: st.DataObject) -> None:
    # A compiled loop takes one element at a time if what it writes lies a few registers behind what it reads. Then a
    # sum in that loop has another order.
    row = TABLE[name]
    arguments, results = data.draw(row.arguments(dtype)), list[list[bytes]]()
    for gap in (0, 4096):
        given_arguments = side_by_side(arguments, gap)
        returned = KERNELS[name](*given_arguments)
        compared = leaves((given_arguments[: len(arguments) - row.scratch], returned))
        results.append([np.asarray(each).tobytes() for each in compared])
    assert results[0] == results[1]


@pytest.mark.machines
def test_kernels_run_without_a_compiler() -> None:
    # So that a debugger and a coverage report can look into them.
    names = "test_kernel_equals_its_twin"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", __file__, "-k", names, "--hypothesis-profile=few"]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    result = subprocess.run([*command, "-p", "no:cacheprovider"], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
