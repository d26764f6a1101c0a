"""Data parallelism: the sequences of a batch are shared among threads, each with a replica of the model.

Threads that share every matrix product synchronise hundreds of times per step; each time all wait for the slowest, and
caches are cold. Here each thread takes some sequences through the whole model alone, forward and backward, and the
threads synchronise once, to add up the gradients (an all-reduce). The weights of all replicas are the same memory; each
has gradients of its own.

The products of one thread must still be large beside the weights that it reads and the gradient that it writes;
`num_replicas` decides. What dropout drops depends on the number of replicas, so a run that is continued needs as many
threads as it began with.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from minigrad import nn
from minigrad.kernels import threads
from minigrad.nn.language_model import LanguageModel
from minigrad.system import blas, hardware
from minigrad.typing import Array

ForwardBackward = Callable[[LanguageModel, Array, Array, Array], float]
"""Adds the gradient of the mean loss of some sequences, times a weight, to a model's gradients; returns the loss."""

_ROWS_PER_WIDTH = 2  # measured: 10 rows per channel gain 20 to 30%, 4 gain 15%, 1 gains nothing, a sixth loses


def num_replicas(model: LanguageModel, batch_size: int, context: int) -> int:
    """Return the number of replicas: one per thread if batches are large enough and divide evenly, else 1.

    It is also 1 where BLAS cannot be restricted to the thread that calls it.
    """
    count = hardware.threads()
    enough = batch_size * context >= count * _ROWS_PER_WIDTH * model.config.width
    return count if enough and batch_size % count == 0 and blas.can_set_threads() else 1


def replica(model: LanguageModel) -> LanguageModel:
    """Return a model with the same weights, in the same memory, and gradients of its own."""
    parameters = model.parameters()
    twins = [copy.copy(parameter) for parameter in parameters]
    for parameter, twin in zip(parameters, twins, strict=True):
        twin.bind(parameter.data, np.zeros_like(parameter.data))
    return copy.deepcopy(model, {id(parameter): twin for parameter, twin in zip(parameters, twins, strict=True)})


class Replicas:
    """A model and its replicas, one for each thread."""

    def __init__(self, model: LanguageModel, count: int) -> None:
        self.models = [model, *(replica(model) for _ in range(count - 1))]

    def run(
        self, work: ForwardBackward, inputs: Array, targets: Array, *, seed: int = 0, step: int = 0, scale: float = 1.0
    ) -> float:
        """Do `work` on every replica with its share of the batch, and add up the gradients; return the mean loss.

        Shapes: inputs and targets (B, T), B a multiple of the number of replicas. `seed` and `step` choose what dropout
        drops, `scale` multiplies the gradient.
        """
        count = len(self.models)
        shares = list(zip(self.models, np.split(inputs, count), np.split(targets, count), strict=True))
        losses = np.zeros(count)

        def work_on(number: int) -> None:
            model, tokens, wanted = shares[number]
            nn.set_step(model, seed, step * count + number)
            with np.errstate(all="ignore"):  # a setting of each thread; the training loop checks that values are finite
                losses[number] = work(model, tokens, wanted, np.array(scale / count))

        if count == 1:
            work_on(0)
        else:
            with blas.one_thread(otherwise=hardware.threads()):
                threads.side_by_side(work_on, count)
            self._add_gradients()
        return float(losses.mean())

    def _add_gradients(self) -> None:
        first, *others = (model.parameters() for model in self.models)
        for other in others:
            for parameter, twin in zip(first, other, strict=True):
                assert parameter.grad is not None
                assert twin.grad is not None
                parameter.grad += twin.grad
                twin.discard_grad()

    def measurements(self) -> dict[str, list[float]]:
        """Return what the model measured in the last step, averaged over the replicas."""
        found = [model.measurements() for model in self.models]
        return {name: np.mean([each[name] for each in found], axis=0).tolist() for name in found[0]}
