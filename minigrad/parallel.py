"""Data parallelism: several threads learn from one batch, each from texts of its own.

Threads that share every matrix product and every loop meet hundreds of times in a step, and at each meeting all wait
for the slowest and start afresh. Here each thread takes some of the texts through the whole model alone, from
embedding to gradient, and they meet once, to add up the gradients (what clusters call all-reduce). Every thread has a
replica of the model: the weights are the same memory, the gradients are its own.

A part's products must still be large beside the weights that each thread has to read and the gradient that it has to
write; `num_replicas` decides. Which numbers dropout drops depends on the number of replicas, so a run that is
continued needs as many threads as it began with.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad import hardware, nn
from minigrad.kernels import threads
from minigrad.language_model import LanguageModel

_ROWS_PER_WIDTH = 2  # measured: 10 rows for each number of width gain 20 to 30%, 4 gain 15%, 1 nothing, a sixth loses


def num_replicas(model: LanguageModel, batch_size: int, context: int) -> int:
    """Return how many parts a batch of `batch_size` texts of `context` tokens is best learned in: one, or a thread's.

    One, too, where BLAS cannot be told to keep to the thread that calls it.
    """
    count = hardware.threads()
    enough = batch_size * context >= count * _ROWS_PER_WIDTH * model.config.width
    return count if enough and batch_size % count == 0 and hardware.can_set_blas_threads() else 1


def replica(model: LanguageModel) -> LanguageModel:
    """Return a model with the same weights, in the same memory, and gradients of its own."""
    parameters = model.parameters()
    twins = [copy.copy(parameter) for parameter in parameters]
    for parameter, twin in zip(parameters, twins, strict=True):
        twin.place(parameter.data, np.zeros_like(parameter.data))
    return copy.deepcopy(model, {id(parameter): twin for parameter, twin in zip(parameters, twins, strict=True)})


class DataParallel:
    """A model and its replicas, one for each thread."""

    def __init__(self, model: LanguageModel, count: int) -> None:
        self.replicas = [model, *(replica(model) for _ in range(count - 1))]

    def backward(
        self, inputs: NDArray[Any], targets: NDArray[Any], *, seed: int = 0, step: int = 0, scale: float = 1.0
    ) -> float:
        """Add the gradient of the mean loss times `scale` to the model's; return the mean loss.

        Shapes: inputs and targets (B, T), B a multiple of the number of replicas. `seed` and `step` choose what dropout
        drops.
        """
        count = len(self.replicas)
        parts = list(zip(self.replicas, np.split(inputs, count), np.split(targets, count), strict=True))
        losses = np.zeros(count)

        def learn(number: int) -> None:
            model, given, wanted = parts[number]
            nn.set_step(model, seed, step * count + number)
            with np.errstate(all="ignore"):  # each thread has a setting of its own; callers look at the loss
                loss = model.loss(given, wanted)
                loss.backward(np.array(scale / count))
            losses[number] = loss.item()

        if count == 1:
            learn(0)
        else:
            with hardware.blas_on_one_thread():
                threads.side_by_side(learn, count)
            self._add_gradients()
        return float(losses.mean())

    def _add_gradients(self) -> None:
        first, *others = (model.parameters() for model in self.replicas)
        for other in others:
            for parameter, twin in zip(first, other, strict=True):
                assert parameter.grad is not None
                assert twin.grad is not None
                parameter.grad += twin.grad
                twin.discard_grad()

    def measurements(self) -> dict[str, Any]:
        """Return what the model measured in the last step, averaged over the replicas."""
        found = [model.measurements() for model in self.replicas]
        return {name: np.mean([each[name] for each in found], axis=0).tolist() for name in found[0]}
