"""What others have found to help small models, as modules that take the place of a model's own."""

from __future__ import annotations

from typing import Any

from minigrad import nn, ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn.parameter import Init, Parameter


class SquaredReLU(nn.Module):
    r"""Two matrices with $\max(0, x)^2$ between them (So et al. 2021, "Primer", arXiv 2109.08668)."""

    def __init__(self, width: int, hidden: int, *, std: float, out_std: float) -> None:
        self.up_proj = nn.Linear(width, hidden, bias=False, std=std)
        self.down_proj = nn.Linear(hidden, width, bias=False, std=out_std)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the block to every row."""
        positive = ops.relu(self.up_proj(x))
        return self.down_proj(positive * positive)


class NormOfHeads(nn.Wrapper):
    """A projection whose heads are normalised (Henry et al. 2020, "Query-key normalization", arXiv 2010.04245)."""

    def __init__(self, inner: nn.Linear, head_dim: int, eps: float) -> None:
        super().__init__(inner)
        self.weight, self.head_dim, self.head_norm = inner.weight, head_dim, nn.RMSNorm(head_dim, eps=eps)

    def forward(self, x: Tensor) -> Tensor:
        """Project, and normalise each head."""
        y = self.inner(x)
        return self.head_norm(y.reshape(-1, self.head_dim)).reshape(y.shape)


class ValueResidual(nn.Wrapper):
    """Values mixed with those of the first layer by a learned share, half at first (Zhou et al., arXiv 2410.17897)."""

    def __init__(self, inner: nn.Linear, first: list[Tensor], *, is_first: bool) -> None:
        super().__init__(inner)
        self.weight, self.first, self.is_first = inner.weight, first, is_first
        if not is_first:
            self.share = Parameter((1,), Init(mean=0.5))

    def forward(self, x: Tensor) -> Tensor:
        """Project, and mix with the values of the first layer."""
        values = self.inner(x)
        if self.is_first:
            self.first[:] = [values]
            return values
        return values * (1 - self.share) + self.first[0] * self.share


class ValueTable(nn.Wrapper):
    """Values plus a row for each token, all zero at first: the value embeddings of modded-nanogpt and nanochat."""

    def __init__(self, inner: nn.Linear, vocab_size: int, tokens: list[Tensor]) -> None:
        super().__init__(inner)
        self.weight, self.tokens = inner.weight, tokens
        self.table = nn.Embedding(vocab_size, inner.weight.shape[0], std=0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Project, and add the rows of the tokens."""
        return self.inner(x) + self.table(self.tokens[0])


class EmbeddingMix(nn.Wrapper):
    """A layer whose input is mixed with the embedding x0, as in modded-nanogpt: r x + 5 l x0; r = 1, l = 0 at first.

    An update changes a parameter by about the learning rate, whatever it does; the 5 lets the embedding come in faster.
    """

    def __init__(self, inner: nn.Module, first: list[Tensor], *, is_first: bool) -> None:
        super().__init__(inner)
        self.first, self.is_first = first, is_first
        if not is_first:
            self.stream, self.embedding = Parameter((1,), Init(mean=1.0)), Parameter((1,), Init(mean=0.0))

    def forward(self, x: Tensor, *arguments: Any) -> Any:
        """Mix, and run the layer."""
        if self.is_first:
            self.first[:] = [x]
        else:
            x = x * self.stream + self.first[0] * (5 * self.embedding)
        return self.inner(x, *arguments)
