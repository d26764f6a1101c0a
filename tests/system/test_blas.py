"""The loaded BLAS is found, and its threads can be set."""

from __future__ import annotations

import ctypes
import os
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


def test_a_blas_that_was_loaded_first_uses_one_thread_from_then_on() -> None:
    program = """
import numpy
a = numpy.ones((300, 300), numpy.float32)
before = (a @ a)[0, 0]
from minigrad.system import blas
counts = []
for library in blas._loaded_openblas():
    for symbol in ("scipy_openblas_get_num_threads64_", "scipy_openblas_get_num_threads", "openblas_get_num_threads"):
        if (getter := getattr(library, symbol, None)) is not None:
            counts.append(getter())
            break
named = "openblas" in numpy.show_config(mode="dicts")["Build Dependencies"]["blas"]["name"]
print(set(counts) == ({1} if named else set()), before == (a @ a)[0, 0] == 300)
"""
    for threads in ("1", "2"):
        assert python(program, MINIGRAD_THREADS=threads) == "True True"


def test_variables_that_other_libraries_read_too_give_all_threads(monkeypatch) -> None:
    for variable in blas.THREAD_VARIABLES:
        monkeypatch.setenv(variable, "7")
    assert blas.set_environment(3)
    assert not blas.set_environment(3)
    assert [os.environ[variable] for variable in blas.THREAD_VARIABLES] == ["1", "3", "3", "3"]


@pytest.fixture
def _ask_again():
    """Forget what was found before the test and in it."""
    for function in (blas._setters, blas._accelerate_setter, blas.openblas_core):
        function.cache_clear()
    yield
    for function in (blas._setters, blas._accelerate_setter, blas.openblas_core):
        function.cache_clear()


@pytest.mark.usefixtures("_ask_again")
def test_accelerate_is_told_to_use_one_thread(monkeypatch) -> None:
    told = []
    library = SimpleNamespace(BLASSetThreading=lambda model: told.append((type(model), model.value)))
    monkeypatch.setattr(blas.sys, "platform", "darwin")
    monkeypatch.setattr(blas, "_loaded_openblas", list)
    monkeypatch.setattr(blas.ctypes, "CDLL", {blas._ACCELERATE: library}.__getitem__)
    assert blas.can_use_one_thread()
    assert blas.use_one_thread()
    assert told == [(ctypes.c_uint, 1)]


@pytest.mark.usefixtures("_ask_again")
@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_where_blas_has_no_such_function_its_threads_cannot_be_set(monkeypatch, platform: str) -> None:
    monkeypatch.setattr(blas.sys, "platform", platform)
    monkeypatch.setattr(blas, "_loaded_openblas", list)
    monkeypatch.setattr(blas.ctypes, "CDLL", lambda path: SimpleNamespace())
    assert not blas.can_use_one_thread()
    assert not blas.use_one_thread()


@pytest.mark.usefixtures("_ask_again")
@pytest.mark.parametrize(
    ("cores", "core"), [([b"Haswell"], "Haswell"), ([b"Cooperlake", b"Haswell"], "Cooperlake"), ([], "")]
)
def test_openblas_is_asked_for_its_core(monkeypatch, cores: list[bytes], core: str) -> None:
    class Function:
        def __init__(self, name: bytes) -> None:
            self.name = name

        def __call__(self) -> bytes:
            return self.name

    loaded = [SimpleNamespace(scipy_openblas_get_corename64_=Function(name)) for name in cores]
    monkeypatch.setattr(blas, "_loaded_openblas", lambda: loaded)
    assert blas.openblas_core() == core


def test_the_openblas_of_numpys_wheel_names_the_core_that_it_was_told() -> None:
    program = """
import numpy
from minigrad.system import blas
print(blas.openblas_core())
"""
    if not blas._openblas_functions("get_corename"):
        pytest.skip("NumPy's BLAS is no OpenBLAS")
    assert python(program, OPENBLAS_CORETYPE="Nehalem") == "Nehalem"
