"""What the compiler made of a kernel."""

from __future__ import annotations

import re
from typing import Any

import numba


def vector_loads(kernel: Any, signature: tuple[Any, ...]) -> set[str]:
    """Compile a kernel again, and return the kinds of vectors that its code loads, such as "<4 x float>"."""
    fresh = numba.jit(kernel.py_func, **(kernel.targetoptions | {"cache": False}))
    fresh.compile(signature)
    return set(re.findall(r"load (<\d+ x \w+>)", next(iter(fresh.inspect_llvm().values()))))
