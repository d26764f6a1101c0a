"""Compiling: what is registered, where compiled code is kept, and which processor it is for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest

from minigrad.kernels import jit
from minigrad.kernels.attention.factors import memory_for
from minigrad.kernels.decoding.machine import run_program
from minigrad.kernels.jit import KERNELS, host_features
from minigrad.kernels.rowwise import softmax
from tests.kernels import test_twins  # which imports every kernel


def test_kernels_are_registered_by_room_file_and_name() -> None:
    assert softmax._softmax_rows is KERNELS["rowwise.softmax._softmax_rows"]
    assert all(name.count(".") == (4 if name.startswith("models.") else 2) for name in KERNELS)


def test_two_processes_that_write_at_the_same_time_take_no_file_from_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numba would give the code of one as that of the other, with other types of arguments."""
    ours, theirs = (jit.CodeFiles(str(tmp_path), "kernel", "stamp") for _ in range(2))
    write_data, write_index = ours._save_data, ours._save_index

    def interrupted(name: str, data: Any) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(theirs, "_load_index", dict)  # it was read before ours was written
            theirs.save("float64", "their code")
        write_data(name, data)

    ours._save_data = interrupted
    ours.save("float32", "our code")
    assert [ours.load(key) for key in ("float32", "float64")] == ["our code", "their code"]

    def late(overloads: dict[Any, str]) -> None:
        theirs.save("int32", "their code")
        write_index(overloads)

    ours._save_data, ours._save_index = write_data, late
    ours.save("int64", "our code")
    assert ours.load("int64") == "our code"
    assert ours.load("int32") in (None, "their code")  # compiled again at worst
    assert theirs.load("float32") == "our code"


def test_compiling_leaves_the_cache_folder_of_numba_as_it_was() -> None:
    before: Any = numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES

    def double(x: float) -> float:
        return 2 * x

    try:
        assert jit.kernel(double)(1.5) == 3
        assert before == (numba.config.CACHE_DIR, numba.config.CACHE_LOCATOR_CLASSES)
    finally:
        KERNELS.pop(next(name for name in KERNELS if name.endswith(".double")))


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_full_disk_only_costs_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def fail(*_: Any) -> None:
        tries.append(1)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jit.CodeFiles, "save", fail)
    monkeypatch.setattr(jit, "KERNELS", {})

    def one_more(number: int) -> int:
        return number + 1

    assert jit.kernel(one_more)(2) == 3
    assert tries or jit._FOLDER is None


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_sums_may_be_reordered_in_a_kernel_and_not_in_an_exact_function() -> None:
    one, large = np.float32(1), np.float32(2**25)

    def add_and_subtract(x: Any, y: Any) -> Any:
        return (x + y) - y

    def also_add_and_subtract(x: Any, y: Any) -> Any:
        return (x + y) - y

    try:
        exact, kernel = jit.exact(add_and_subtract), jit.kernel(also_add_and_subtract)
        assert exact(one, large) == 0  # the sum of both has no bit for the one
        assert kernel(one, large) == 1  # y - y is cancelled: the exponential would lose its rounding
    finally:
        for name in [name for name in KERNELS if name.endswith("add_and_subtract")]:
            del KERNELS[name]


_MAKERS = {"arange", "array", "copy", "empty", "empty_like", "full", "ones", "zeros", "zeros_like"}


def _makes_arrays(function: Any) -> bool:
    """Return whether a compiled function makes arrays, itself or in one that it calls."""
    if not hasattr(function, "py_func"):
        return function is memory_for
    names, known = set(function.py_func.__code__.co_names), function.py_func.__globals__
    spaces = [known, *(vars(known[name]) for name in names & known.keys() if isinstance(known[name], ModuleType))]
    return bool(_MAKERS & names) or any(_makes_arrays(space[name]) for space in spaces for name in names & space.keys())


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_kernels_that_make_arrays_are_allocating_and_only_these() -> None:
    # Another kernel would count no references: what an allocating function returned to it would never be freed.
    assert KERNELS.keys() >= test_twins.TABLE.keys()
    for name, kernel in KERNELS.items():
        if kernel.targetoptions.get("inline") != "always":  # what is pasted is compiled as a part of its callers
            assert kernel.targetoptions["_nrt"] == _makes_arrays(kernel), name


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_kernel_that_makes_an_array_is_refused_unless_it_is_allocating() -> None:
    def size_of_zeros(count: int) -> int:
        return int(np.zeros(count).size)

    def also_size_of_zeros(count: int) -> int:
        return int(np.zeros(count).size)

    try:
        with pytest.raises(numba.core.errors.TypingError, match="returning of array"):
            jit.kernel(size_of_zeros)(3)
        assert jit.allocating(also_size_of_zeros)(3) == 3
    finally:
        for name in [name for name in KERNELS if name.endswith("size_of_zeros")]:
            del KERNELS[name]


