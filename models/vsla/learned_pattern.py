"""A pattern that is learned: each head of a layer learns in which of the fixed patterns it attends.

The head attends in all of them, and mixes the results by shares, the softmax of a few numbers that training changes
like any weight. The shares say afterwards which pattern the head has use for: a search among patterns by gradients, as
Liu et al. 2019, "DARTS", arXiv 1806.09055, search among operations. It costs as much as all candidates together, so it
is for finding a cheaper list of patterns, which a new model then has from the start.
"""

from __future__ import annotations

import math

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn.module import Module
from minigrad.nn.parameter import Init, Parameter
from minigrad.typing import Array
from models.vsla.patterns import LEARNED, AttentionPattern, FarKeys

CANDIDATES = ("full", "local", "sparse", "pyramid")


class LearnedPattern(Module):
    """The learned pattern of one layer; it takes the place of an `AttentionPattern`."""

    kind, far_share = LEARNED, math.nan

    def __init__(self, num_heads: int, window: int, block: int, top_k: int) -> None:
        self.block, self.num_heads = block, num_heads
        self.candidates = tuple(AttentionPattern(kind, window, block, top_k, entropy=0.0) for kind in CANDIDATES)
        self.logits = Parameter((num_heads * len(CANDIDATES),), Init())  # one row: no matrix to turn or to decay

    def shares(self) -> Tensor:
        """Return the share of each candidate in each head (H, 4)."""
        return ops.softmax(self.logits.reshape(self.num_heads, len(CANDIDATES)))

    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        offsets: Array,
        key_ranges: Array | None = None,
        far: FarKeys | None = None,
    ) -> Tensor:
        """Attend as `AttentionPattern.attend` does, in every candidate, and mix the results by the shares."""
        shares = self.shares()
        results = [each.attend(q, k, v, offsets, key_ranges, far) for each in self.candidates]
        mixed = results[0] * shares[:, 0].reshape(1, self.num_heads, 1)
        for number, result in enumerate(results[1:], start=1):
            mixed = mixed + result * shares[:, number].reshape(1, self.num_heads, 1)
        return mixed

    def keys_per_token(self, context: float) -> float:
        """Return how many keys a token multiplies with on average: those of all candidates together."""
        return sum(each.keys_per_token(context) for each in self.candidates)
