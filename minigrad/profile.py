"""Where the time of a training step goes: seconds, operations and bytes of every operation, forward and backward.

While a `Profile` is running, `@op` and the walk back through the graph report to it. An operation inside another one
(a layer that is computed again in its own backward pass) is counted where it runs, not twice. Measuring costs some
microseconds per operation and changes no number.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def _matmul(a: Array, b: Array) -> float:
    lead, columns = np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), b.shape[-1] if b.ndim > 1 else 1
    return 2.0 * math.prod((*lead, *a.shape[-2:], columns))


def _attention(
    q: Array, k: Array, *_: Array, offsets: Array, key_ranges: Any = None, visible: Any = None, **more: Any
) -> float:
    """Two products, scores and mixture, for each head and each pair of a query and a key that it sees."""
    lengths = np.diff(offsets)
    keys = lengths if key_ranges is None else np.diff(key_ranges)[:, 0]
    pairs = float(np.sum(visible) if visible is not None else (lengths * (2 * keys - lengths + 1)).sum() / 2)
    return 4.0 * (pairs + float(np.sum(more.get("has_own", 0)))) * q.shape[1] * q.shape[2]


_OPERATIONS: dict[str, tuple[Callable[..., float], float, float]] = {
    # operations of the product itself, how often the forward pass does as much, and the backward pass
    "linear": (lambda x, weight: 2.0 * x.size * weight.shape[0], 1, 2),
    "matmul": (_matmul, 1, 2),
    "swiglu_linear": (lambda gate, up, weight: 2.0 * gate.size * weight.shape[0], 1, 2),
    "linear_cross_entropy": (lambda x, weight, targets: 2.0 * x.size * weight.shape[0], 3, 0),  # 1 without a gradient
    "attention": (_attention, 1, 2.5),  # of its two products the backward pass makes the scores again
    "attention_with_own_key": (_attention, 1, 2.5),
}
"""What a multiplication and an addition each count as one; operations without products are measured by their bytes."""


def _new_bytes(made: Sequence[Any], given: Sequence[Any]) -> int:
    """Return the size of the memory behind the arrays `made` that none of `given` lies in.

    An array that is made is mostly handed on as a view of another shape, so what counts is the array that owns the
    memory, and it counts once however many views it has.
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
    """What one operation came to, forward or backward."""

    name: str
    phase: str
    calls: int = 0
    seconds: float = 0.0
    operations: float = 0.0
    bytes_moved: int = 0  # of what it was given and what it returned
    bytes_new: int = 0  # of arrays that it made and handed on or kept


class Profile:
    """Sums by operation and phase over all steps measured; a context manager around each step."""

    def __init__(self) -> None:
        self.lines: dict[tuple[str, str], Line] = {}
        self.steps, self.seconds = 0, 0.0
        self._inner: list[float] = []  # seconds spent inside each measurement under way, by others within it
        self._began = 0.0

    def __enter__(self) -> Profile:
        _running.profile, self._began = self, time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds += time.perf_counter() - self._began
        self.steps += 1
        _running.profile = None

    @contextlib.contextmanager
    def measure(self, name: str, phase: str) -> Iterator[Line]:
        """Time the block, and hand out the line to note operations and bytes on."""
        line = self.lines.setdefault((name, phase), Line(name, phase))
        self._inner.append(0.0)
        start = time.perf_counter()
        try:
            yield line
        finally:
            taken = time.perf_counter() - start
            line.calls += 1
            line.seconds += taken - self._inner.pop()
            if self._inner:
                self._inner[-1] += taken

    def note_forward(
        self,
        line: Line,
        arrays: Sequence[Array],
        options: dict[str, Any],
        y: Array,
        kept: Sequence[Array],
        learns: bool,
    ) -> None:
        """Note what an operation worked on, what it keeps for a backward pass, and whether there will be one."""
        line.bytes_moved += sum(array.nbytes for array in arrays) + y.nbytes
        given = [*arrays, *(option for option in options.values() if isinstance(option, np.ndarray))]
        line.bytes_new += _new_bytes([y, *kept], given)
        if line.name in _OPERATIONS:
            count, forward, backward = _OPERATIONS[line.name]
            operations = count(*arrays, **options)
            line.operations += operations * (forward if learns else 1)
            if learns:
                backwards = self.lines.setdefault((line.name, "backward"), Line(line.name, "backward"))
                backwards.operations += backward * operations

    def note_backward(self, line: Line, dy: Array, gradients: Sequence[Any]) -> None:
        """Note what a backward function was given and returned."""
        given = [each for each in gradients if each is not None]
        line.bytes_moved += dy.nbytes + sum(math.prod(each.shape) * each.dtype.itemsize for each in given)
        line.bytes_new += _new_bytes([each for each in given if isinstance(each, np.ndarray)], [dy])

    def table(self, matmul_rate: float, replicas: int = 1) -> str:
        """Lay out the sums per step, the slowest operation first, and how much of the step is products at full speed.

        `matmul_rate` is what this machine's matrix products reach, in operations per second. Where `replicas` share the
        texts of a step, the lines are those of one, the others do the same beside it.
        """
        if not self.steps:
            return "no step was measured"
        steps = self.steps
        width = max((len(name) for name, _ in self.lines), default=0)
        total = replicas * sum(line.operations for line in self.lines.values())
        header = f"{'operation':<{width}}  {'':<8}  {'calls':>6} {'ms':>9} {'share':>6} {'GFLOP/s':>8} {'GB/s':>7} "
        rows = [f"one of {replicas} threads, each with its part of the texts"] if replicas > 1 else []
        rows.append(header + f"{'new MB':>8}")
        for line in sorted(self.lines.values(), key=lambda line: -line.seconds):
            if not line.calls:
                continue
            seconds = max(line.seconds, 1e-12)
            rate = f"{line.operations / seconds / 1e9:8.1f}" if line.operations else f"{'':8}"
            rows.append(
                f"{line.name:<{width}}  {line.phase:<8}  {line.calls / steps:6.0f} {1e3 * line.seconds / steps:9.2f} "
                f"{line.seconds / self.seconds:6.1%} {rate} {line.bytes_moved / seconds / 1e9:7.1f} "
                f"{line.bytes_new / steps / 1e6:8.1f}"
            )
        rest = self.seconds - sum(line.seconds for line in self.lines.values())
        rows.append(f"{'everything else':<{width + 10}}  {'':6} {1e3 * rest / steps:9.2f} {rest / self.seconds:6.1%}")
        rows.append(f"{'one step':<{width + 10}}  {'':6} {1e3 * self.seconds / steps:9.2f}")
        rows.append(
            f"products: {total / steps / 1e9:,.1f} GFLOP a step; at this machine's {matmul_rate / 1e9:,.0f} GFLOP/s "
            f"they alone would take {total / matmul_rate / self.seconds:.0%} of the time"
        )
        return "\n".join(rows)


class _Running(threading.local):
    profile: Profile | None = None


_running = _Running()


def running() -> Profile | None:
    """Return the profile that is measuring this thread, if any."""
    return _running.profile