_ATTENTION = """
import hashlib
import numpy as np
from minigrad import Tensor, ops

draw = np.random.default_rng(0)
for length, heads, kv_heads, size in ((16, 3, 1, 16), (40, 2, 2, 8)):
    shapes = [(2 * length, count, size) for count in (heads, kv_heads, kv_heads)]
    tensors = [Tensor(draw.standard_normal(shape, np.float32), requires_grad=True) for shape in shapes]
    y = ops.attention(*tensors, offsets=np.array([0, length, 2 * length]), dropout=0.1)
    ops.softmax(y).backward(draw.standard_normal(y.shape, np.float32))
    for array in (y.data, *(tensor.grad for tensor in tensors)):
        print(hashlib.sha256(array.tobytes()).hexdigest())
"""


@pytest.mark.machines
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_process_that_compiles_kernels_and_one_that_loads_them_compute_the_same_bits(tmp_path: Path) -> None:
    """What a process did before must never show, or a run that is continued would not repeat."""
    environment = os.environ | {"MINIGRAD_CACHE": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    found = [
        subprocess.run([sys.executable, "-c", _ATTENTION], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert found[0].stdout.count("\n") == 8
    assert found[0].stdout == found[1].stdout


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_infinity_and_nan_stay_what_they_are() -> None:
    x = np.array([[-np.inf, 0], [np.nan, 0]], np.float32)
    np.testing.assert_array_equal(softmax.softmax_forward(x, -1), [[0, 1], [np.nan, np.nan]])


def test_compiled_code_is_kept_apart_by_whether_it_may_use_tiles(monkeypatch: Any, tmp_path: Path) -> None:
    """Code with tile instructions ends a process that Linux does not allow them."""
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    folders = set()
    for allowed in (True, False):
        monkeypatch.setattr(jit, "may_use_tiles", lambda allowed=allowed: allowed)
        folders.add(jit._code_folder())
    assert len(folders) == 2


def test_without_a_folder_that_can_be_written_to_there_is_none(monkeypatch: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "file"))
    assert jit._code_folder() is None


@pytest.mark.machines
@pytest.mark.parametrize(
    ("variable", "value", "present", "absent"),
    [
        ("NUMBA_CPU_FEATURES", "+avx2,-fma,+sse4.2", {"avx2", "sse4.2"}, {"fma", "avx512f"}),
        ("NUMBA_CPU_NAME", "generic", set(), {"avx", "avx2", "fma", "avx512f"}),
        ("NUMBA_CPU_NAME", "ivybridge", set(), {"avx", "avx2", "avx512f"}),  # Numba does without AVX there
        ("NUMBA_ENABLE_AVX", "0", set(), {"avx", "avx2", "avx512f"}),
    ],
)
def test_the_features_are_those_that_numba_uses(variable: str, value: str, present: set[str], absent: set[str]) -> None:
    features = set(
        _output("from minigrad.kernels.jit import host_features; print(*host_features())", {variable: value})
    )
    assert present <= features
    assert not absent & features


def _output(program: str, variables: dict[str, str]) -> list[str]:
    """Return the words that a Python process prints which compiles for this processor, or for the one named."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CPU")}
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment | variables, cwd=root, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("machine", ["arm64", "aarch64", "ARM64"])
def test_every_64_bit_arm_processor_has_neon(monkeypatch: Any, machine: str) -> None:
    """LLVM lists no features of Apple's processors."""
    monkeypatch.setattr(jit.platform, "machine", lambda: machine)
    assert "neon" in host_features()


@pytest.mark.machines
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_compiled_code_is_kept_apart_by_the_processor_that_numba_compiles_for(tmp_path: Path) -> None:
    """One home folder may serve several machines, and one machine can pretend to be another."""
    program = (
        "import numpy as np; from minigrad.kernels.rowwise import softmax;"
        "softmax.softmax_forward(np.zeros((2, 4), np.float32), -1);"
        "print(sum(softmax._softmax_rows.stats.cache_hits.values()))"
    )
    cache = {"MINIGRAD_CACHE": str(tmp_path)}
    other = cache | {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "+neon" if "neon" in host_features() else "+sse2",
    }
    hits = [int(_output(program, variables)[0]) for variables in (cache, other, cache, other)]
    assert hits == [0, 0, 1, 1]


def test_an_edit_of_any_kernel_changes_the_folder(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys; from minigrad.kernels import jit; before = jit._code_folder();"
        "read = pathlib.Path.read_bytes;"
        "pathlib.Path.read_bytes = lambda path: read(path) + b' ' * (path.name == 'softmax.py');"
        "sys.exit(jit._code_folder() == before)"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_folders_of_versions_that_were_not_used_for_long_are_removed(monkeypatch: Any, tmp_path: Path) -> None:
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    for number in range(2 * jit._KEPT):
        (tmp_path / "kernels" / str(number)).mkdir(parents=True)
        os.utime(tmp_path / "kernels" / str(number), (number, number))
    folder = jit._code_folder()
    left = {path.name for path in (tmp_path / "kernels").iterdir()}
    assert folder is not None
    assert left == {folder.name, *map(str, range(jit._KEPT + 1, 2 * jit._KEPT))}


_COMPUTE = """
import numpy as np
from minigrad.kernels.jit import kernel

@kernel
def compute(x):
    return 2 * np.sqrt(x)

print(compute(64.0), sum(compute.stats.cache_hits.values()))
"""


def _run(program: Path, cache: Path) -> list[float]:
    """Return the result of the kernel of a program, and how often its compiled code was found."""
    environment = os.environ | {"MINIGRAD_CACHE": str(cache), "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run([sys.executable, program], env=environment, capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


@pytest.mark.machines
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_a_second_copy_of_the_sources_finds_the_compiled_code_of_the_first(tmp_path: Path) -> None:
    found = []
    for age, clone in enumerate(("a", "b")):
        program = tmp_path / clone / "room" / "program.py"
        program.parent.mkdir(parents=True)
        program.write_text(_COMPUTE, encoding="utf-8")
        os.utime(program, (age, age))
        found.append(_run(program, tmp_path / "cache"))
    assert found == [[16, 0], [16, 1]]


@pytest.mark.machines
@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
def test_an_edit_of_a_kernel_in_another_folder_is_compiled(tmp_path: Path) -> None:
    """Numba itself compares the instructions, which name neither constants nor the functions that are called."""
    program, found = tmp_path / "program.py", []
    for expression in ("2 * np.sqrt(x)", "3 * np.sqrt(x)", "3 * np.log2(x)"):
        program.write_text(_COMPUTE.replace("2 * np.sqrt(x)", expression), encoding="utf-8")
        found.append(_run(program, tmp_path / "cache"))
    assert found == [[16, 0], [24, 0], [18, 0]]


def test_a_kernel_is_stored_after_its_first_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_FOLDER", tmp_path)
    assert not jit.is_stored(run_program)
    (tmp_path / "decoding").mkdir()
    (tmp_path / "decoding" / "machine.run_program-30.py311.nbi").touch()
    assert jit.is_stored(run_program)
    monkeypatch.setattr(jit, "_FOLDER", None)
    assert not jit.is_stored(run_program)


@pytest.mark.parametrize("content", [b"", b"stamp", b"\x80\x04"])
def test_a_damaged_file_of_compiled_code_counts_as_none(tmp_path: Path, content: bytes) -> None:
    files = jit.CodeFiles(str(tmp_path), "kernel", "stamp")
    files.save("types", "code")
    assert files.load("types") == "code"
    (code,) = tmp_path.glob("*.nbc")
    whole = code.read_bytes()
    code.write_bytes(content)
    assert files.load("types") is None
    code.write_bytes(whole)
    (index,) = tmp_path.glob("*.nbi")
    index.write_bytes(content)
    assert files.load("types") is None
    files.save("types", "code again")
    assert files.load("types") == "code again"
