"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from minigrad.autograd import observers
from minigrad.autograd.tensor import Tensor
from minigrad.kernels.rowwise.adamw import AdamWFactors, adamw_update, sum_of_squares
from minigrad.optim.clip import clip_factor
from minigrad.optim.flat import Segment, segments
from minigrad.typing import Array


def adamw_formula(w: Array, g: Array, m: Array, v: Array, factors: AdamWFactors) -> tuple[Array, Array, Array]:
    """Compute one AdamW update in plain NumPy; return the new (w, m, v).

    w are the parameters, g their gradient (first multiplied by `factors.gradient_scale`), m and v the running means of
    the gradient and of its square; all have one shape.
    """
    g = factors.gradient_scale * g
    m = factors.beta1 * m + (1 - factors.beta1) * g
    v = factors.beta2 * v + (1 - factors.beta2) * g * g
    return factors.keep * w - factors.step_size * m / (np.sqrt(factors.correction * v) + factors.eps), m, v


class AdamW:
    r"""Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2).

    $m \leftarrow \beta_1 m + (1-\beta_1) g$, $v \leftarrow \beta_2 v + (1-\beta_2) g^2$, and with the corrected
    $\hat m = m / (1-\beta_1^t)$, $\hat v = v / (1-\beta_2^t)$:
    $w \leftarrow w - \eta\, (\hat m / (\sqrt{\hat v} + \epsilon) + \lambda w)$.
    One-dimensional parameters (norm weights, biases) are not decayed: zero is not a sensible value for them.
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
        self._groups = [(each, weight_decay) for each in segments(matrices)] + [
            (each, 0.0) for each in segments(vectors)
        ]
        self._gradients = [parameter.grad for parameter in self.parameters if parameter.grad is not None]
        self._m = [np.zeros_like(segment.data) for segment, _ in self._groups]
        self._v = [np.zeros_like(segment.data) for segment, _ in self._groups]

    def step(self, learning_rate: float | None = None, max_norm: float = math.inf) -> float:
        """Clip the gradient to `max_norm` and update every parameter once; return the norm before clipping.

        A norm that is not finite is returned and nothing is changed.
        """
        self._collect_gradients()
        with observers.update("AdamW"):
            norm = math.sqrt(math.fsum(sum_of_squares(segment.gradient) for segment, _ in self._groups))
            if math.isfinite(norm):
                rate = self.learning_rate if learning_rate is None else learning_rate
                self._update(rate, clip_factor(norm, max_norm))
        return norm

    def _update(self, rate: float, gradient_scale: float) -> None:
        self.steps += 1
        beta1, beta2 = self.betas
        for (segment, decay), m, v in zip(self._groups, self._m, self._v, strict=True):
            factors = AdamWFactors(
                beta1=beta1,
                beta2=beta2,
                step_size=rate / (1 - beta1**self.steps),
                correction=1 / (1 - beta2**self.steps),
                eps=self.eps,
                keep=1 - rate * decay,
                gradient_scale=gradient_scale,
            )
            adamw_update(segment.data, segment.gradient, m, v, factors)
            for parameter in segment.members:
                parameter.version.count += 1

    def zero_grad(self) -> None:
        """Treat every gradient as zero; the next one overwrites it (see `Tensor.discard_grad`)."""
        for parameter in self.parameters:
            parameter.discard_grad()

    def _collect_gradients(self) -> None:
        """Copy gradients that were replaced by other arrays, or by None, back into the flat ones; None counts as 0."""
        for parameter, gradient in zip(self.parameters, self._gradients, strict=True):
            if parameter.grad is not gradient:
                gradient[...] = 0 if parameter.grad is None else parameter.grad
                parameter.grad = gradient

    def moments(self) -> list[tuple[Array, Array]]:
        """Return the moments (m, v) of each parameter, in the order and the shapes of the parameters; not copies."""
        found: dict[int, tuple[Array, Array]] = {}
        for (segment, _), m, v in zip(self._groups, self._m, self._v, strict=True):
            found.update(_views(segment, m, v))
        return [found[id(parameter)] for parameter in self.parameters]


def _views(segment: Segment, m: Array, v: Array) -> dict[int, tuple[Array, Array]]:
    """Return the part of the flat moments that belongs to each parameter, by its id."""
    views, start = {}, 0
    for parameter in segment.members:
        stop = start + parameter.size
        views[id(parameter)] = m[start:stop].reshape(parameter.shape), v[start:stop].reshape(parameter.shape)
        start = stop
    return views
