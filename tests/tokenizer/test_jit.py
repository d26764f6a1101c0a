import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import tokenizer
from tokenizer import jit
from tokenizer.jit import KERNELS

PACKAGE = Path(tokenizer.__file__).parent
# One small kernel is enough to see where compiled code goes, and compiles in an instant.
PROGRAM = """
import numba
before = numba.config.CACHE_DIR
import numpy as np
import tokenizer.structures.heap
assert numba.config.CACHE_DIR == before
heap = np.array([[3, 0], [1, 0]])
tokenizer.structures.heap.drop_smallest(heap, 2)
print(heap[0, 0])
"""


def run(folder=None, **environment):
    names = ("MINIGRAD_CACHE", "XDG_CACHE_HOME", "NUMBA_DISABLE_JIT")
    inherited = {key: value for key, value in os.environ.items() if key not in names}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=folder,
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


@pytest.mark.machines
def test_compiled_code_goes_to_the_cache_folder(tmp_path):
    run(MINIGRAD_CACHE=str(tmp_path), NUMBA_DISABLE_JIT="0")
    (folder,) = (tmp_path / "kernels").iterdir()
    assert folder.name.startswith("tokenizer-")
    assert any(file.name.startswith("heap.drop_smallest") for file in folder.rglob("*.nbi"))


@pytest.mark.machines
def test_the_systems_cache_folder_is_the_default(tmp_path):
    name = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
    run(**{name: str(tmp_path)}, NUMBA_DISABLE_JIT="1")
    assert (tmp_path / "minigrad" / "kernels").is_dir()


@pytest.mark.machines
def test_an_unwritable_cache_folder_only_costs_time(tmp_path):
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    run(MINIGRAD_CACHE=str(tmp_path / "file"), NUMBA_DISABLE_JIT="0")


@pytest.mark.machines
def test_a_copy_of_the_same_sources_uses_the_same_code(tmp_path):
    for place in ("a", "b"):
        shutil.copytree(PACKAGE, tmp_path / place / "tokenizer", ignore=shutil.ignore_patterns("__pycache__"))
        run(tmp_path / place, MINIGRAD_CACHE=str(tmp_path), NUMBA_DISABLE_JIT="0")
        compiled = {file: file.stat().st_mtime_ns for file in (tmp_path / "kernels").rglob("*.nbc")}
        assert compiled
        if place == "a":
            first = compiled
    assert compiled == first


def test_two_processes_that_write_at_the_same_time_take_no_file_from_each_other(tmp_path, monkeypatch):
    ours, theirs = (jit.CodeFiles(str(tmp_path), "kernel", "stamp") for _ in range(2))
    write_data = ours._save_data

    def interrupted(name, data):
        with monkeypatch.context() as patch:
            patch.setattr(theirs, "_load_index", dict)  # it was read before ours was written
            theirs.save("float64", "their code")
        write_data(name, data)

    ours._save_data = interrupted
    ours.save("float32", "our code")
    assert [ours.load(key) for key in ("float32", "float64")] == ["our code", "their code"]


@pytest.mark.machines
def test_a_change_in_any_room_makes_a_new_folder(tmp_path):
    copy = tmp_path / "tokenizer"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (None, "jit.py", "structures/hash_table.py", "text/word_rules.py"):
        if file:
            with (copy / file).open("a", encoding="utf-8") as source:
                source.write("# changed\n")
        run(tmp_path, MINIGRAD_CACHE=str(tmp_path), NUMBA_DISABLE_JIT="1")
    assert len(list((tmp_path / "kernels").iterdir())) == 4


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_a_full_disk_only_costs_time(monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    tries = []
    monkeypatch.setattr(jit.CodeFiles, "save", lambda *_: tries.append(1) or fail())
    monkeypatch.setattr(jit, "KERNELS", {})

    @jit.kernel
    def one_more(number):
        return number + 1

    assert one_more(2) == 3
    assert tries or jit.FOLDER is None


def test_every_kernel_has_a_name_of_its_own():
    defined = [
        f"{path.stem}.{node.name}"
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and any(ast.unparse(each) == "kernel" for each in node.decorator_list)
    ]
    assert sorted(defined) == sorted(KERNELS)


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_no_kernel_is_compiled_for_more_than_two_kinds_of_arguments():
    tok = tokenizer.train(["to be or not to be"] * 2, vocab_size=300)
    tok.encode("to be")
    for name, function in KERNELS.items():
        # Numba tries a constant as a type of its own; that is not another kind.
        written = [re.sub(r"Literal\[int\]\(-?\d+\)", "int64", str(each)) for each in function.signatures]
        kinds = {re.sub(r"Literal\[bool\]\(\w+\)|omitted\(\w+\)", "bool", each) for each in written}
        assert len(kinds) <= 2, (name, kinds)


def test_folders_of_versions_that_were_not_used_for_long_are_removed(monkeypatch, tmp_path):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path))
    for number in range(20):
        (tmp_path / "kernels" / f"tokenizer-{number}").mkdir(parents=True)
        os.utime(tmp_path / "kernels" / f"tokenizer-{number}", (number, number))
    (tmp_path / "kernels" / "tokenizer-gone").symlink_to(tmp_path / "nowhere")  # as one that is removed meanwhile
    folder = jit._code_folder()
    assert folder is not None
    (tmp_path / "kernels" / "tokenizer-gone").unlink()
    folder = jit._code_folder()
    left = {path.name for path in (tmp_path / "kernels").iterdir()}
    assert left == {folder.name, *(f"tokenizer-{number}" for number in range(13, 20))}


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
