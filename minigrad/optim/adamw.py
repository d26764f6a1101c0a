"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.kernels.rowwise.updates import AdamWFactors, adamw_update
from minigrad.optim.division import Part
from minigrad.optim.optimizer import Optimizer
from minigrad.optim.settings import GroupSettings, checked
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


class AdamW(Optimizer):
    r"""Adam with decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101, algorithm 2).

    $m \leftarrow \beta_1 m + (1-\beta_1) g$, $v \leftarrow \beta_2 v + (1-\beta_2) g^2$, and with the corrected
    $\hat m = m / (1-\beta_1^t)$, $\hat v = v / (1-\beta_2^t)$:
    $w \leftarrow w - \eta\, (\hat m / (\sqrt{\hat v} + \epsilon) + \lambda w)$.
    All parameters share t, the number of steps. Groups, and which parameters are decayed: see `Optimizer`.
    Raises InputError unless both betas are at least 0 and at most `LARGEST_DECAY`, and eps is at least 1e-19.

    >>> from minigrad import nn
    >>> first, last = nn.Linear(2, 3), nn.Linear(3, 1)
    >>> optimizer = AdamW([{"params": first.parameters(), "lr": 1e-4}, {"params": last.parameters()}], lr=1e-3)
    """

    moment_names = ("m", "v")

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[GroupSettings],
        lr: float = 1e-3,
        *,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
        weight_decay: float = 0.1,
        decay_vectors: bool = False,
    ) -> None:
        super().__init__(parameters, lr=lr, weight_decay=weight_decay, decay_vectors=decay_vectors)
        if not isinstance(betas, Sequence) or len(betas) != 2:
            raise InputError(f"betas of {type(self).__name__} are two numbers, as in (0.9, 0.95), not {betas!r}")
        self.betas = checked(self, "beta1", betas[0]), checked(self, "beta2", betas[1])
        self.eps = checked(self, "eps", eps)

    def update(self, part: Part, span: slice, lr: float, gradient_scale: float) -> None:
        """Run the kernel on a span of parameters."""
        beta1, beta2 = (float(part.segment.data.dtype.type(beta)) for beta in self.betas)  # as the kernel rounds them
        factors = AdamWFactors(
            beta1=beta1,
            beta2=beta2,
            step_size=lr / (1 - beta1**self.steps),
            correction=1 / (1 - beta2**self.steps),
            eps=self.eps,
            keep=1 - lr * part.decay,
            gradient_scale=gradient_scale,
        )
        m, v = part.moments_of(span)
        adamw_update(part.segment.data[span], part.segment.gradient[span], m, v, factors)
