"""The settings of all optimizers: what each may be, checked where it is given."""

from __future__ import annotations

from typing import Any

from minigrad.options import checked_number

_MOST_KEPT = 0.9999999  # of a running mean: above it float32 rounds to 1, and nothing new would count

_BOUNDS: dict[str, dict[str, Any]] = {
    "lr": {"at_least": 0},
    "weight_decay": {"at_least": 0},
    "momentum": {"at_least": 0, "at_most": _MOST_KEPT},
    "beta1": {"at_least": 0, "at_most": _MOST_KEPT},
    "beta2": {"at_least": 0, "at_most": _MOST_KEPT},
    "eps": {"at_least": 1e-19},  # the squares of smaller gradients are zero in float32, and it alone divides by more
}


def checked(owner: object, name: str, value: Any) -> Any:
    """Return a setting of an optimizer; raises InputError, naming the two, if it cannot be used."""
    return checked_number(f"{name} of {type(owner).__name__}", value, **_BOUNDS[name])
