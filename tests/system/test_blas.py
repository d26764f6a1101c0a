"""The loaded BLAS is found, and its threads can be set."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import pytest

from minigrad.system import blas
from tests.system.python_process import python


def test_a_library_in_a_folder_with_a_space_is_found(tmp_path, monkeypatch) -> None:
    library = tmp_path / "my projects" / "libopenblas.so"
    library.parent.mkdir()
    library.touch()
    maps = tmp_path / "maps"
    maps.write_text(
        f"7f00-7f01 r-xp 00000000 fe:00 123                        {library}\n7f01-7f02 rw-p 0 00:00 0\n",
        encoding="utf-8",
    )
    opened = []
    monkeypatch.setattr(blas, "_MAPS", maps)
    monkeypatch.setattr(blas.ctypes, "CDLL", opened.append)
    blas._loaded_openblas()
    assert opened == [str(library)]


def test_idle_threads_of_a_blas_that_was_loaded_first_sleep_as_soon() -> None:
    program = """
import numpy
a = numpy.ones((300, 300), numpy.float32)
before = (a @ a)[0, 0]
from minigrad.system import blas, hardware
timeouts = [library.openblas_thread_timeout() for library in blas._loaded_openblas()
            if hasattr(library, "openblas_thread_timeout")]
print(set(timeouts) <= {10}, before == (a @ a)[0, 0] == 300)
"""
    assert python(program) == "True True"


class OpenBLAS:
    """An OpenBLAS whose timeout is another one than the environment asks for."""

    def __init__(self) -> None:
        self.timeout, self.stops = 26, 0

    def openblas_thread_timeout(self) -> int:
        return self.timeout

    def openblas_read_env(self) -> None:
        self.timeout = 10

    def blas_thread_shutdown_(self) -> None:
        self.stops += 1


def test_threads_of_blas_are_not_stopped_while_another_thread_may_multiply(monkeypatch) -> None:
    for threads, expected in ((1, (10, 1)), (2, (26, 0))):
        library = OpenBLAS()
        monkeypatch.setattr(blas.threading, "active_count", lambda threads=threads: threads)
        blas._let_idle_threads_sleep(library)
        assert (library.timeout, library.stops) == expected


@pytest.fixture
def _ask_again():
    """Forget what was found before the test and in it."""
    for function in (blas._setters, blas._accelerate_setter):
        function.cache_clear()
    yield
    for function in (blas._setters, blas._accelerate_setter):
        function.cache_clear()


@pytest.mark.usefixtures("_ask_again")
def test_accelerate_is_told_to_use_one_thread_or_all(monkeypatch) -> None:
    told = []
    library = SimpleNamespace(BLASSetThreading=lambda model: told.append((type(model), model.value)))
    monkeypatch.setattr(blas.sys, "platform", "darwin")
    monkeypatch.setattr(blas, "_loaded_openblas", list)
    monkeypatch.setattr(blas.ctypes, "CDLL", {blas._ACCELERATE: library}.__getitem__)
    assert blas.can_set_threads()
    with blas.one_thread(otherwise=4):
        assert told == [(ctypes.c_uint, 1)]
    assert told[1:] == [(ctypes.c_uint, 0)]
    blas.use_this_thread_only()
    assert told[2:] == [(ctypes.c_uint, 1)]


@pytest.mark.usefixtures("_ask_again")
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_where_blas_has_no_such_function_its_threads_cannot_be_set(monkeypatch, platform: str) -> None:
    monkeypatch.setattr(blas.sys, "platform", platform)
    monkeypatch.setattr(blas, "_loaded_openblas", list)
    monkeypatch.setattr(blas.ctypes, "CDLL", lambda path: SimpleNamespace())
    assert not blas.can_set_threads()
    blas.use_this_thread_only()
    with blas.one_thread(otherwise=4):
        pass
