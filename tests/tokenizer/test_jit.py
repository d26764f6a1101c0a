import os
import re
import subprocess
import sys

import numba
import pytest

import tokenizer
from tokenizer.jit import KERNELS

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


def run(**environment):
    names = ("MINIGRAD_CACHE", "XDG_CACHE_HOME", "NUMBA_DISABLE_JIT")
    inherited = {key: value for key, value in os.environ.items() if key not in names}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=inherited | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_compiled_code_goes_to_the_cache_folder(tmp_path):
    run(MINIGRAD_CACHE=str(tmp_path), NUMBA_DISABLE_JIT="0")
    (folder,) = (tmp_path / "kernels").iterdir()
    assert folder.name.startswith("tokenizer-")
    assert any(file.name.startswith("heap.drop_smallest") for file in folder.rglob("*.nbi"))


def test_the_systems_cache_folder_is_the_default(tmp_path):
    name = "LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME"
    run(**{name: str(tmp_path)}, NUMBA_DISABLE_JIT="1")
    assert (tmp_path / "minigrad" / "kernels").is_dir()


def test_an_unwritable_cache_folder_only_costs_time(tmp_path):
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    run(MINIGRAD_CACHE=str(tmp_path / "file"), NUMBA_DISABLE_JIT="0")


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_no_kernel_is_compiled_for_more_than_two_kinds_of_arguments():
    tok = tokenizer.train(["to be or not to be"] * 2, vocab_size=300)
    tok.encode("to be")
    for name, function in KERNELS.items():
        # Numba tries a constant as a type of its own; that is not another kind.
        written = [re.sub(r"Literal\[int\]\(-?\d+\)", "int64", str(each)) for each in function.signatures]
        kinds = {re.sub(r"Literal\[bool\]\(\w+\)|omitted\(\w+\)", "bool", each) for each in written}
        assert len(kinds) <= 2, (name, kinds)
