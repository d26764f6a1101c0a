"""The loaded BLAS is found, and its threads can be set."""

from __future__ import annotations

from minigrad.system import blas
from tests.system.python_process import python


def test_a_library_in_a_folder_with_a_space_is_found(tmp_path, monkeypatch) -> None:
    library = tmp_path / "my projects" / "libopenblas.so"
    library.parent.mkdir()
    library.touch()
    maps = tmp_path / "maps"
    maps.write_text(f"7f00-7f01 r-xp 00000000 fe:00 123                        {library}\n7f01-7f02 rw-p 0 00:00 0\n")
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
