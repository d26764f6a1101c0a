"""Muon: the update of a matrix moves it equally far in every direction.

The gradient of a matrix, averaged over some steps, is mostly a sum of a few large directions; an update by it hardly
moves the others. Muon replaces it by the nearest orthogonal matrix: the same directions, all of the same size. AdamW
does so for single elements, whose updates all have about the same size; Muon does it for the matrix as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from minigrad.autograd.tensor import Tensor
from minigrad.distributed.shares import cuts_between
from minigrad.errors import InputError
from minigrad.kernels import threads
from minigrad.kernels.gemm import newton_schulz
from minigrad.kernels.gemm.backend import product
from minigrad.kernels.gemm.newton_schulz import Polynomial
from minigrad.kernels.rowwise import updates
from minigrad.optim.adamw import AdamW
from minigrad.optim.division import Part
from minigrad.optim.flat import Segment
from minigrad.optim.settings import GroupSettings
from minigrad.typing import Array

_ITERATIONS, _POLYNOMIAL = 5, Polynomial(3.4445, -4.7750, 2.0315)  # which brings singular values towards 1
_MOMENTUM, _FIRST_MOMENTUM, _MOMENTUM_STEPS = 0.95, 0.85, 300
_SIZE = 0.2  # root mean square of the elements of an update at a learning rate of 1: about that of AdamW's updates


def orthogonalise(u: Array) -> Array:
    r"""Return about the nearest matrix with orthonormal rows or columns: $U V^T$, where $u = U S V^T$.

    Newton-Schulz iterations (Jordan et al. 2024, "Muon: an optimizer for hidden layers"): $x = u / |u|$, and five times
    $x \leftarrow a x + b\, x x^T x + c\, (x x^T)^2 x$, which maps a singular value s to $a s + b s^3 + c s^5$. All
    singular values, except tiny ones, end between 0.68 and 1.21, which is near enough. First u is multiplied by the
    power of two that brings its largest element near 1, so that the squares of elements from 1e-45 to 3e38 neither
    underflow nor overflow. In bfloat16 the factors of these products are rounded, as in all others, and elements of the
    result differ by about 2%.
    Shapes: u (rows, columns) -> (rows, columns). A matrix of zeros stays one.
    """
    largest = np.abs(u).max(initial=0)
    if largest == 0:
        return np.zeros_like(u)
    power = min(-math.frexp(largest)[1], np.finfo(u.dtype).maxexp - 2)
    is_tall = u.shape[0] > u.shape[1]
    wide = np.ascontiguousarray(u.T if is_tall else u) * 2.0**power
    x = wide / np.linalg.norm(wide)
    if (block := newton_schulz.block_for(x)) is not None:
        newton_schulz.iterate(x, _POLYNOMIAL, _ITERATIONS, block)
    else:
        for _ in range(_ITERATIONS):
            s = product(x, x.T)
            x = _POLYNOMIAL.a * x + product(_POLYNOMIAL.b * s + _POLYNOMIAL.c * product(s, s.T), x)
    return np.ascontiguousarray(x.T) if is_tall else x


def flops_to_orthogonalise(rows: int, columns: int) -> int:
    """Return the FLOPs of `orthogonalise`: with n the smaller and m the larger, 5 times 3 n^2 m + n^3.

    >>> flops_to_orthogonalise(96, 256)
    39813120
    """
    n, m = min(rows, columns), max(rows, columns)
    return _ITERATIONS * (3 * n * n * m + n**3)


class Muon(AdamW):
    r"""Momentum, orthogonalised, for some `matrices`; AdamW for all other parameters.

    Jordan et al. 2024 (see `orthogonalise`), with the momentum $m \leftarrow \mu m + (1-\mu) g$, its look ahead
    $u = \mu m + (1-\mu) g$, and the scale of Liu et al. 2025, arXiv 2502.16982, eq. 4, which lets a learning rate and a
    weight decay for AdamW serve here too: $w \leftarrow w - \eta\, (0.2 \sqrt{\max(r, c)}\, O(u) + \lambda w)$ for a
    matrix of r rows and c columns. $\mu$ rises from 0.85 to 0.95 in 300 steps.
    The size of u has no influence, only its directions. After a gradient has become zero, the momentum that is left,
    however small, would still move the matrix at full size in every step. So a matrix whose gradient is zero throughout
    (that of dead units) is only decayed, while its momentum shrinks as always.
    `matrices` are those within a model's layers: the rows of an embedding and of the head are one token each, and have
    no common directions. A matrix has a momentum m only, and no second moment v. Groups, and which parameters are
    decayed: see `Optimizer`. Raises InputError for a tensor in `matrices` that does not have two axes, or is not among
    the parameters.

    >>> from minigrad import nn
    >>> model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    >>> optimizer = Muon(model.parameters(), lr=1e-3, matrices=[model[0].weight])
    """

    def __init__(
        self,
        parameters: Iterable[Tensor] | Iterable[GroupSettings],
        lr: float = 1e-3,
        *,
        matrices: Iterable[Tensor],
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.1,
        decay_vectors: bool = False,
    ) -> None:
        chosen = list(matrices)
        self._matrices = [matrix for matrix in chosen if matrix.ndim == 2]
        super().__init__(parameters, lr, betas=betas, weight_decay=weight_decay, decay_vectors=decay_vectors)
        known = {id(parameter) for parameter in self.parameters}
        for matrix in chosen:
            if matrix.ndim != 2 or id(matrix) not in known:
                raise InputError(
                    "the matrices of Muon have two axes and are among its parameters; this tensor has shape "
                    f"{matrix.shape}"
                )

    def _is_orthogonalised(self, parameter: Tensor) -> bool:
        """Whether Muon orthogonalises the updates of a parameter: of all members of a segment, or of none."""
        return any(parameter is matrix for matrix in self._matrices)

    def moments_kept(self, parameter: Tensor) -> tuple[str, ...]:
        """Return the names of a parameter's moments: a matrix has the momentum only."""
        return self.moment_names[:1] if self._is_orthogonalised(parameter) else self.moment_names

    def update(self, part: Part, span: slice, lr: float, gradient_scale: float) -> None:
        """Update a span of parameters; threads share its matrices, and one thread computes a whole matrix."""
        if not self._is_orthogonalised(part.segment.members[0]):
            super().update(part, span, lr, gradient_scale)
            return
        members = ((member, place) for member, place in part.members() if span.start <= place.start < span.stop)
        chosen = [(place, member.shape) for member, place in members if member.size]

        def update_some(start: int, stop: int) -> None:
            for place, shape in chosen[start:stop]:
                self._update_matrix(part, place, shape, lr, gradient_scale)

        if chosen:
            work = sum(math.prod(shape) * min(shape) for _, shape in chosen)
            threads.over_rows(update_some, len(chosen), work // len(chosen))

    def cuts(self, segment: Segment, count: int) -> list[int]:
        """Cut between whole matrices, by the FLOPs of orthogonalising them; divide all other parameters evenly."""
        if not self._is_orthogonalised(segment.members[0]):
            return super().cuts(segment, count)
        costs = [float(flops_to_orthogonalise(*member.shape)) for member in segment.members]
        return cuts_between(segment.places(), costs, count)

    def _update_matrix(
        self, part: Part, place: slice, shape: tuple[int, ...], lr: float, gradient_scale: float
    ) -> None:
        rise = min(self.steps / _MOMENTUM_STEPS, 1)
        mu = _FIRST_MOMENTUM + (_MOMENTUM - _FIRST_MOMENTUM) * rise
        ahead = updates.look_ahead(part.moments_of(place)[0], part.segment.gradient[place], gradient_scale, mu)
        update = orthogonalise(ahead.reshape(shape)).reshape(-1)
        updates.step(part.segment.data[place], update, lr * _SIZE * math.sqrt(max(shape)), 1 - lr * part.decay)
