"""The machine is prepared before NumPy loads; each check has a process of its own."""

from __future__ import annotations

import pytest

from minigrad.errors import InputError
from minigrad.system import hardware
from tests.system.python_process import VARIABLES, python


def test_importing_minigrad_loads_neither_numpy_nor_numba() -> None:
    program = "import sys, minigrad; print([m for m in ('numpy', 'numba') if m in sys.modules])"
    assert python(program) == "[]"


def test_threads_of_blas_and_pool_are_set_together() -> None:
    program = f"""
import minigrad, os
print([os.environ[name] for name in {VARIABLES}])
from minigrad.kernels import threads
threads.over_rows(lambda a, b: None, 10, 10**9)
print(threads._pool.count, minigrad.system.hardware.threads())
"""
    for asked in (1, 2, 1000):
        count = min(asked, hardware.cores())
        expected = [str([str(count)] * 4), f"{count} {count}"]
        assert python(program, MINIGRAD_THREADS=str(asked)).splitlines() == expected


@pytest.mark.parametrize("value", ["", "0", "-1", "many"])
def test_an_invalid_number_of_threads_is_replaced_by_the_number_of_cores(value: str) -> None:
    program = "from minigrad.system import blas, hardware; print(hardware.threads() == hardware.cores())"
    assert python(program, MINIGRAD_THREADS=value) == "True"


def test_prepare_after_numpy_tells_the_library_and_the_pool() -> None:
    program = """
import ctypes, numpy, minigrad
from minigrad.system import blas, hardware
from minigrad.kernels import threads
hardware.prepare(1)
threads.over_rows(lambda a, b: None, 10, 10**9)
counts = []
for library in blas._loaded_openblas():
    for symbol in ("scipy_openblas_get_num_threads64_", "scipy_openblas_get_num_threads", "openblas_get_num_threads"):
        if (getter := getattr(library, symbol, None)) is not None:
            counts.append(getter())
            break
print(threads._pool.count, set(counts) <= {1})
"""
    assert python(program, MINIGRAD_THREADS="2") == "1 True"


def test_the_description_of_the_machine() -> None:
    assert hardware.cores() >= 1
    assert hardware.memory_bytes() > 1_000_000
    assert hardware.peak_memory_bytes() >= hardware.memory_bytes() // 2
    assert hardware.available_memory_bytes() > 1_000_000
    assert hardware.processor() in hardware.describe()
    assert "core" in hardware.describe()


def test_without_a_number_the_environment_decides() -> None:
    program = """
from minigrad.system import blas, hardware
first = hardware.threads()
hardware.prepare(hardware.cores())
hardware.prepare()
print(first, hardware.threads())
"""
    assert python(program, OMP_NUM_THREADS="1") == "1 1"


def test_more_threads_than_processors_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(hardware, "cores", lambda: 4)
    with pytest.raises(InputError, match="5 threads would take turns on 4 processors; ask for at most 4"):
        hardware.prepare(5)
