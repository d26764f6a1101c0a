"""The environment variables that change how fast this machine computes, as they were when the process began.

`minigrad.system.hardware` imports this file before it changes the environment.
"""

from __future__ import annotations

import os

_PREFIXES = ("OPENBLAS_", "MKL_", "OMP_", "VECLIB_", "NUMBA_", "MINIGRAD_")
_FOLDERS = ("MINIGRAD_CACHE", "NUMBA_CACHE_DIR")  # they do not change the speed
# The variables that let a library compute as on another processor.
_PROCESSOR: tuple[str, ...] = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_ENABLE_INSTRUCTIONS", "MKL_DEBUG_CPU_TYPE")
_PROCESSOR += ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES", "NUMBA_ENABLE_AVX")


def changes_speed(name: str) -> bool:
    """Return whether a variable of this name may change the speed of products and kernels."""
    return name.startswith(_PREFIXES) and name not in _FOLDERS


# The variables that were set, with their values.
FOUND = {name: value for name, value in sorted(os.environ.items()) if changes_speed(name)}


def as_found() -> dict[str, str]:
    """Return the environment for another process, in which the variables that change speed are as they were.

    It would take the numbers that `minigrad.system.hardware` has written for this process for settings of the user.
    """
    return {name: value for name, value in os.environ.items() if not changes_speed(name)} | FOUND


def other_processor() -> str:
    """Return a warning if variables let libraries compute as on another processor, else ""."""
    told = [f"{name}={FOUND[name]}" for name in _PROCESSOR if name in FOUND]
    if not told:
        return ""
    are, them = ("are", "them") if len(told) > 1 else ("is", "it")
    return (
        f"{' and '.join(told)} {are} set: libraries compute as on another processor, slower or faster than on this "
        f"one; unset {them} to measure this one"
    )
