"""The machine is prepared before NumPy loads; each check has a process of its own."""

from __future__ import annotations

import platform

import pytest

from minigrad.errors import InputError
from minigrad.system import hardware, processors
from tests.system.python_process import VARIABLES, python


def test_importing_minigrad_loads_neither_numpy_nor_numba() -> None:
    program = "import sys, minigrad; print([m for m in ('numpy', 'numba') if m in sys.modules])"
    assert python(program) == "[]"


def test_threads_are_told_to_the_pool_and_to_libraries() -> None:
    program = f"""
import minigrad, os
print([os.environ[name] for name in {VARIABLES}])
from minigrad.kernels import threads
threads.over_rows(lambda a, b: None, 10, 10**9)
print(threads._pool.count, minigrad.system.hardware.threads())
"""
    for asked in (1, 2, 1000):
        count = min(asked, processors.count())
        expected = [str(["1", *[str(count)] * 3]), f"{count} {count}"]
        assert python(program, MINIGRAD_THREADS=str(asked)).splitlines() == expected


@pytest.mark.parametrize("value", ["", "0", "-1", "many"])
def test_an_invalid_number_of_threads_is_replaced_by_the_number_of_cores(value: str) -> None:
    program = "from minigrad.system import hardware, processors; print(hardware.threads() == processors.cores())"
    assert python(program, MINIGRAD_THREADS=value) == "True"


def test_the_description_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = hardware.memory_bytes(), hardware.peak_memory_bytes(), hardware.available_memory_bytes()
    assert min(memory) > 1_000_000
    assert memory[1] >= memory[0] // 2
    assert processors.name() in hardware.describe()
    for count, said in ((1, ", 1 core, "), (4, ", 4 cores, ")):
        monkeypatch.setattr(processors, "cores", lambda count=count: count)
        assert said in hardware.describe()


def test_without_a_number_the_environment_decides() -> None:
    program = """
from minigrad.system import hardware, processors
first = hardware.threads()
hardware.prepare(processors.count())
hardware.prepare()
print(first, hardware.threads())
"""
    assert python(program, OMP_NUM_THREADS="1") == "1 1"


def test_more_threads_than_processors_are_refused(monkeypatch) -> None:
    monkeypatch.setattr(processors, "count", lambda: 4)
    with pytest.raises(InputError, match="5 threads would take turns on 4 processors; ask for at most 4"):
        hardware.prepare(5)


@pytest.mark.parametrize(
    ("limit", "accepted"),
    [
        (1 << 40, {hardware._M_MMAP_THRESHOLD: 1 << 30, hardware._M_TRIM_THRESHOLD: 1 << 30}),
        (32 << 20, {hardware._M_MMAP_THRESHOLD: 32 << 20, hardware._M_TRIM_THRESHOLD: 1 << 30}),  # glibc before 2.35
        (0, {}),  # to set the other threshold alone would leave this one at 128 KiB
    ],
)
def test_malloc_keeps_what_the_installed_glibc_lets_it_keep(monkeypatch, limit, accepted) -> None:
    settings = {}

    class Library:
        def mallopt(self, name: int, value: int) -> int:
            if name == hardware._M_MMAP_THRESHOLD and value > limit:
                return 0
            settings[name] = value
            return 1

    monkeypatch.setattr(hardware.sys, "platform", "linux")
    monkeypatch.setattr(hardware.platform, "libc_ver", lambda: ("glibc", "2.31"))
    monkeypatch.setattr(hardware.ctypes, "CDLL", lambda name: Library())
    hardware._keep_freed_memory()
    assert settings == accepted | {hardware._M_ARENA_MAX: 1}


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told to keep freed memory")
def test_memory_that_was_freed_can_be_given_back() -> None:
    held = [b"x" * (1 << 20) for _ in range(64)]
    before = hardware.memory_bytes()
    del held
    hardware.give_back_memory()
    assert hardware.memory_bytes() < before - (48 << 20)
