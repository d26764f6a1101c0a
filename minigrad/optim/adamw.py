"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from minigrad.autograd import observers
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.kernels.rowwise.adamw import AdamWFactors, adamw_update, sum_of_squares
from minigrad.optim.clip import clip_factor
from minigrad.optim.flat import Segment, distinct_parameters, gradient_array, segments
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
    A step changes only parameters that have a gradient (`Tensor.has_gradient`): one that the loss does not depend on is
    neither decayed nor moved, and a frozen one is skipped until it is trained again. All share t, the number of steps.
    Raises InputError if no parameter requires a gradient.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.1,
    ) -> None:
        self.parameters = distinct_parameters(parameters)
        self.lr, self.betas, self.eps, self.weight_decay = lr, betas, eps, weight_decay
        self.steps = 0
        self._groups: list[_Group] = []
        self._placed: list[Array | None] | None = None  # the memory of each parameter that the groups are made for
        self._place()

    def step(self, lr: float | None = None, max_norm: float = math.inf) -> float:
        """Clip the gradient to `max_norm` and update every parameter that has one; return the norm before clipping.

        A norm that is not finite is returned and nothing is changed.
        """
        self._place()
        self._collect_gradients()
        with observers.update("AdamW"):
            runs = [(group, run) for group in self._groups for run in group.segment.runs()]
            norm = math.sqrt(math.fsum(sum_of_squares(group.segment.gradient[run]) for group, run in runs))
            if math.isfinite(norm):
                rate = self.lr if lr is None else lr
                self._update(runs, rate, clip_factor(norm, max_norm))
        return norm

    def _update(self, runs: list[tuple[_Group, slice]], rate: float, gradient_scale: float) -> None:
        self.steps += 1
        beta1, beta2 = self.betas
        for group, run in runs:
            factors = AdamWFactors(
                beta1=beta1,
                beta2=beta2,
                step_size=rate / (1 - beta1**self.steps),
                correction=1 / (1 - beta2**self.steps),
                eps=self.eps,
                keep=1 - rate * group.decay,
                gradient_scale=gradient_scale,
            )
            segment = group.segment
            adamw_update(segment.data[run], segment.gradient[run], group.m[run], group.v[run], factors)
        for parameter in self.parameters:
            parameter.version.count += parameter.has_gradient

    def zero_grad(self) -> None:
        """Treat every gradient as zero; the next one overwrites it (see `Tensor.discard_grad`)."""
        for parameter in self.parameters:
            parameter.discard_grad()

    def _place(self) -> None:
        """Follow the parameters: `Module.initialise` gives them other memory, and freezing changes which are trained.

        A parameter that is trained before and after keeps its moments; those of all others are zero.
        """
        placed = [parameter.data if parameter.requires_grad else None for parameter in self.parameters]
        if self._placed is not None and all(map(operator.is_, placed, self._placed)):
            return
        trained = [parameter for parameter in self.parameters if parameter.requires_grad]
        if not trained:
            raise InputError(
                f"an optimizer needs parameters that require a gradient; of the {len(placed)} given, none does"
            )
        before = self._moments_by_id()
        matrices = [parameter for parameter in trained if parameter.ndim >= 2]
        vectors = [parameter for parameter in trained if parameter.ndim < 2]
        self._groups = [_Group.of(segment, self.weight_decay) for segment in segments(matrices)]
        self._groups += [_Group.of(segment, 0.0) for segment in segments(vectors)]
        for key, pair in self._moments_by_id().items():
            for new, old in zip(pair, before.get(key, ()), strict=False):
                new[...] = old
        self._gradients = [gradient_array(parameter) for parameter in trained]
        self._trained, self._placed = trained, placed

    def _collect_gradients(self) -> None:
        """Copy gradients that are in other arrays, because `grad` was set, into the flat ones."""
        for parameter, gradient in zip(self._trained, self._gradients, strict=True):
            if parameter.has_gradient and (found := gradient_array(parameter)) is not gradient:
                gradient[...] = found
                parameter.grad = gradient

    def moments(self) -> list[tuple[Array, Array]]:
        """Return the moments (m, v) of each parameter that requires a gradient, in their order and shapes.

        They are not copies, until a parameter is frozen or given other memory.
        """
        self._place()
        found = self._moments_by_id()
        return [found[id(parameter)] for parameter in self._trained]

    def _moments_by_id(self) -> dict[int, tuple[Array, Array]]:
        found: dict[int, tuple[Array, Array]] = {}
        for group in self._groups:
            pairs = zip(group.segment.views(group.m), group.segment.views(group.v), strict=True)
            found.update(zip(map(id, group.segment.members), pairs, strict=True))
        return found


@dataclass
class _Group:
    """A segment of parameters with the same weight decay, and their moments as flat arrays."""

    segment: Segment
    decay: float
    m: Array
    v: Array

    @classmethod
    def of(cls, segment: Segment, decay: float) -> _Group:
        return cls(segment, decay, np.zeros_like(segment.data), np.zeros_like(segment.data))
