"""Replicas of a small model in copies of this process.

Only one thread of a process runs Python at a time. In a small model the kernels take so little time that replicas in
threads often wait for each other's Python code, and waking a thread costs more than a short kernel. Copies of the
process do not wait for each other. They compute the same bits as threads: before each step they get the new weights,
and they write their gradients into memory that all have in common.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from minigrad.distributed.world import ALONE, World
from minigrad.kernels import threads
from minigrad.nn.language_model import LanguageModel
from minigrad.optim.flat import Segment, gradient_array
from minigrad.system import forks
from minigrad.training.parallel import Assignment, Replicas, replica
from minigrad.typing import Array


def shared_array(size: int, dtype: DTypeLike) -> Array:
    """Return a flat array of zeros, of shape (size,), that this process has in common with its later copies."""
    return np.frombuffer(mmap.mmap(-1, max(size, 1) * np.dtype(dtype).itemsize), dtype, size)


class Copies(Replicas):
    """A model and its replicas; each replica after the first is in a copy of this process."""

    def __init__(self, model: LanguageModel, count: int, seed: int = 0, world: World = ALONE, parts: int = 1) -> None:
        self._weights: dict[int, tuple[Array, Array]] = {}  # by address: those of the model, and those of all replicas
        super().__init__(model, count, seed, world, parts)
        self._copies: list[forks.Fork] = []

    def new_replica(self, model: LanguageModel) -> LanguageModel:
        """Return one more replica; its memory is common to all processes, and its weights to all replicas."""

        def allocate(segment: Segment) -> tuple[Array, Array]:
            size, dtype = segment.data.size, segment.data.dtype
            address = segment.data.ctypes.data
            if address not in self._weights:
                self._weights[address] = segment.data, shared_array(size, dtype)
            return self._weights[address][1], shared_array(size, dtype)

        return replica(model, allocate)

    def compute(self, tasks: Sequence[Assignment]) -> list[float]:
        """Let each replica do its task in its process; return the mean losses."""
        if len(tasks) == 1:
            return super().compute(tasks)
        if not self._copies:  # made late, so that they begin with everything that is compiled
            numbers = range(1, len(self.models))
            self._copies = [forks.Fork(functools.partial(self._answer, number)) for number in numbers]
        for newest, common in self._weights.values():
            common[:] = newest
        try:
            return self._ask_all(tasks)
        except BaseException:
            self._copies = []  # they may still compute; the next ones begin anew
            raise

    def _ask_all(self, tasks: Sequence[Assignment]) -> list[float]:
        asked = list(zip(self._copies, tasks[1:], strict=False))
        for each, task in asked:
            each.ask(task)
        with threads.alone():
            losses = [self.work_on(0, tasks[0])]
        for (each, _), parameters in zip(asked, self._parameters[1:], strict=False):
            loss, having = each.answer()
            for parameter, has_gradient in zip(parameters, having, strict=True):
                if has_gradient:
                    parameter.grad = gradient_array(parameter)  # the copy has written it
            losses.append(loss)
        return losses

    def _answer(self, number: int, task: Assignment | None) -> Any:
        """Do the task of a replica, in its process; return the loss, and which parameters have gradients.

        Without a task, return what the model measured in the last one.
        """
        if task is None:
            return self.models[number].measurements()
        parameters = self._parameters[number]
        for parameter in parameters:
            parameter.discard_grad()
        loss = self.work_on(number, task)
        return loss, [parameter.has_gradient for parameter in parameters]

    def each_measured(self, count: int) -> list[dict[str, list[float]]]:
        """Return what each of the first `count` replicas measured."""
        asked = self._copies[: count - 1]
        for each in asked:
            each.ask(None)
        return [self.models[0].measurements(), *(each.answer() for each in asked)]
