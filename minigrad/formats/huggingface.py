"""Reading the config.json of a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minigrad.errors import InputError


def require_variant(values: Mapping[str, Any], needed: Mapping[str, Any]) -> None:
    """Raise InputError if a config.json describes a variant of an architecture that a family does not have.

    `needed` holds the only value that the family supports for each key; a key that the file leaves out is accepted.
    """
    for key, value in needed.items():
        if values.get(key, value) != value:
            raise InputError(f"config.json has {key} = {values[key]!r}; this family needs {value!r}")
