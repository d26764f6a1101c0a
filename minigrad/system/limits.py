"""Limits of the process that are too low for any run, found before NumPy and Numba load.

A library that gets no memory or no thread does not say so: it fails with another error, waits forever, or crashes.
"""

from __future__ import annotations

import sys
import threading

from minigrad.errors import RunError
from minigrad.system.units import format_bytes

_LEAST_MEMORY = 600_000_000  # bytes of addresses; Python, NumPy, Numba and the smallest model take 460 MB


def check_limits(threads: int) -> None:
    """Raise RunError if this process may use too little memory, or start too few threads."""
    if 0 <= (most := _address_space()) < _LEAST_MEMORY:
        raise RunError(
            f"this process may use {format_bytes(most)} of addresses (ulimit -v), and needs "
            f"{format_bytes(_LEAST_MEMORY)} for its libraries alone; raise the limit: ulimit -v unlimited"
        )
    done = threading.Event()
    started = [threading.Thread(target=done.wait, daemon=True) for _ in range(threads + 2)]  # one writes, one counts
    try:
        for thread in started:
            thread.start()
    except RuntimeError:
        raise RunError(
            f"this process cannot start the {len(started)} threads that it needs (ulimit -u); raise the limit, or end "
            "other programs"
        ) from None
    finally:
        done.set()


def _address_space() -> int:
    """Return the bytes of addresses that this process may use, or -1 without a known limit."""
    if sys.platform == "win32":
        return -1
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    return -1 if soft == resource.RLIM_INFINITY else soft
