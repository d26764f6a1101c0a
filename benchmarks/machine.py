"""The machine that a benchmark runs on, in one line: a benchmark of speed or memory prints it beside its figures."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))  # so a script that imports this file can import minigrad


def describe_machine() -> str:
    """Name the machine, its threads, the variables that change their speed, and what multiplies matrices there.

    What multiplies includes the core whose kernels OpenBLAS uses.
    """
    from minigrad.kernels.gemm import backend
    from minigrad.system import hardware

    return f"{hardware.describe()}; {backend.describe_arithmetic()}"
