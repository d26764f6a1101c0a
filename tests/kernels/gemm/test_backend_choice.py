"""What `auto` chooses beside the real OpenBLAS, with the core that it finds by itself and with others."""

from __future__ import annotations

import math
import platform

import pytest

from minigrad.kernels.gemm.backend import OWN_LOOPS_FROM
from minigrad.system import blas
from tests.system.python_process import python

PROGRAM = """
import numpy as np
from minigrad.kernels.gemm import backend
from minigrad.system import blas
square = np.ones((200, 200), np.float32)
lanes = backend.FLOAT32.lanes if backend.FLOAT32 and not backend.SPLIT else 0
has_tiles, goes_to_blas = backend.SPLIT is not None, backend.goes_to_blas(square, square)
print(blas.openblas_core(), lanes, has_tiles, goes_to_blas, backend.describe(), sep="; ")
"""


@pytest.mark.skipif(platform.machine().lower() not in ("x86_64", "amd64"), reason="the cores are those of x86")
@pytest.mark.skipif(not blas.openblas_core(), reason="NumPy's BLAS is no OpenBLAS")
@pytest.mark.parametrize("told", ["Haswell", "SkylakeX", ""])
def test_auto_follows_the_core_of_openblas(told: str) -> None:
    printed = python(PROGRAM, **({"OPENBLAS_CORETYPE": told} if told else {}))
    core, lanes, has_tiles, goes_to_blas, described = printed.split("; ")
    if lanes != "16" and told != "Haswell":
        pytest.skip("this processor has no AVX-512, or has tiles")
    if told:
        assert core == told
    else:
        assert core not in ("Haswell", "Zen"), "OpenBLAS knows AVX-512 also in processors that are newer than itself"
    gains = lanes == "16" and OWN_LOOPS_FROM.get(core, math.inf) <= 200**3
    assert goes_to_blas == str(not gains and has_tiles == "False")
    if lanes != "0":
        assert described == ("float32 by our own loops" if gains else "float32 by BLAS")
    if lanes == "16" and core == "Haswell":
        assert gains
