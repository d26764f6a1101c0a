"""Groups of parameters with settings of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Required, TypedDict, cast

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.optim.flat import distinct_parameters
from minigrad.options import unknown


class Group(TypedDict, total=False):
    """Parameters with settings of their own; what is left out is as in the optimizer."""

    params: Required[Iterable[Tensor]]
    lr: float
    weight_decay: float
    decay_vectors: bool


def groups_of(parameters: Iterable[Any]) -> list[Group]:
    """Return the groups that were given; plain parameters are one group without settings of its own."""
    given = list(parameters)
    if not any(isinstance(each, dict) for each in given):
        return [Group(params=distinct_parameters(_checked(given)))]
    groups: list[Group] = []
    for each in given:
        if not isinstance(each, dict) or "params" not in each:
            raise InputError(
                "an optimizer takes parameters, or groups of them as dictionaries: {'params': [...], 'lr': 0.01}; not "
                "both"
            )
        for name in each.keys() - Group.__annotations__.keys():
            raise unknown("setting of a group", str(name), Group.__annotations__)
        members = each["params"] if not isinstance(each["params"], Tensor) else [each["params"]]
        groups.append(cast(Group, {**each, "params": distinct_parameters(_checked(members))}))
    ids = [id(parameter) for group in groups for parameter in group["params"]]
    if len(set(ids)) < len(ids):
        raise InputError("a parameter is in two groups of the optimizer; each belongs to one")
    return groups


def _checked(parameters: Iterable[Any]) -> list[Tensor]:
    found = list(parameters)
    for each in found:
        if not isinstance(each, Tensor):
            raise InputError(
                f"an optimizer takes tensors, as model.parameters() returns them, not {type(each).__name__}"
            )
    return found
