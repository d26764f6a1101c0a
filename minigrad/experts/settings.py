"""The settings of a mixture of experts in a model's config, and what config.json says of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minigrad.errors import InputError
from minigrad.formats.huggingface import read_fields
from minigrad.nn.config import ModelConfig
from minigrad.nn.fields import Rules

EXPERTS = Rules(
    help="feed-forward blocks of a layer, with a router for each token; 0: one block", at_least=0, at_most=1 << 12
)
EXPERTS_PER_TOKEN = Rules(help="how many experts each token passes through", at_least=1)
EXPERT_BALANCE = Rules(help="weight of the loss that balances the load of a layer's experts", at_least=0, at_most=1e3)
_KEYS = {
    "num_local_experts": "experts",
    "num_experts_per_tok": "experts_per_token",
    "router_aux_loss_coef": "expert_balance",
}
"""From the names of Mixtral's config.json to ours."""


class ExpertConfig(ModelConfig):
    """A config whose feed-forward blocks may be mixtures of experts."""

    experts: int
    experts_per_token: int
    expert_balance: float


def check(config: ExpertConfig) -> None:
    """Raise InputError if a token would pass through more experts than there are."""
    if config.experts and config.experts_per_token > config.experts:
        given = f"experts_per_token ({config.experts_per_token}) must be at most experts ({config.experts})"
        raise InputError(f"{given}: a token passes through each of them once")


def activations_per_token(config: ExpertConfig, block: int) -> int:
    """Return the elements that training stores for the feed-forward block of a layer, if one block stores `block`.

    Each expert that a token passes through stores that, its input and its output; the router stores two rows.
    """
    if not config.experts:
        return block
    return config.experts_per_token * (block + 2 * config.width) + 2 * config.experts


def published(config: ExpertConfig) -> dict[str, Any]:
    """Return what config.json says of the experts: nothing, if there are none."""
    return {key: getattr(config, name) for key, name in _KEYS.items()} if config.experts else {}


def read(config: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a config class from the content of a config.json; raises InputError for a wrong value."""
    if "num_local_experts" not in values:
        return {}
    return read_fields(config, values, _KEYS, {"router_aux_loss_coef": 0.01})
