"""The rotary settings of a Llama in llama.cpp's words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from minigrad.errors import InputError
from minigrad.formats.gguf.container import Value
from minigrad.formats.typed import read_dataclass
from minigrad.options import option, shown

_TYPES = ("default", "linear", "yarn")


@dataclass(frozen=True)
class _Rotary:
    """The settings of config.json, where older files have them (rope_scaling) and newer ones (rope_parameters)."""

    rope_type: str = option("default", "", choices=_TYPES)
    rope_theta: float = option(10_000.0, "", above=0, at_most=1e30)
    factor: float = option(1.0, "", at_least=1, at_most=1e6)
    original_max_position_embeddings: int | None = option(None, "", at_least=1, at_most=2**31 - 1)
    beta_fast: float = option(32.0, "", above=0)
    beta_slow: float = option(1.0, "", above=0)
    attention_factor: float | None = option(None, "", above=0)


def rotary_metadata(values: dict[str, Any], context_length: int) -> dict[str, Value]:
    """Return the settings of rotary positions that a config.json describes.

    Raises InputError for a kind of scaling other than linear and yarn. "ntk", which is only another theta, has none.
    """
    at_the_top = ("rope_theta", "original_max_position_embeddings")
    given: dict[str, Any] = {name: values[name] for name in at_the_top if name in values}
    for name in ("rope_scaling", "rope_parameters"):
        found = values.get(name)
        if not isinstance(found, dict | None):
            raise InputError(f"{name} is {shown(found)}, which should be an object with a rope_type")
        given |= {key: value for key, value in (found or {}).items() if value is not None}
    given.setdefault("rope_type", given.pop("type", "default"))
    if given["rope_type"] not in _TYPES:
        raise InputError(f"rope_type is {shown(given['rope_type'])}, not one of {', '.join(_TYPES)}")
    rotary = read_dataclass(_Rotary, given, "rope_scaling")
    metadata: dict[str, Value] = {"rope.freq_base": float(rotary.rope_theta)}
    if rotary.rope_type == "default":
        return metadata
    original = rotary.original_max_position_embeddings
    metadata |= {"rope.scaling.type": rotary.rope_type, "rope.scaling.factor": float(rotary.factor)}
    if rotary.rope_type == "yarn":
        metadata |= {
            "rope.scaling.original_context_length": original or context_length,
            "rope.scaling.yarn_beta_fast": float(rotary.beta_fast),
            "rope.scaling.yarn_beta_slow": float(rotary.beta_slow),
        }
        if rotary.attention_factor is not None:  # llama.cpp multiplies it by its own, which is the usual one
            metadata["rope.scaling.attn_factor"] = rotary.attention_factor / (0.1 * math.log(rotary.factor) + 1)
    return metadata
