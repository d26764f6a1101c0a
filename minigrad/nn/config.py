"""The properties that every model config has, and initial standard deviations that families share."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, Protocol, Self

MOST_LAYERS, MOST_VOCABULARY, MOST_CONTEXT = 10_000, 1 << 24, 10**9
MOST_WIDTH, MOST_HEADS = 1 << 20, 1 << 16  # of a stream; of heads, and of the elements of one
"""Far above any published model: a larger number in a config is a typing error or damage, and costs no time."""


class ModelConfig(Protocol):
    """The shape of a model. Each family has a config of its own, a frozen dataclass with fields made by `option`."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def vocab_size(self) -> int:
        """The number of tokens in the vocabulary; every token id is below it."""

    @property
    def num_layers(self) -> int:
        """The number of layers between the embedding and the last norm."""

    @property
    def width(self) -> int:
        """The number of elements per token in the residual stream."""

    @property
    def num_heads(self) -> int:
        """The number of query heads of a layer."""

    @property
    def num_kv_heads(self) -> int:
        """The number of key/value heads of a layer."""

    @property
    def head_dim(self) -> int:
        """The number of elements of a head."""

    @property
    def context_length(self) -> int:
        """The largest number of tokens in a sequence."""

    @property
    def norm_eps(self) -> float:
        """The constant that a norm adds to the mean square before the root."""

    @property
    def init_std(self) -> float:
        """The standard deviation of the initial matrices."""

    @property
    def dropout(self) -> float:
        """The probability with which training drops an activation."""

    @property
    def end_of_text_id(self) -> int:
        """The id of the token between documents."""

    def activations_per_token(self) -> int:
        """Return the number of elements per token that training stores for the backward pass, without the logits."""

    def published(self) -> dict[str, Any]:
        """Return the content of config.json."""

    @classmethod
    def recognises(cls, values: dict[str, Any]) -> bool:
        """Return whether the content of a config.json describes a model of this family."""

    @classmethod
    def from_published(cls, values: dict[str, Any]) -> Self:
        """Return the config that the content of a config.json describes."""


def residual_std(config: ModelConfig) -> float:
    """Return the initial standard deviation of matrices that write into the residual stream.

    Each layer adds two outputs to it, so they are smaller by sqrt(2 layers) (Radford et al. 2019, section 2.3).
    """
    return config.init_std / math.sqrt(2 * config.num_layers)


def laptop_init_std(width: int) -> float:
    """Return the initial standard deviation of the laptop sizes.

    A sum over fewer terms is smaller, so narrow matrices get larger values: the initial outputs of every size are then
    as large as in the 576-wide model. On vidya-v2 nano, twice this value measured 0.01 bits per byte worse.
    """
    return round(0.02 * math.sqrt(576 / width), 4)
