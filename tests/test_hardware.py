"""The machine is prepared before NumPy loads; each check has a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from minigrad import hardware
from minigrad.errors import InputError

VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")


def python(program: str, **variables: str) -> str:
    ours = (*VARIABLES, "MINIGRAD_THREADS", "OPENBLAS_THREAD_TIMEOUT")
    environment = {name: value for name, value in os.environ.items() if name not in ours}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment | variables, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_importing_minigrad_loads_neither_numpy_nor_numba() -> None:
    program = "import sys, minigrad; print([m for m in ('numpy', 'numba') if m in sys.modules])"
    assert python(program) == "[]"


def test_threads_of_blas_and_pool_are_set_together() -> None:
    program = f"""
import minigrad, os
print([os.environ[name] for name in {VARIABLES}])
from minigrad.kernels import threads
threads.over_rows(lambda a, b: None, 10, 10**9)
print(threads._pool.count, minigrad.hardware.threads())
"""
    for asked in (1, 2, 1000):
        count = min(asked, hardware.cores())
        expected = [str([str(count)] * 4), f"{count} {count}"]
        assert python(program, MINIGRAD_THREADS=str(asked)).splitlines() == expected


@pytest.mark.parametrize("value", ["", "0", "-1", "many"])
def test_a_senseless_number_of_threads_is_replaced_by_the_number_of_cores(value: str) -> None:
    program = "from minigrad import hardware; print(hardware.threads() == hardware.cores())"
    assert python(program, MINIGRAD_THREADS=value) == "True"


def test_prepare_after_numpy_tells_the_library_and_the_pool() -> None:
    program = """
import ctypes, numpy, minigrad
from minigrad import hardware
from minigrad.kernels import threads
hardware.prepare(1)
threads.over_rows(lambda a, b: None, 10, 10**9)
counts = []
for library in hardware._loaded_openblas():
    for symbol in ("scipy_openblas_get_num_threads64_", "scipy_openblas_get_num_threads", "openblas_get_num_threads"):
        if (getter := getattr(library, symbol, None)) is not None:
            counts.append(getter())
            break
print(threads._pool.count, set(counts) <= {1})
"""
    assert python(program, MINIGRAD_THREADS="2") == "1 True"


def test_what_the_machine_tells() -> None:
    assert hardware.cores() >= 1
    assert hardware.memory_bytes() > 1_000_000
    assert hardware.peak_memory_bytes() >= hardware.memory_bytes() // 2
    assert hardware.available_memory_bytes() > 1_000_000
    assert hardware.processor() in hardware.describe()
    assert "core" in hardware.describe()


def test_no_number_means_what_the_environment_said_at_the_beginning() -> None:
    program = """
from minigrad import hardware
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


def test_a_library_in_a_folder_with_a_space_is_found(tmp_path, monkeypatch) -> None:
    library = tmp_path / "my projects" / "libopenblas.so"
    library.parent.mkdir()
    library.touch()
    maps = tmp_path / "maps"
    maps.write_text(f"7f00-7f01 r-xp 00000000 fe:00 123                        {library}\n7f01-7f02 rw-p 0 00:00 0\n")
    opened = []
    monkeypatch.setattr(hardware, "_MAPS", maps)
    monkeypatch.setattr(hardware.ctypes, "CDLL", opened.append)
    hardware._loaded_openblas()
    assert opened == [str(library)]


def test_idle_threads_of_a_blas_that_was_loaded_first_fall_asleep_as_soon() -> None:
    program = """
import numpy
a = numpy.ones((300, 300), numpy.float32)
before = (a @ a)[0, 0]
from minigrad import hardware
timeouts = [library.openblas_thread_timeout() for library in hardware._loaded_openblas()
            if hasattr(library, "openblas_thread_timeout")]
print(set(timeouts) <= {10}, before == (a @ a)[0, 0] == 300)
"""
    assert python(program) == "True True"
