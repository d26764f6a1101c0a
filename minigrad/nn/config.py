"""What the code around a language model may ask of its config, and the initial scales that families share."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar, Protocol, Self


class ModelConfig(Protocol):
    """The shape of a model. Each family has its own, a frozen dataclass whose fields are declared with `option`."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    @property
    def vocab_size(self) -> int:
        """Every token id is below it."""

    @property
    def num_layers(self) -> int:
        """Layers between the embedding and the last norm."""

    @property
    def width(self) -> int:
        """Elements per token in the residual stream."""

    @property
    def num_heads(self) -> int:
        """Query heads of a layer."""

    @property
    def num_kv_heads(self) -> int:
        """Key/value heads of a layer."""

    @property
    def head_dim(self) -> int:
        """Elements of a head."""

    @property
    def context_length(self) -> int:
        """Tokens that a sequence may have."""

    @property
    def norm_eps(self) -> float:
        """What a norm adds to the mean square before the root."""

    @property
    def init_std(self) -> float:
        """Standard deviation of the initial matrices."""

    @property
    def dropout(self) -> float:
        """Probability with which training drops an activation."""

    @property
    def end_of_text_id(self) -> int:
        """The token between documents."""

    def activations_per_token(self) -> int:
        """Return how many elements per token training keeps for the backward pass, the logits aside."""

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

    Each layer adds two outputs to it, so they start smaller by sqrt(2 layers) (Radford et al. 2019, section 2.3).
    """
    return config.init_std / math.sqrt(2 * config.num_layers)


def laptop_init_std(width: int) -> float:
    """Return the initial standard deviation of the laptop sizes.

    A sum over fewer terms is smaller, so narrow matrices start larger: every size then starts with outputs of the same
    size as the 576-wide model's. On vidya-v2 nano, twice as large was measured to be 0.01 bits per byte worse.
    """
    return round(0.02 * math.sqrt(576 / width), 4)
