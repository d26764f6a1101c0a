"""Numba compiles a kernel again for every kind of argument it meets: there may be two kinds, float32 and float64."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import Phase, find, settings
from numba import types

from minigrad import nn
from minigrad.kernels.cpu import SMALL_BFLOAT16, SPLIT
from minigrad.kernels.jit import KERNELS
from minigrad.optim import AdamW
from tests import op_checks
from tests.op_table import TABLE, Case, operation


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_at_most_two_signatures_per_kernel() -> None:
    for name, row in TABLE.items():
        # Different sides of a case's shape make views that NumPy calls contiguous in another order.
        for least in (0, 3):
            found = find(row.cases, lambda case, least=least: case.arrays[0].size >= least, settings=quietly)
            op_checks.check_float32(operation(name), found, row.keeps_dtype)
            op_checks.check_any_layout(operation(name), found)
            op_checks.run(operation(name), with_read_only_options(found))
    for dtype in ("float32", "float64"):
        layer = nn.LayerNorm(4)
        layer.initialise(dtype=dtype)
        AdamW(layer.parameters()).step()
    compiled = {name: signatures(kernel) for name, kernel in KERNELS.items()}
    assert any(compiled.values())
    # Attention packs float32 as elements, as words of three parts where there are tile registers, and in bfloat16,
    # which another test may have chosen, as words of one part.
    more = (SPLIT is not None) + (SMALL_BFLOAT16 is not None)
    most = {name: 2 + more * name.startswith("attention.") for name in compiled}
    too_many = [f"{name}: {found}" for name, found in compiled.items() if len(found) > most[name]]
    assert not too_many, "\n".join(too_many)


def signatures(kernel: Any) -> set[tuple[Any, ...]]:
    """Return what a kernel was compiled for.

    A number written in a call counts as any other number, and a named tuple of equal types as one of any types: a test
    that calls an inner kernel from Python passes these where a kernel passes those.
    """
    return {tuple(map(_plain, signature)) for signature in kernel.signatures}


def _plain(kind: Any) -> Any:
    if isinstance(kind, types.NamedUniTuple | types.NamedTuple):
        return kind.instance_class, tuple(map(_plain, kind.types))
    return types.unliteral(kind)


quietly = settings(derandomize=True, database=None, deadline=None, phases=[Phase.generate])  # any case serves


def with_read_only_options(case: Case) -> Case:
    options = {
        name: op_checks.strided_and_read_only(value) if isinstance(value, np.ndarray) else value
        for name, value in case.options.items()
    }
    contiguous = []
    for array in case.arrays:
        copy = array.copy()
        copy.flags.writeable = False
        contiguous.append(copy)
    return Case(tuple(contiguous), options)
