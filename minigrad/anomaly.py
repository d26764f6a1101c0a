"""Find the operation that made the first NaN or infinity.

A loss of NaN says nothing about where it began. Inside ``with detect_anomaly():`` every operation is checked, forward
and backward, and the first one that turns finite numbers into NaN or infinity is named, with the line that called it.
The check reads every array once more, so training turns it on only to repeat a step that went wrong.
"""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad.errors import RunError

_enabled = False
_HERE = str(Path(__file__).parent)


class AnomalyError(RunError):
    """An operation turned finite numbers into NaN or infinity."""


def enabled() -> bool:
    """Whether operations are being checked."""
    return _enabled


@contextlib.contextmanager
def detect_anomaly() -> Iterator[None]:
    """Check every operation inside the block; raises AnomalyError at the first NaN or infinity that appears.

    >>> from minigrad import Tensor
    >>> with detect_anomaly():
    ...     Tensor([-1.0]).log()
    Traceback (most recent call last):
    minigrad.anomaly.AnomalyError: log made 1 NaN and 0 infinities out of finite input, called at ...
    """
    global _enabled
    before, _enabled = _enabled, True
    try:
        yield
    finally:
        _enabled = before


def call_site() -> str:
    """Return file and line of the innermost caller outside this package."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith(_HERE):
            return f"{frame.filename}:{frame.lineno}"
    return "unknown"


def check_forward(name: str, inputs: Sequence[NDArray[Any]], output: NDArray[Any]) -> None:
    """Raise if `output` has a NaN or an infinity that `inputs` did not bring."""
    _check(f"{name} made", "input", call_site(), inputs, output)


def check_backward(name: str, where: str, dy: NDArray[Any], gradients: Sequence[NDArray[Any] | None]) -> None:
    """Raise if one of `gradients` has a NaN or an infinity although `dy` is finite."""
    for gradient in gradients:
        if gradient is not None:
            _check(f"the backward of {name} made", "gradients", where, [dy], gradient)


def _check(what: str, source: str, where: str, inputs: Sequence[NDArray[Any]], output: NDArray[Any]) -> None:
    # Masks are written with -inf on purpose, so an infinity that was already in the input is no anomaly.
    if not np.issubdtype(output.dtype, np.floating) or np.isfinite(output).all():
        return
    floats = [x for x in inputs if np.issubdtype(x.dtype, np.floating)]
    nans = int(np.isnan(output).sum())
    was_nan = any(np.isnan(x).any() for x in floats)
    was_infinite = any(np.isinf(x).any() for x in floats)
    if (nans and not was_nan) or not (was_nan or was_infinite):
        infinities = int(np.isinf(output).sum())
        raise AnomalyError(f"{what} {nans} NaN and {infinities} infinities out of finite {source}, called at {where}")
