"""The variables that change speed are noted as they were before minigrad sets its own, and named where they mislead."""

from __future__ import annotations

import pytest

from minigrad.system import environment, hardware
from tests.system.python_process import python

PROGRAM = """
import minigrad, os
from minigrad.system import environment, hardware
print(environment.FOUND, os.environ["OPENBLAS_NUM_THREADS"], hardware.describe().partition("64, ")[2])
"""


def test_the_variables_are_those_before_our_own_and_no_folders() -> None:
    given = {"MINIGRAD_THREADS": "1", "OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    said = python(PROGRAM, **given, MINIGRAD_CACHE="/nowhere", NUMBA_CACHE_DIR="/nowhere")
    assert said == f"{given} 1 MINIGRAD_THREADS=1, OMP_NUM_THREADS=2, OPENBLAS_NUM_THREADS=2"
    assert python(PROGRAM) == "{} 1"


def test_another_process_gets_the_variables_as_they_were() -> None:
    program = """
import os
before = dict(os.environ)
import minigrad
from minigrad.system import environment
print(environment.as_found() == before, dict(os.environ) == before)
"""
    assert python(program) == python(program, MINIGRAD_THREADS="1", NUMBA_CACHE_DIR="/nowhere") == "True False"


def test_the_description_of_the_machine_names_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "FOUND", {"NUMBA_CPU_NAME": "haswell", "OPENBLAS_CORETYPE": "Haswell"})
    assert hardware.describe().endswith(", NUMBA_CPU_NAME=haswell, OPENBLAS_CORETYPE=Haswell")


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({}, ""),
        ({"OMP_NUM_THREADS": "2", "NUMBA_DISABLE_JIT": "1"}, ""),  # tells of no processor
        (
            {"OPENBLAS_CORETYPE": "Haswell"},
            "OPENBLAS_CORETYPE=Haswell is set: libraries compute as on another processor, slower or faster than on "
            "this one; unset it to measure this one",
        ),
        (
            {"NUMBA_CPU_NAME": "haswell", "OPENBLAS_L2_SIZE": "512"},
            "OPENBLAS_L2_SIZE=512 and NUMBA_CPU_NAME=haswell are set: libraries compute as on another processor, "
            "slower or faster than on this one; unset them to measure this one",
        ),
    ],
)
def test_a_library_that_is_told_of_another_processor_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, str], said: str
) -> None:
    monkeypatch.setattr(environment, "FOUND", found)
    assert environment.other_processor() == said
