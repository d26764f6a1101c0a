"""A Python process of its own, for checks of what happens before NumPy loads."""

from __future__ import annotations

import os
import subprocess
import sys

from minigrad.system.environment import changes_speed

VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "OMP_NUM_THREADS")


def python(program: str, **variables: str) -> str:
    """Return what a program prints in an environment without variables that choose threads or processors."""
    environment = {name: value for name, value in os.environ.items() if not changes_speed(name)}
    result = subprocess.run(
        [sys.executable, "-c", program], env=environment | variables, capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()
