"""A profile of training steps: seconds, FLOPs and bytes of every operation, forward and backward.

A `Profile` observes the operations of the thread that opened it. The time of an operation inside another one (in a
layer that is recomputed during a backward pass) counts for the inner operation only. Measuring costs some microseconds
per operation and changes no result.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minigrad.autograd.gradients import Backward, saved_arrays
from minigrad.autograd.graph import is_recording
from minigrad.autograd.observers import Gradients, Observer, RecordedOperation, Result, active
from minigrad.typing import Array

FLOPS: dict[str, tuple[Callable[..., float], float, float | Callable[[Sequence[object]], float]]] = {}
"""FLOPs by operation: multiply and add count separately. A file that defines a matrix product adds its entry.

An entry has the FLOPs of one product, and the number of such products in the forward pass and in the backward pass,
which may depend on the parents of the operation: None for an argument that needs no gradient. For operations without
matrix products only bytes are counted.
"""


def _new_bytes(made: Sequence[Any], given: Sequence[Any]) -> int:
    """Return the size of the memory of the arrays `made`, without memory that the arrays `given` share.

    A new array is often returned as a view of another shape. The array that owns the memory is counted, once for all
    its views.
    """
    owners = {id(owner): owner for owner in map(_owner, made)}
    return sum(
        owner.nbytes for owner in owners.values() if not any(np.may_share_memory(owner, array) for array in given)
    )


def _owner(array: Array) -> Array:
    while isinstance(array.base, np.ndarray):
        array = array.base
    return array


@dataclass
class Line:
    """The totals of one operation, forward or backward."""

    name: str
    phase: str
    calls: int = 0
    seconds: float = 0.0
    flops: float = 0.0
    bytes_moved: int = 0  # of its arguments and its result
    bytes_new: int = 0  # of new arrays: its result and the arrays that its backward function saves


class Profile(Observer):
    """Totals by operation and phase over all measured steps; a context manager around each step."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], Line] = {}
        self.steps, self.seconds = 0, 0.0
        self._inner: list[float] = []  # for each open measurement, the seconds of the measurements inside it
        self._began, self._thread = 0.0, 0
        self._product_flops: weakref.WeakKeyDictionary[Backward, float] = weakref.WeakKeyDictionary()

    def __enter__(self) -> Profile:
        active.append(self)
        self._began, self._thread = time.perf_counter(), threading.get_ident()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began
        self.steps += 1
        active.remove(self)

    @contextlib.contextmanager
    def measure(self, name: str, phase: str) -> Iterator[Line]:
        """Time the block, and yield the line to which its FLOPs and bytes are to be added."""
        line = self.lines.setdefault((name, phase), Line(name, phase))
        self._inner.append(0.0)
        start = time.perf_counter()
        try:
            yield line
        finally:
            seconds = time.perf_counter() - start
            line.calls += 1
            line.seconds += seconds - self._inner.pop()
            if self._inner:
                self._inner[-1] += seconds

    @contextlib.contextmanager
    def forward(
        self, name: str, arrays: Sequence[Array], options: dict[str, Any]
    ) -> Iterator[Callable[[Result], Result]]:
        """Time a forward function, and count its FLOPs and bytes."""
        if threading.get_ident() != self._thread:
            yield lambda result: result
            return
        results: list[Result] = []

        def note(result: Result) -> Result:
            results.append(result)
            return result

        with self.measure(name, "forward") as line:
            yield note
        for y, backward in results:
            array = np.asarray(y)
            line.bytes_moved += sum(each.nbytes for each in arrays) + array.nbytes
            given = [*arrays, *(option for option in options.values() if isinstance(option, np.ndarray))]
            line.bytes_new += _new_bytes([array, *saved_arrays(backward)], given)
            if name in FLOPS:
                count, forward_passes, _ = FLOPS[name]
                flops = count(*arrays, **options)
                line.flops += flops * (forward_passes if is_recording() else 1)
                self._product_flops[backward] = flops

    @contextlib.contextmanager
    def backward(self, node: RecordedOperation, dy: Array) -> Iterator[Callable[[Gradients], Gradients]]:
        """Time a backward function and the accumulation of its gradients, and count its FLOPs and bytes."""
        if threading.get_ident() != self._thread:
            yield lambda gradients: gradients
            return
        flops = self._product_flops.get(node.backward, 0.0) if node.backward is not None else 0.0
        if flops:
            passes = FLOPS[node.name][2]
            flops *= passes(node.parents) if callable(passes) else passes
        with self.measure(node.name, "backward") as line:

            def note(gradients: Gradients) -> Gradients:
                given = [each for each in gradients if each is not None]
                line.flops += flops
                line.bytes_moved += dy.nbytes + sum(math.prod(each.shape) * each.dtype.itemsize for each in given)
                line.bytes_new += _new_bytes([each for each in given if isinstance(each, np.ndarray)], [dy])
                return gradients

            yield note

    def update(self, name: str) -> contextlib.AbstractContextManager[object]:
        """Time an update of parameters."""
        return self.measure(name, "update")

    def table(self, matmul_rate: float, replicas: int = 1) -> str:
        """Return a table of the totals per step, the slowest operation first.

        Its last line gives the share of the time that the FLOPs would take at `matmul_rate`, the rate of matrix
        products in FLOP/s that was measured before the run: over 100% if the machine was slower then. If `replicas`
        share the sequences of a step, the lines are those of one replica.
        """
        if not self.steps:
            return "no step was measured"
        steps = self.steps
        width = max((len(name) for name, _ in self.lines), default=0)
        total = replicas * sum(line.flops for line in self.lines.values())
        header = f"{'operation':<{width}}  {'':<8}  {'calls':>6} {'ms':>9} {'share':>6} {'GFLOP/s':>8} {'GB/s':>7} "
        rows = [f"one of {replicas} threads, each with its part of the sequences"] if replicas > 1 else []
        rows.append(header + f"{'new MB':>8}")
        for line in sorted(self.lines.values(), key=lambda line: -line.seconds):
            if not line.calls:
                continue
            seconds = max(line.seconds, 1e-12)
            rate = f"{line.flops / seconds / 1e9:8.1f}" if line.flops else f"{'':8}"
            moved = f"{line.bytes_moved / seconds / 1e9:7.1f} {line.bytes_new / steps / 1e6:8.1f}"
            if line.phase == "update":  # whose bytes are not counted
                moved = " " * len(moved)
            rows.append(
                f"{line.name:<{width}}  {line.phase:<8}  {line.calls / steps:6.0f} {1e3 * line.seconds / steps:9.2f} "
                f"{line.seconds / self.seconds:6.1%} {rate} {moved}"
            )
        rest = self.seconds - sum(line.seconds for line in self.lines.values())
        rows.append(f"{'everything else':<{width + 10}}  {'':6} {1e3 * rest / steps:9.2f} {rest / self.seconds:6.1%}")
        rows.append(f"{'one step':<{width + 10}}  {'':6} {1e3 * self.seconds / steps:9.2f}")
        rows.append(
            f"products: {total / steps / 1e9:,.1f} GFLOP a step; at {matmul_rate / 1e9:,.0f} GFLOP/s, measured before "
            f"the run, they alone would take {total / matmul_rate / self.seconds:.0%} of the time"
        )
        return "\n".join(rows)
