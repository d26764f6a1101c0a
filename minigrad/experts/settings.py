"""The settings of a mixture of experts in a model's config, and what config.json says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from minigrad.errors import InputError
from minigrad.formats.huggingface import read_fields

MOST_EXPERTS = 1 << 12
"""Far above any published model."""

_KEYS = {
    "num_local_experts": "experts",
    "num_experts_per_tok": "experts_per_token",
    "router_aux_loss_coef": "expert_balance",
}
"""From the names of Mixtral's config.json to ours."""


class ExpertSettings(Protocol):
    """The fields of a config whose feed-forward blocks may be mixtures of experts."""

    @property
    def width(self) -> int:
        """The number of elements per token in the residual stream."""

    @property
    def experts(self) -> int:
        """The number of feed-forward blocks of a layer among which a router chooses; 0: there is one block."""

    @property
    def experts_per_token(self) -> int:
        """The number of them that each token passes through."""

    @property
    def expert_balance(self) -> float:
        """The weight of the loss that balances their load."""


def check(config: ExpertSettings) -> None:
    """Raise InputError if a token would pass through more experts than there are."""
    if config.experts and config.experts_per_token > config.experts:
        raise InputError(
            f"experts_per_token ({config.experts_per_token}) must be at most experts ({config.experts}): a token "
            "passes through each of them once"
        )


def activations_per_token(config: ExpertSettings, block: int) -> int:
    """Return the elements that training stores for the feed-forward block of a layer, if one block stores `block`. Each
    expert that a token passes through stores that, its input and its output; the router stores two rows.
    """
    if not config.experts:
        return block
    return config.experts_per_token * (block + 2 * config.width) + 2 * config.experts


def published(config: ExpertSettings) -> dict[str, Any]:
    """Return what config.json says of the experts: nothing, if there are none."""
    return {key: getattr(config, name) for key, name in _KEYS.items()} if config.experts else {}


def read(config: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a config class from the content of a config.json; raises InputError for a wrong value."""
    if "num_local_experts" not in values:
        return {}
    return read_fields(config, values, _KEYS, {"router_aux_loss_coef": 0.01})
