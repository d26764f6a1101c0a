"""Vidya v2 whose matrices are updated by a variant of Muon, or whose logits have a soft cap: for nano_muon.toml."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.constants import IGNORE
from minigrad.errors import InputError
from minigrad.kernels.gemm import newton_schulz
from minigrad.kernels.gemm.backend import product
from minigrad.kernels.gemm.newton_schulz import Polynomial
from minigrad.kernels.rowwise import updates
from minigrad.nn.layout import Layout
from minigrad.optim import Muon
from minigrad.optim.division import Part
from minigrad.optim.muon import orthogonalise
from minigrad.options import unknown
from minigrad.training.run import Guest, Run
from minigrad.typing import Array, Arrays
from models.vidya_v2 import VidyaV2

PARTS = ("equal rows", "cautious decay", "polar express", "soft cap")
CAP = 15.0
_BETA = 0.95  # of the mean of the squares of a row
_SAFETY = 1.01
_POLAR = (  # Amsel et al. 2025, "The Polar Express", arXiv 2505.16932: for singular values from 1e-3 to 1
    Polynomial(8.28721201814563, -23.595886519098837, 17.300387312530933),
    Polynomial(4.107059111542203, -2.9478499167379106, 0.5448431082926601),
    Polynomial(3.9486908534822946, -2.908902115962949, 0.5518191394370137),
    Polynomial(3.3184196573706015, -2.488488024314874, 0.51004894012372),
    Polynomial(2.300652019954817, -1.6689039845747493, 0.4188073119525673),
)
_SAFE = (*(Polynomial(a / _SAFETY, b / _SAFETY**3, c / _SAFETY**5) for a, b, c in _POLAR[:-1]), _POLAR[-1])


def polar(u: Array) -> Array:
    """Return about the nearest matrix with orthonormal rows or columns, by a polynomial for each iteration.

    The polynomials are fitted one after the other to where the one before has left the singular values; those of
    `orthogonalise` are all the same, and leave singular values between 0.68 and 1.21. A value that bfloat16 rounds to
    slightly more than the largest one that is expected would explode in the next iterations: so, as in the paper, all
    polynomials but the last expect values up to 1.01 times as large.
    Shapes: u (rows, columns) -> (rows, columns).
    """
    is_tall = u.shape[0] > u.shape[1]
    x = np.ascontiguousarray(u.T if is_tall else u)
    x = x / (np.linalg.norm(x) * _SAFETY + 1e-30)
    block = newton_schulz.block_for(x)
    for a, b, c in _SAFE:
        if block is not None:
            newton_schulz.iterate(x, Polynomial(a, b, c), 1, block)
        else:
            s = product(x, x.T)
            x = a * x + product(b * s + c * product(s, s.T), x)
    return np.ascontiguousarray(x.T) if is_tall else x


class VariantOfMuon(Muon):
    """Muon with some of the `PARTS`; what no part changes is as in `minigrad.optim.muon`, constants included."""

    parts: tuple[str, ...] = ()
    squares: dict[int, Array]  # of each matrix by its id: the mean of the squares of each row of its updates

    def _update_matrix(
        self, part: Part, place: slice, shape: tuple[int, ...], lr: float, gradient_scale: float
    ) -> None:
        mu = 0.85 + 0.1 * min(self.steps / 300, 1)
        ahead = updates.look_ahead(part.moments_of(place)[0], part.segment.gradient[place], gradient_scale, mu)
        ahead = ahead.reshape(shape)
        update = polar(ahead) if "polar express" in self.parts else orthogonalise(ahead)
        if "equal rows" in self.parts:
            member = next(each for each, where in part.members() if where == place)
            update = self._with_equal_rows(update, self.squares[id(member)])
        weights, keep = part.segment.data[place], 1 - lr * part.decay
        if "cautious decay" in self.parts:
            weights *= np.where(weights * update.reshape(-1) > 0, np.float32(keep), np.float32(1))
            keep = 1.0
        updates.step(weights, update.reshape(-1), lr * 0.2 * math.sqrt(max(shape)), keep)

    def _with_equal_rows(self, update: Array, squares: Array) -> Array:
        """Divide each row by the root of the mean of its squares over the steps; the norm of the matrix stays."""
        squares *= _BETA
        squares += (1 - _BETA) * (update * update).mean(axis=1)
        correction = 1 - _BETA**self.steps
        divided = update / (np.sqrt(squares / correction)[:, None] + 1e-8)
        return divided * (np.linalg.norm(update) / (np.linalg.norm(divided) + 1e-30))


class Changing(Guest):
    """Makes the optimizer of a run a variant of Muon, with the parts of the model's class."""

    def attach(self, run: Run) -> None:
        """Change the class of the optimizer, which `train` has made; raises InputError if it is not Muon."""
        if type(run.optimizer) is not Muon:
            raise InputError(f"these are variants of Muon, and the run has {type(run.optimizer).__name__}")
        run.optimizer.__class__ = VariantOfMuon
        optimizer: Any = run.optimizer
        optimizer.parts = run.model.parts
        matrices = [each for each in optimizer.parameters if optimizer._is_orthogonalised(each)]
        optimizer.squares = {id(each): np.zeros(each.shape[0], np.float32) for each in matrices}

    def arrays(self, run: Run) -> Arrays:
        """Return the means of the squares, for the checkpoint."""
        optimizer: Any = run.optimizer
        return {f"muon.{number}.squares": each for number, each in enumerate(optimizer.squares.values())}


class Changed(VidyaV2):
    """Vidya v2 with one or more of the `PARTS`; raises InputError for others."""

    parts: tuple[str, ...] = ()
    guests = (Changing,)

    def __init__(self, config: Any) -> None:
        for part in self.parts:
            if part not in PARTS:
                raise unknown("part", part, PARTS)
        super().__init__(config)

    def logits(self, rows: Tensor) -> Tensor:
        """Return the logits; a soft cap c leaves small ones nearly as they are, and none is above c: c tanh(x / c)."""
        logits = super().logits(rows)
        return ops.tanh(logits * (1 / CAP)) * CAP if "soft cap" in self.parts else logits

    def loss(
        self,
        tokens: Any,
        targets: Any,
        *,
        layout: Layout | None = None,
        weights: Any = None,
        objective: Callable[..., Tensor] | None = None,
    ) -> Tensor:
        """Return the mean cross-entropy of the logits, as the base class does."""
        given: dict[str, Any] = {"layout": layout, "weights": weights, "objective": objective}
        if "soft cap" not in self.parts or weights is not None or objective is not None:
            return super().loss(tokens, targets, **given)
        return super().loss(tokens, targets, layout=layout, objective=_capped_mean)

    def losses(self, tokens: Any, targets: Any, *, layout: Layout | None = None) -> Tensor:
        """Return the cross-entropy of each target, as the base class does."""
        if "soft cap" not in self.parts:
            return super().losses(tokens, targets, layout=layout)
        labels, shape = np.asarray(targets).reshape(-1), np.shape(targets)
        rows = ops.log_softmax(self(tokens, layout=layout).reshape(len(labels), -1))
        chosen = rows[np.arange(len(labels)), np.where(labels == IGNORE, 0, labels)]
        return (chosen * np.where(labels == IGNORE, 0, -1).astype(np.float32)).reshape(*shape)


def _capped_mean(x: Tensor, head: Tensor, targets: Array, row_weights: Array | None = None) -> Tensor:
    """Return the mean cross-entropy of capped logits; the arguments are those of `ops.linear_cross_entropy`."""
    assert row_weights is None
    return ops.cross_entropy(ops.tanh(ops.linear(x, head) * (1 / CAP)) * CAP, targets)
