"""What every benchmark says of its machine."""

from __future__ import annotations

from benchmarks.machine import describe_machine
from minigrad.system import blas, hardware
from tests.source_files import BENCHMARKS, name_of


def test_the_machine_has_its_variables_and_the_core_of_openblas() -> None:
    said = describe_machine()
    assert said.startswith(hardware.describe())
    assert "BLAS is " in said
    assert said.endswith(f" for {blas.openblas_core()}") == bool(blas.openblas_core())


def test_no_benchmark_describes_it_in_another_way() -> None:
    texts = {name_of(path): path.read_text(encoding="utf-8") for path in BENCHMARKS}
    assert [name for name, text in texts.items() if "hardware.describe()" in text] == ["benchmarks/machine.py"]
