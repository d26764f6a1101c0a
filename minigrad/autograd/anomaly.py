"""Find the operation that produced the first NaN or infinity.

A loss of NaN does not show which operation caused it. Inside ``with detect_anomaly():`` every operation is checked,
forward and backward. The first one that turns finite values into NaN or infinity is named, with the line that called
it. The check reads every array once more, so training uses it only to repeat a step that went wrong.
"""

from __future__ import annotations

import contextlib
import os
import traceback
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.autograd.gradients import Backward, Deferred
from minigrad.autograd.observers import Gradients, Observer, RecordedOperation, Result, watch
from minigrad.errors import RunError
from minigrad.typing import Array

_PACKAGE = str(Path(__file__).parents[1]) + os.sep


class AnomalyError(RunError):
    """An operation turned finite values into NaN or infinity."""


@contextlib.contextmanager
def detect_anomaly() -> Iterator[None]:
    """Raise AnomalyError at the first operation in the block that computes NaN or infinity from finite values.

    >>> from minigrad import Tensor
    >>> with detect_anomaly():
    ...     Tensor([-1.0]).log()
    Traceback (most recent call last):
    minigrad.autograd.anomaly.AnomalyError: log made 1 NaN and 0 infinities out of finite input, called at ...
    """
    with watch(_Detector()):
        yield


class _Detector(Observer):
    """The observer that checks every result and every gradient, and so what an update uses."""

    def __init__(self) -> None:
        self._call_sites: weakref.WeakKeyDictionary[Backward, str] = weakref.WeakKeyDictionary()

    @contextlib.contextmanager
    def forward(
        self, name: str, arrays: Sequence[Array], options: dict[str, Any]
    ) -> Iterator[Callable[[Result], Result]]:
        where = _call_site()

        def check(result: Result) -> Result:
            _check(f"{name} made", "input", where, arrays, np.asarray(result[0]))
            self._call_sites[result[1]] = where
            return result

        yield check

    @contextlib.contextmanager
    def backward(self, node: RecordedOperation, dy: Array) -> Iterator[Callable[[Gradients], Gradients]]:
        where = self._call_sites.get(node.backward, "unknown") if node.backward is not None else "unknown"

        def check(gradients: Gradients) -> Gradients:
            computed = [each.array() if isinstance(each, Deferred) else each for each in gradients]
            for gradient in computed:
                if gradient is not None:
                    _check(f"the backward of {node.name} made", "gradients", where, [dy], gradient)
            return computed

        yield check


def _call_site() -> str:
    """Return file and line of the innermost caller outside this package."""
    for frame in reversed(traceback.extract_stack()):
        if not frame.filename.startswith((_PACKAGE, contextlib.__file__)):
            return f"{frame.filename}:{frame.lineno}"
    return "unknown"


def _check(what: str, source: str, where: str, inputs: Sequence[Array], output: Array) -> None:
    """Raise AnomalyError if `output` has a NaN and no input has one, or an infinity and all inputs are finite."""
    # Masks contain -inf on purpose, so an output may be infinite where an input is.
    if not np.issubdtype(output.dtype, np.floating) or np.isfinite(output).all():
        return
    floats = [x for x in inputs if np.issubdtype(x.dtype, np.floating)]
    nans = int(np.isnan(output).sum())
    was_nan, was_infinite = (any(test(x).any() for x in floats) for test in (np.isnan, np.isinf))
    if not was_nan and (nans or not was_infinite):
        infinities, kind = int(np.isinf(output).sum()), "infinite" if was_infinite else "finite"
        raise AnomalyError(f"{what} {nans} NaN and {infinities} infinities out of {kind} {source}, called at {where}")
