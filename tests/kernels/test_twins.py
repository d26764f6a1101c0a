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
from tests.kernels.attention_twins import ATTENTION_TWINS
from tests.kernels.matmul_twins import MATMUL_TWINS
from tests.kernels.twins import TWINS
from tests.kernels.wiola_twins import WIOLA_TWINS

for module in pkgutil.walk_packages(kernels.__path__, "minigrad.kernels."):
    importlib.import_module(module.name)

TABLE = TWINS | ATTENTION_TWINS | WIOLA_TWINS | MATMUL_TWINS
TOLERANCE = {np.float32: 3e-5, np.float64: 1e-11}


def test_every_kernel_has_a_twin() -> None:
    assert set(KERNELS) == set(TABLE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", TABLE)
@given(data=st.data())
def test_kernel_equals_its_twin(name: str, dtype: Any, data: st.DataObject) -> None:
    row = TABLE[name]
    arguments = data.draw(row.arguments(dtype))
    expected = copy.deepcopy(arguments)
    call = row.portable if row.portable and numba.config.DISABLE_JIT else KERNELS[name]
    returned, wanted = call(*arguments), row.twin(*expected)
    close: dict[str, Any] = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    if returned is not None:  # such a kernel's arrays are its input and room to work in
        np.testing.assert_allclose(returned, wanted, rtol=3e-7, atol=row.error)
        return
    results = len(arguments) - row.room
    for position, (array, want) in enumerate(zip(arguments[:results], expected[:results], strict=True)):
        np.testing.assert_allclose(array, want, err_msg=f"argument {position} of {name}", **close)


def test_kernels_run_without_a_compiler() -> None:
    # So that a debugger and a coverage report can look into them.
    names = "test_kernel_equals_its_twin"
    command = [sys.executable, "-m", "pytest", "-q", __file__, "-k", names, "--hypothesis-profile=few"]
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1"}
    result = subprocess.run([*command, "-p", "no:cacheprovider"], env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout
