"""Mixture of experts: many feed-forward blocks, and a router that sends each token through a few of them.

The number of parameters grows with the number of experts, the work for a token only with how many of them it passes
through. Each token is routed by itself: no expert has a capacity, which would let one token displace another, so a
token's result depends on no other. The rows of an expert are packed, so that each of its matrices is multiplied once.

Left alone, a router prefers the experts that learned first, and the others never learn. A balance loss prevents that.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from minigrad import ops
from minigrad.autograd.graph import is_recording
from minigrad.autograd.tensor import Tensor
from minigrad.experts.combine import combine_experts
from minigrad.nn.layers import Dropout, Linear
from minigrad.nn.layout import Layout
from minigrad.nn.loss_pass import loss_pass
from minigrad.nn.module import Module, check_sizes
from minigrad.nn.parameter import Parameter
from minigrad.options import checked_number
from minigrad.typing import Array


class Routing(NamedTuple):
    """The probability of each expert for each row (rows, experts), and the experts that were chosen (rows, k)."""

    probabilities: Tensor
    chosen: Array


class Experts(Module):
    r"""Feed-forward blocks that `make` makes, `count` in number; each row passes through `per_token` of them.

    With the router's probabilities $p = \mathrm{softmax}(x W_r^T)$, the largest k being chosen, the output is
    $y = \sum_i g_i\, E_i(x)$ over the chosen experts. The gate is $g_i = p_i$ for k = 1 (Fedus et al. 2022, "Switch
    transformers", arXiv 2101.03961, eq. 2): as a share of itself it would be 1, and the router would learn nothing.
    For more, the gates are shares of their sum (Jiang et al. 2024, "Mixtral of experts", arXiv 2401.04088, section 2).
    The choice itself has no gradient; of equal probabilities the first expert's is taken for larger. `balance` is the
    weight of the balance loss (`balance_loss`), `dropout` acts on the sum.
    Shapes: x (rows, width) -> (rows, width).
    """

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
        """Return as many parameters as one token does not use: those of the last experts."""
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
            routing = Routing(probabilities, chosen)
            current.add(self.balance * balance_loss(routing, current.counted, current.layout))
        if self.training and is_recording():
            self.load = counts / max(len(order), 1)
        return self.dropout(y)

    def _computed(self, packed: Tensor, counts: Array) -> list[Tensor]:
        """Return what each expert computes from its rows, which lie one expert after the other.

        While writing, an expert without rows is left out. In training it is not: then every parameter has a gradient,
        if only zeros, and an update does not depend on how a batch is divided.
        """
        leaves_out = not is_recording() and len(packed) > 0
        stops = np.cumsum(counts)
        return [
            expert(packed[int(stop - count) : int(stop)])
            for expert, count, stop in zip(self.experts, counts, stops, strict=True)
            if count or not leaves_out
        ]

    def _gates(self, probabilities: Tensor, chosen: Array) -> Tensor:
        """Return the factor of each chosen expert, (rows, k)."""
        rows, experts = probabilities.shape
        numbers = np.arange(rows)[:, None] * experts + chosen
        gates = ops.embedding(probabilities.reshape(-1, 1), Tensor(numbers)).reshape(*chosen.shape)
        return gates if self.per_token == 1 else gates / gates.sum(axis=1, keepdims=True)


def mixtures(model: Module) -> list[Experts]:
    """Return the mixtures of experts of a model, from the first layer to the last."""
    return [module for _, module in model.named_modules() if isinstance(module, Experts)]


def active_parameters(model: Module) -> int:
    """Return the number of parameters that take part in the computation of one token."""
    idle = (parameter for _, module in model.named_modules() for parameter in module.idle())
    return model.num_parameters() - sum(math.prod(parameter.shape) for parameter in idle)


def balance_loss(routing: Routing, counted: Array, layout: Layout) -> Tensor:
    r"""Return a number that is smallest, 1, if all experts are chosen equally often: $N \sum_i f_i P_i$.

    $f_i$ is the share of the choices that expert i got, and $P_i$ its mean probability (Fedus et al. 2022, arXiv
    2101.03961, eqs. 4 to 6). Only $P_i$ has a gradient: it lowers the probabilities of experts that are chosen often.
    Both are means over one sequence, as in DeepSeek-V3 (arXiv 2412.19437, eqs. 17 to 20), and the result is the mean
    over the sequences, weighted by their rows. So a sequence has the same loss in every batch, and the loss of a batch
    does not depend on how it is divided. `counted` (rows,) is true for rows that count: rows with a target.
    Shapes: probabilities (rows, experts), chosen (rows, k) -> ().
    """
    probabilities, chosen = routing
    picked = np.zeros(probabilities.shape, np.int64)
    np.put_along_axis(picked, chosen, counted[:, None].astype(np.int64), axis=1)
    picks, rows = (_sums(each, layout) for each in (picked, counted[:, None].astype(np.int64)))  # of each sequence
    total, per_token = max(int(rows.sum()), 1), chosen.shape[1]
    factors = probabilities.shape[1] * picks / (np.maximum(rows, 1) * per_token * total)  # N f_i / rows of the batch
    weights = np.repeat(factors, layout.lengths, axis=0) * counted[:, None]
    return (probabilities * Tensor(weights.astype(probabilities.dtype))).sum()


def _sums(values: Array, layout: Layout) -> Array:
    """Return the sum of the rows of each sequence, (sequences, columns)."""
    running = np.concatenate([np.zeros((1, values.shape[1]), values.dtype), np.cumsum(values, axis=0)])
    sums: Array = running[layout.offsets[1:]] - running[layout.offsets[:-1]]
    return sums
