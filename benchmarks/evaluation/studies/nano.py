"""Vidya v2 with what others have found to help small models, one thing an arm: for the search of better defaults."""

from __future__ import annotations

from typing import Any

from benchmarks.evaluation.studies.wiola import SquaredReLU
from minigrad import nn
from minigrad.autograd.tensor import Tensor
from minigrad.nn.parameter import Init, Parameter
from models.vidya_v2 import VidyaV2, VidyaV2Config
from models.wiola.layers import WiolaRMSNorm


class Nano(VidyaV2):
    """Vidya v2 with one or more `parts`.

    "offset" before the norms, "qk norm", "value residual", "value table", "embedding mix", "squared relu".
    """

    parts: tuple[str, ...] = ()

    def __init__(self, config: VidyaV2Config) -> None:
        super().__init__(config)
        first: list[Tensor] = []  # what the first layer computes in this pass, for the others
        self.tokens: list[Tensor] = []  # of this pass
        for index, layer in enumerate(self.model.layers):
            attention: Any = layer.self_attn
            if "qk norm" in self.parts:
                attention.q_proj = NormOfHeads(attention.q_proj, config.head_dim, config.norm_eps)
                attention.k_proj = NormOfHeads(attention.k_proj, config.head_dim, config.norm_eps)
            if "value residual" in self.parts:
                attention.v_proj = ValueResidual(attention.v_proj, first, is_first=index == 0)
            if "value table" in self.parts and index % 2:
                attention.v_proj = ValueTable(attention.v_proj, config, self.tokens)
            if "offset" in self.parts:
                layer.input_layernorm = WiolaRMSNorm(config.width, eps=config.norm_eps)
                layer.post_attention_layernorm = WiolaRMSNorm(config.width, eps=config.norm_eps)
            if "squared relu" in self.parts:
                layer.mlp = SquaredReLU(config.width, config.feed_forward * 3 // 2, std=config.init_std)
        if "embedding mix" in self.parts:
            layers: Any = self.model.layers
            self.model.layers = [EmbeddingMix(layer, first, is_first=layer is layers[0]) for layer in layers]
        if "offset" in self.parts:
            norms: Any = self.model
            norms.norm = WiolaRMSNorm(config.width, eps=config.norm_eps)

    def hidden(self, tokens: Tensor, layout: nn.Layout, cache: nn.KeyValueCache | None = None) -> Tensor:
        """Note the tokens, for the tables of values, and run the layers."""
        self.tokens[:] = [tokens]
        return super().hidden(tokens, layout, cache)


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
    """Values that are half those of the first layer, by a learned share (Zhou et al. 2024, arXiv 2410.17897)."""

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

    def __init__(self, inner: nn.Linear, config: VidyaV2Config, tokens: list[Tensor]) -> None:
        super().__init__(inner)
        self.weight, self.tokens = inner.weight, tokens
        self.table = nn.Embedding(config.vocab_size, inner.weight.shape[0], std=0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Project, and add the rows of the tokens."""
        return self.inner(x) + self.table(self.tokens[0])


class EmbeddingMix(nn.Wrapper):
    """A layer whose input is mixed with the embedding, as in modded-nanogpt: r x + l x0, r = 1 and l = 0 at first."""

    def __init__(self, inner: nn.Module, first: list[Tensor], *, is_first: bool) -> None:
        super().__init__(inner)
        self.first, self.is_first = first, is_first
        if not is_first:
            self.stream, self.embedding = Parameter((1,), Init(mean=1.0)), Parameter((1,), Init(mean=0.0))

    def forward(self, x: Tensor, *arguments: Any) -> Any:
        """Mix, and pass the layer; an update moves a share by a learning rate, so the embedding counts five times."""
        if self.is_first:
            self.first[:] = [x]
        else:
            x = x * self.stream + self.first[0] * (5 * self.embedding)
        return self.inner(x, *arguments)
