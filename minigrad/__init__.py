"""minigrad: train, sample and understand small language models on a laptop CPU.

Names are fetched when first used, so that ``train.py --help`` answers before NumPy and Numba have loaded, and so that
the number of threads can still be chosen: it must be known before NumPy's matrix library starts.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from minigrad import hardware

if TYPE_CHECKING:
    import minigrad.gradcheck as gradcheck
    from minigrad import nn, ops, optim
    from minigrad.anomaly import detect_anomaly
    from minigrad.errors import GraphError, InputError, RunError, ShapeError
    from minigrad.graph import no_grad
    from minigrad.tensor import Tensor

__all__ = [
    "GraphError",
    "InputError",
    "RunError",
    "ShapeError",
    "Tensor",
    "detect_anomaly",
    "gradcheck",
    "nn",
    "no_grad",
    "ops",
    "optim",
]

_HOMES = {
    "GraphError": "errors",
    "InputError": "errors",
    "RunError": "errors",
    "ShapeError": "errors",
    "Tensor": "tensor",
    "detect_anomaly": "anomaly",
    "no_grad": "graph",
}

hardware.prepare()


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"minigrad.{_HOMES[name]}"), name)
    if name in __all__:
        return importlib.import_module(f"minigrad.{name}")
    raise AttributeError(f"module 'minigrad' has no attribute {name!r}")
