"""minigrad: train, sample and understand small language models on a laptop CPU.

Names are imported when they are first used. So ``train.py --help`` does not wait for NumPy and Numba, and the number
of threads can be chosen before NumPy's matrix library starts.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from minigrad.errors import GraphError, InputError, RunError, ShapeError
from minigrad.system import hardware

if TYPE_CHECKING:
    from minigrad import generation, nn, ops, optim
    from minigrad.autograd import gradcheck
    from minigrad.autograd.anomaly import detect_anomaly
    from minigrad.autograd.graph import no_grad
    from minigrad.autograd.op import op
    from minigrad.autograd.tensor import Tensor, arange, ones, randn, zeros
    from minigrad.pages.graph.drawing import draw_graph
    from minigrad.pages.graph.stepping import step_through

__version__ = "0.1.0"

__all__ = ["GraphError", "InputError", "RunError", "ShapeError", "Tensor", "arange", "detect_anomaly", "draw_graph"]
__all__ += ["generation", "gradcheck", "nn", "no_grad", "ones", "op", "ops", "optim", "randn", "step_through", "zeros"]

_HOMES = {
    **dict.fromkeys(("Tensor", "arange", "ones", "randn", "zeros"), "autograd.tensor"),
    "detect_anomaly": "autograd.anomaly",
    "draw_graph": "pages.graph.drawing",
    "no_grad": "autograd.graph",
    "op": "autograd.op",
    "step_through": "pages.graph.stepping",
}
_MODULES = {"generation": "generation", "gradcheck": "autograd.gradcheck", "nn": "nn", "ops": "ops", "optim": "optim"}

hardware.prepare()


def __getattr__(name: str) -> Any:
    if name in ("gradcheck", *_HOMES):
        importlib.import_module("minigrad.ops")  # registers the operations that `a + b` and `x.sum()` look up
    if name in _MODULES:
        return importlib.import_module(f"minigrad.{_MODULES[name]}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"minigrad.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'minigrad' has no attribute {name!r}")


def __dir__() -> list[str]:
    """List the names that are imported when they are first used, too."""
    return sorted({*globals(), *__all__})
