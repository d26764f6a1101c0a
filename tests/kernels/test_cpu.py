"""The blocks for each kind of processor, and what a processor with fewer features computes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from minigrad.kernels import cpu
from minigrad.kernels.jit import host_features
from minigrad.system import hardware

ROOT = Path(__file__).parents[2]
AVX2, AVX512 = {"avx2", "fma", "avx"}, {"avx2", "fma", "avx", "avx512f"}


@pytest.mark.parametrize(
    ("features", "lanes", "registers"),
    [(AVX512, 16, 32), (AVX2, 8, 16), ({"avx2"}, None, 0), ({"neon"}, 4, 32), ({"sse4.2"}, None, 0), (set(), None, 0)],
)
def test_the_block_of_float32_fits_into_the_registers(features: Any, lanes: int | None, registers: int) -> None:
    block = cpu._float32_block(features)
    assert (block and block.lanes) == lanes
    if block is not None:
        assert (block.kind, block.chunk, block.columns % block.lanes) == ("float32", 1, 0)
        per_row = block.columns // block.lanes
        # Beside the sums, a row of the right factor and one element of the left one.
        assert registers // 2 < block.rows * per_row <= registers - per_row - 1


@pytest.mark.parametrize(("features", "lanes"), [(AVX512, 16), (AVX2, 8), ({"neon"}, 4), ({"avx2"}, 16), (set(), 16)])
def test_the_small_block_has_the_lanes_of_the_large_one_and_is_there_in_any_case(features: Any, lanes: int) -> None:
    small, large = cpu._small_block(features), cpu._float32_block(features)
    assert (small.lanes, small.columns % lanes) == (lanes, 0)
    assert large is None or (large.lanes == lanes and small.rows <= large.rows)
    assert small.columns >= 16


@pytest.mark.parametrize("allowed", [True, False])
@pytest.mark.parametrize(
    ("features", "kinds"),  # if Linux lets us have the tile registers, and if not
    [
        (AVX512 | {"avx512bf16", "amx-tile", "amx-bf16"}, ("tiles", "bfloat16")),
        (AVX512 | {"avx512bf16"}, ("bfloat16", "bfloat16")),
        (AVX512 | {"avx512bf16", "avx512fp16", "amx-tile", "amx-bf16"}, ("tiles", None)),  # Sapphire Rapids
        (AVX512 | {"avx512bf16", "avx512fp16"}, (None, None)),  # as a virtual machine without its tiles
        (AVX512 | {"avx512bf16", "avx512fp16", "sse4a"}, ("bfloat16", "bfloat16")),  # of AMD
        (AVX512 | {"amx-tile"}, (None, None)),
        (AVX512 | {"amx-tile", "amx-bf16"}, ("tiles", None)),
        (AVX512, (None, None)),
        ({"neon"}, (None, None)),
        (set(), (None, None)),
    ],
)
def test_the_block_of_bfloat16_is_the_best_that_may_be_used(
    monkeypatch: Any, features: Any, kinds: Any, allowed: bool
) -> None:
    monkeypatch.setattr(cpu, "may_use_tiles", lambda: allowed)
    block = cpu._bfloat16_block(features)
    assert (block and block.kind) == kinds[not allowed]


def test_tile_registers_are_requested_on_linux_only(monkeypatch: Any) -> None:
    monkeypatch.setattr(hardware.sys, "platform", "darwin")
    assert not hardware.may_use_tiles()


def test_the_split_block_is_that_of_tiles_with_three_parts() -> None:
    has_tiles = cpu.BFLOAT16 is not None and cpu.BFLOAT16.kind == "tiles"
    assert (cpu.SPLIT is not None) == has_tiles
    if cpu.SPLIT is not None and cpu.BFLOAT16 is not None:
        assert (cpu.SPLIT.rows, cpu.SPLIT.columns) == (cpu.BFLOAT16.rows, cpu.BFLOAT16.columns)
        assert (cpu.SPLIT.parts, cpu.BFLOAT16.parts) == (3, 1)
        assert cpu.SMALL is cpu.SPLIT


_WITHOUT_TILES = "+avx,+avx2,+fma,+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512bf16"


@pytest.mark.machines
@pytest.mark.parametrize("features", ["+avx,+avx2,+fma", _WITHOUT_TILES])
def test_a_processor_with_fewer_features_multiplies_as_well(features: str) -> None:
    """Numba takes the features it may use from the environment.

    `.ci/run` repeats all tests of kernels, operations and models as on a processor with AVX2 and as on the first ones
    of 64 bits, which run the plain loops.
    """
    if not host_features() >= {name[1:] for name in features.split(",")}:
        pytest.skip("this processor does not have these features")
    if features == _WITHOUT_TILES and cpu.BFLOAT16 is not None and cpu.BFLOAT16.kind == "bfloat16":
        pytest.skip(
            "this processor multiplies pairs of bfloat16 in vector registers: all other tests run on such a one"
        )
    names = "every_choice_multiplies or that_of_float64 or changes_no_bit or of_factors"
    tests = ("gemm/test_backend.py", "gemm/test_panels.py", "attention/test_factors.py")
    files = [str(ROOT / "tests/kernels" / name) for name in tests]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", *files, "-k", names, "--hypothesis-profile=few"]
    lesser = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider"],
        env=os.environ | lesser,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


_WITH_TILES = """
import sys
from minigrad.system import hardware
hardware.may_use_tiles = lambda: True
import pytest
sys.exit(pytest.main([*sys.argv[1:], "-n", "0"]))
"""


@pytest.mark.machines
def test_the_loops_for_tile_registers_multiply_in_plain_python() -> None:
    """Any processor can run them without the compiler; there they treat what is below 2^-126 as zero, too."""
    names = (
        "large_products or extreme_values and shape3 and auto-float32 or zeros_is_setting and shape5 and auto-float32"
    )
    files = [str(ROOT / "tests/kernels/gemm" / f"test_backend{name}.py") for name in ("", "_adding", "_extremes")]
    command = [sys.executable, "-c", _WITH_TILES, "-q", *files, "-k", names, "-p", "no:cacheprovider"]
    features = f"{_WITHOUT_TILES},+amx-tile,+amx-bf16"
    lesser = {"NUMBA_DISABLE_JIT": "1", "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    done = subprocess.run(command, env=os.environ | lesser, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "passed" in done.stdout
