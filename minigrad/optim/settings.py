"""The settings of all optimizers, checked where they are given, and groups of parameters with settings of their own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Required, TypedDict

from minigrad.autograd.tensor import Tensor
from minigrad.constants import LARGEST_DECAY
from minigrad.errors import InputError
from minigrad.optim.flat import distinct_parameters
from minigrad.options import checked_number, unknown

_BOUNDS: dict[str, dict[str, Any]] = {
    "lr": {"at_least": 0},
    "weight_decay": {"at_least": 0},
    "decay_vectors": {"kind": bool},
    "momentum": {"at_least": 0, "at_most": LARGEST_DECAY},
    "nesterov": {"kind": bool},
    "beta1": {"at_least": 0, "at_most": LARGEST_DECAY},
    "beta2": {"at_least": 0, "at_most": LARGEST_DECAY},
    "eps": {"at_least": 1e-19},  # v of smaller gradients can be 0 in float32: then eps alone is the divisor
}


def checked(owner: object, name: str, value: Any) -> Any:
    """Return a setting of an optimizer; raises InputError, naming the two, if it cannot be used."""
    return checked_number(f"{name} of {type(owner).__name__}", value, **_BOUNDS[name])


class GroupSettings(TypedDict, total=False):
    """A group as a user writes it: parameters, and the settings in which they differ from the rest."""

    params: Required[Iterable[Tensor]]
    lr: float
    weight_decay: float
    decay_vectors: bool


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters that are trained with the same settings."""

    parameters: list[Tensor]
    lr: float | None  # None: the optimizer's
    weight_decay: float
    decay_vectors: bool


def groups_of(owner: object, parameters: Iterable[Any], **defaults: Any) -> list[ParameterGroup]:
    """Return the groups that were given to an optimizer; plain parameters are one group with the default settings."""
    given = list(parameters)
    if not any(isinstance(each, dict) for each in given):
        given = [{"params": given}]
    groups = [_group(owner, each, {"lr": None, **defaults}) for each in given]
    ids = [id(parameter) for group in groups for parameter in group.parameters]
    if len(set(ids)) < len(ids):
        raise InputError("a parameter is in two groups of the optimizer; each belongs to one")
    return groups


def _group(owner: object, given: Any, defaults: dict[str, Any]) -> ParameterGroup:
    if not isinstance(given, dict) or "params" not in given:
        raise InputError(
            "an optimizer takes parameters, or groups of them as dictionaries: {'params': [...], 'lr': 0.01}; not both"
        )
    for name, value in given.items():
        if name not in GroupSettings.__annotations__:
            raise unknown("setting of a group", str(name), GroupSettings.__annotations__)
        if name in _BOUNDS:
            checked(owner, name, value)
    settings = {**defaults, **given}
    members = settings.pop("params")
    members = [members] if isinstance(members, Tensor) else list(members)
    for each in members:
        if not isinstance(each, Tensor):
            raise InputError(
                f"an optimizer takes tensors, as model.parameters() returns them, not {type(each).__name__}"
            )
        if each.requires_grad and not each.is_leaf:
            raise InputError(
                f"an optimizer trains leaves, and a tensor of shape {each.shape} was computed from others; give it "
                "those, as a list: [w], not w or [2 * w]"
            )
    return ParameterGroup(distinct_parameters(members), **settings)
