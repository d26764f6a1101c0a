"""Mixture of experts: many feed-forward blocks, and a router that sends each token through a few of them.

The number of parameters grows with the number of experts, the work for a token only with how many of them it passes
through. Each token is routed by itself: no expert has a capacity, which would let one token displace another, so a
token's result depends on no other. The rows of an expert are packed, so that each of its matrices is multiplied once.

Left alone, a router prefers the experts that learned first, and the others never learn. A balance loss prevents that.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minigrad import ops
from minigrad.autograd.gradients import Backward
from minigrad.autograd.graph import is_recording
from minigrad.autograd.op import op
from minigrad.autograd.tensor import Tensor
from minigrad.errors import ShapeError
from minigrad.kernels.rows import rows_of
from minigrad.kernels.rowwise import combining as kernels
from minigrad.nn.layers import Dropout, Linear
from minigrad.nn.layout import Layout
from minigrad.nn.loss_pass import loss_pass
from minigrad.nn.module import Module, check_sizes
from minigrad.nn.parameter import Parameter
from minigrad.options import checked_number
from minigrad.typing import Array


class Experts(Module):
    r"""`count` feed-forward blocks, each made by `make`; each row passes through `per_token` of them.

    With the router's probabilities $p = \mathrm{softmax}(x W_r^T)$, the k experts with the largest are chosen, and the
    output is $y = \sum_i g_i\, E_i(x)$ over these. The gate is $g_i = p_i$ for k = 1 (Fedus et al. 2022, "Switch
    transformers", arXiv 2101.03961, eq. 2): as a share of itself it would be 1, and the router would learn nothing.
    For more, the gates are shares of their sum (Jiang et al. 2024, "Mixtral of experts", arXiv 2401.04088, section 2).
    The choice itself has no gradient; of equal probabilities, that of the first expert counts as larger. `balance` is
    the weight of the balance loss (`balance_loss`), `dropout` acts on the sum.
    Shapes: x (rows, width) -> (rows, width).
    """

    adds_loss = True

    def __init__(
        self,
        width: int,
        count: int,
        per_token: int,
        make: Callable[[], Module],
        *,
        std: float = 0.02,
        balance: float = 0.01,
        dropout: float = 0.0,
    ) -> None:
        check_sizes(self, width=width, count=count)
        checked_number("per_token of Experts", per_token, int, at_least=1, at_most=count)
        checked_number("balance of Experts", balance, at_least=0)
        self.gate = Linear(width, count, bias=False, std=std)
        self.experts = [make() for _ in range(count)]
        self.dropout = Dropout(dropout)
        self.per_token, self.balance = per_token, balance
        self.load = np.zeros(count)  # the share of the rows' choices that each expert got in the last training pass

    def idle(self) -> list[Parameter]:
        """Return the parameters of the last experts: as many as one token leaves unused."""
        return [parameter for expert in self.experts[self.per_token :] for parameter in expert.parameters()]

    def figures(self) -> dict[str, float | list[float]]:
        """Return the load of each expert."""
        return {"expert_load": self.load.tolist()}

    def forward(self, x: Tensor) -> Tensor:
        """Route every row and add up what its experts compute."""
        scores = self.gate(x)  # (rows, experts)
        probabilities = ops.softmax(scores)
        chosen = np.argsort(-scores.data, axis=1, kind="stable")[:, : self.per_token]  # (rows, k)
        # Choice t * k + j is row t's j-th. Sorted by expert, `order` lists the choices, and `places` is its inverse.
        order = np.argsort(chosen.reshape(-1), kind="stable")
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        counts = np.bincount(chosen.reshape(-1), minlength=len(self.experts))
        packed = ops.embedding(x, Tensor(order // self.per_token))  # (rows * k, width)
        parts = ops.concatenate(*self._computed(packed, counts))
        y = combine_experts(parts, self._gates(probabilities, chosen), places=places.reshape(chosen.shape))
        if (current := loss_pass()) is not None:
            current.add(self.balance * balance_loss(probabilities, chosen, current.counted, current.layout))
        if self.training and is_recording():
            self.load = counts / max(len(order), 1)
        return self.dropout(y)

    def _computed(self, packed: Tensor, counts: Array) -> list[Tensor]:
        """Return what each expert computes from its rows, which lie one expert after the other.

        While writing, an expert without rows is left out. In training it is not: then every parameter has a gradient,
        if only zeros, and an update does not depend on how a batch is divided.
        """
        leaves_out, stops = not is_recording() and len(packed) > 0, np.cumsum(counts)
        shares = zip(self.experts, counts.tolist(), stops.tolist(), strict=True)
        return [expert(packed[stop - count : stop]) for expert, count, stop in shares if count or not leaves_out]

    def _gates(self, probabilities: Tensor, chosen: Array) -> Tensor:
        """Return the factor of each chosen expert, (rows, k)."""
        rows, experts = probabilities.shape
        numbers = np.arange(rows)[:, None] * experts + chosen
        gates = ops.embedding(probabilities.reshape(-1, 1), Tensor(numbers)).reshape(*chosen.shape)
        return gates if self.per_token == 1 else gates / gates.sum(axis=1, keepdims=True)


def combine_experts_formula(parts: Array, gates: Array, *, places: Array) -> Array:
    """Compute `combine_experts` in plain NumPy."""
    return (gates[:, :, None] * parts[places]).sum(axis=1)


@op
def combine_experts(parts: Array, gates: Array, *, places: Array) -> tuple[Array, Backward]:
    r"""Add up the rows that belong to each token: $y_t = \sum_j g_{tj}\, p_{places_{tj}}$.

    The sum over experts of Shazeer et al. 2017, "Outrageously large neural networks", arXiv 1701.06538, eq. 1. The
    outputs of the experts lie one expert after the other; `places` says where those of token t are.
    Shapes: parts (rows * k, C), gates (rows, k), places (rows, k), in which each row of `parts` is named once ->
    (rows, C).  Raises ShapeError if they do not fit.

    >>> from minigrad import Tensor
    >>> parts, gates = Tensor([[1.0], [2.0], [3.0], [4.0]]), Tensor([[0.5, 0.5], [0.9, 0.1]])
    >>> combine_experts(parts, gates, places=np.array([[0, 2], [1, 3]])).tolist()  # 0.5 + 1.5, 1.8 + 0.4
    [[2.0], [2.200000047683716]]
    """
    if parts.ndim != 2 or gates.ndim != 2 or places.shape != gates.shape or len(parts) != gates.size:
        shapes = f"{parts.shape}, {gates.shape} and {places.shape}"
        raise ShapeError(f"combine_experts needs parts (rows * k, C), gates and places (rows, k); got {shapes}")
    named = np.require(places, np.int64, ["C", "W"])
    if named.size and (named.min() < 0 or (np.bincount(named.reshape(-1), minlength=len(parts)) != 1).any()):
        raise ShapeError("combine_experts needs places that name each row of parts once")
    given = kernels.Combination(rows_of(parts).reshape(parts.shape), rows_of(gates).reshape(gates.shape), named)

    def backward(dy: Array) -> tuple[Array, Array]:
        # y_t is linear in both: dp = g_tj dy_t in the place of the part, and dg_tj = dy_t . p.
        return kernels.combine_backward(dy, given)

    return kernels.combine_forward(given), backward


def mixtures(model: Module) -> list[Experts]:
    """Return the mixtures of experts of a model, from the first layer to the last."""
    return [module for _, module in model.named_modules() if isinstance(module, Experts)]


def balance_loss(probabilities: Tensor, chosen: Array, counted: Array, layout: Layout) -> Tensor:
    r"""Return 1 if all experts are chosen equally often, and usually more if they are not: $N \sum_i f_i P_i$.

    $f_i$ is the share of the choices that expert i got, and $P_i$ its mean probability (Fedus et al. 2022, arXiv
    2101.03961, eqs. 4 to 6). Only $P_i$ has a gradient: it lowers the probabilities of experts that are chosen often.
    Both are means over one sequence, as in DeepSeek-V3 (arXiv 2412.19437, eqs. 17 to 20), and the result is the mean
    over the sequences, weighted by their rows. So a sequence has the same loss in every batch, and the loss of a batch
    does not depend on how it is divided. `counted` (rows,) is true for rows that count: rows with a target.
    Shapes: probabilities (rows, experts), chosen (rows, k) -> ().
    """
    picked = np.zeros(probabilities.shape, np.int64)
    np.put_along_axis(picked, chosen, counted[:, None].astype(np.int64), axis=1)
    tallies = picked, counted[:, None].astype(np.int64)
    picks, rows = (ops.sum_sequences(each, offsets=layout.offsets).data for each in tallies)
    total, per_token = max(int(rows.sum()), 1), chosen.shape[1]
    factors = probabilities.shape[1] * picks / (np.maximum(rows, 1) * per_token * total)  # N f_i / rows of the batch
    weights = np.repeat(factors, layout.lengths, axis=0) * counted[:, None]
    return (probabilities * Tensor(weights.astype(probabilities.dtype))).sum()
