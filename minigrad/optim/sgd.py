"""SGD: a step against the gradient, with momentum."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.optim.division import Part
from minigrad.optim.optimizer import Optimizer
from minigrad.optim.settings import GroupSettings, checked


class SGD(Optimizer):
    r"""Stochastic gradient descent with momentum $\mu$ (Sutskever et al. 2013, "On the importance of initialization").

    $g \leftarrow g + \lambda w$, $v \leftarrow \mu v + g$, and $w \leftarrow w - \eta\, v$, or with `nesterov`
    $w \leftarrow w - \eta\, (g + \mu v)$. Here the weight decay is a part of the gradient.
    Groups, and which parameters are decayed: see `Optimizer`. Raises InputError unless the momentum is at least 0 and
    at most `LARGEST_DECAY`, and for `nesterov` without momentum.

    >>> w = Tensor([4.0], requires_grad=True)
    >>> optimizer = SGD([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()  # the norm of the gradient
    8.0
    """

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[GroupSettings],
        lr: float = 1e-2,
        *,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        decay_vectors: bool = False,
    ) -> None:
        self.momentum = checked(self, "momentum", momentum)
        self.nesterov = checked(self, "nesterov", nesterov)
        if nesterov and not momentum:
            raise InputError("SGD with nesterov needs a momentum above 0: it looks ahead along the momentum")
        self.moment_names = ("velocity",) if momentum else ()
        super().__init__(parameters, lr=lr, weight_decay=weight_decay, decay_vectors=decay_vectors)

    def update(self, part: Part, span: slice, lr: float, gradient_scale: float) -> None:
        """Change a span of parameters in place."""
        w = part.segment.data[span]
        with np.errstate(over="ignore", invalid="ignore"):  # weights that are not finite are an error of the step
            g = gradient_scale * part.segment.gradient[span] + part.decay * w
            if self.momentum:
                (velocity,) = part.moments_of(span)
                velocity *= self.momentum
                velocity += g
                g = g + self.momentum * velocity if self.nesterov else velocity
            w -= lr * g
