"""AdamW: steps of even size in every direction, and a steady pull towards zero."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad.kernels.adamw import adamw_update, sum_of_squares
from minigrad.optim.clip import clip_factor
from minigrad.optim.flat import Run, runs
from minigrad.tensor import Tensor

Array = NDArray[Any]


class AdamW:
    r"""Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2).

    $m \leftarrow \beta_1 m + (1-\beta_1) g$, $v \leftarrow \beta_2 v + (1-\beta_2) g^2$, and with the corrected
    $\hat m = m / (1-\beta_1^t)$, $\hat v = v / (1-\beta_2^t)$:
    $w \leftarrow w - \eta\, (\hat m / (\sqrt{\hat v} + \epsilon) + \lambda w)$.
    One-dimensional parameters (norm weights, biases) are not decayed: zero is not where they should go.
    """

    def __init__(
        self,
        parameters: Sequence[Tensor],
        *,
        learning_rate: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.1,
    ) -> None:
        self.parameters = list({id(parameter): parameter for parameter in parameters}.values())
        self.learning_rate, self.betas, self.eps, self.weight_decay = learning_rate, betas, eps, weight_decay
        self.steps = 0
        matrices = [parameter for parameter in self.parameters if parameter.ndim >= 2]
        vectors = [parameter for parameter in self.parameters if parameter.ndim < 2]
        self._groups = [(run, weight_decay) for run in runs(matrices)] + [(run, 0.0) for run in runs(vectors)]
        self._gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        self._m = [np.zeros_like(run.data) for run, _ in self._groups]
        self._v = [np.zeros_like(run.data) for run, _ in self._groups]

    def step(self, learning_rate: float | None = None, max_norm: float = math.inf) -> float:
        """Update every parameter once; return the length of the gradient before clipping to `max_norm`.

        A length that is not finite is returned and nothing is changed.
        """
        self._collect_gradients()
        norm = math.sqrt(math.fsum(sum_of_squares(run.gradient) for run, _ in self._groups))
        if not math.isfinite(norm):
            return norm
        rate = self.learning_rate if learning_rate is None else learning_rate
        self.steps += 1
        beta1, beta2 = self.betas
        for (run, decay), m, v in zip(self._groups, self._m, self._v, strict=True):
            adamw_update(
                run.data,
                run.gradient,
                m,
                v,
                beta1=beta1,
                beta2=beta2,
                step_size=rate / (1 - beta1**self.steps),
                correction=1 / (1 - beta2**self.steps),
                eps=self.eps,
                keep=1 - rate * decay,
                clip=clip_factor(norm, max_norm),
            )
            for parameter in run.members:
                parameter.version.count += 1
        return norm

    def zero_grad(self) -> None:
        """Set every gradient to zero; the zeros themselves are only written where no gradient follows."""
        for parameter in self.parameters:
            parameter.discard_grad()

    def _collect_gradients(self) -> None:
        """Bring gradients that were replaced by other arrays, or by None, back into the flat ones; fill in zeros."""
        for parameter, gradient in zip(self.parameters, self._gradients, strict=True):
            if parameter.grad is not gradient:
                gradient[...] = 0 if parameter.grad is None else parameter.grad
                parameter.grad = gradient

    def moments(self) -> list[tuple[Array, Array]]:
        """Return the live moments (m, v) of each parameter, in the order and the shapes of the parameters."""
        found: dict[int, tuple[Array, Array]] = {}
        for (run, _), m, v in zip(self._groups, self._m, self._v, strict=True):
            found.update(_views(run, m, v))
        return [found[id(parameter)] for parameter in self.parameters]


def _views(run: Run, m: Array, v: Array) -> dict[int, tuple[Array, Array]]:
    views, start = {}, 0
    for parameter in run.members:
        stop = start + parameter.size
        views[id(parameter)] = m[start:stop].reshape(parameter.shape), v[start:stop].reshape(parameter.shape)
        start = stop
    return views
