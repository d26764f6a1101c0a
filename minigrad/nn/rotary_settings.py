"""The rotary settings of a config: checks, extension to a longer context, angles, and the published form."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minigrad.errors import InputError
from minigrad.formats.huggingface import rotary_scaling
from minigrad.formats.typed import read_dataclass
from minigrad.nn import fields
from minigrad.nn.config import ModelConfig
from minigrad.nn.rotary import LinearAngles, NTKAngles, RotaryAngles, YarnAngles, ntk_theta
from minigrad.options import REQUIRED, Option, option, shown

SCALINGS = ("linear", "ntk", "yarn")
_YARN = {
    "factor": "rope_factor",
    "original_max_position_embeddings": "rope_original_context",
    "beta_fast": "rope_beta_fast",
    "beta_slow": "rope_beta_slow",
    "attention_factor": "rope_attention_factor",
}
_PUBLISHED: dict[str, dict[str, str]] = {"default": {}, "linear": {"factor": "rope_factor"}, "yarn": _YARN}
"""The settings of each rope_type of a config.json: the published name and the name of our field."""

_THETA = Option("", kind=float, above=0, at_most=1e30)
_FACTOR = Option("", kind=float, at_least=1, at_most=1e6)
_LENGTH = Option(**fields.CONTEXT, kind=int)
_HEAD_DIM = Option("", kind=int, at_least=4, at_most=fields.HEAD_DIM["at_most"])


@dataclass(frozen=True)
class _Ntk:
    """The settings that the theta of the scaling "ntk" was computed from."""

    rope_theta: float = option(REQUIRED, "the base without scaling", above=1, at_most=1e15)
    factor: float = option(REQUIRED, "how many times longer sequences are", at_least=1, at_most=1e6)


class RotaryConfig(ModelConfig):
    """A config with rotary settings."""

    rope_theta: float  # the base of the frequencies
    rope_scaling: str | None  # how a model reads sequences longer than in training: one of `SCALINGS`
    rope_factor: float  # how many times longer they are
    rope_original_context: int | None  # the context length in training
    rope_beta_fast: float  # yarn keeps frequencies that turn more often than this within the original context
    rope_beta_slow: float  # and divides by rope_factor the frequencies that turn less often than this
    rope_attention_factor: float | None  # by which yarn multiplies queries and keys; None: 0.1 ln(rope_factor) + 1


def check(config: RotaryConfig) -> None:
    """Raise InputError for rotary settings that contradict each other or are out of range."""
    kind, factor, original = config.rope_scaling, config.rope_factor, config.rope_original_context
    if config.head_dim % 2:
        raise InputError(f"head_dim must be even, because rotary positions rotate pairs; it is {config.head_dim}")
    if kind is None and (factor != 1 or original is not None):
        name, value = ("rope_factor", factor) if factor != 1 else ("rope_original_context", original)
        raise InputError(f"{name} ({value}) needs a rope_scaling: one of {', '.join(SCALINGS)}")
    if kind is not None and (original is None or original < 1):
        raise InputError(f"rope_original_context must be at least 1 with rope_scaling {kind!r}, not {original}")
    if kind == "ntk" and config.head_dim < 4:
        raise InputError(f"head_dim must be at least 4 with rope_scaling 'ntk', not {config.head_dim}")
    if not 0 < config.rope_beta_slow < config.rope_beta_fast:
        slow, fast = config.rope_beta_slow, config.rope_beta_fast
        raise InputError(f"rope_beta_slow ({slow}) must be above 0 and below rope_beta_fast ({fast})")


def extended(config: RotaryConfig, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return changes of a scaling, completed by the changes that follow from them and are not given.

    With a scaling, the context length so far becomes the original one, and the context length is multiplied by the
    factor. Without one, the factor is reset to 1 and the context length to the original one.
    """
    kind, factor = (changes.get(name, getattr(config, name)) for name in ("rope_scaling", "rope_factor"))
    original = changes.get("rope_original_context") or config.rope_original_context or config.context_length
    if kind is None:
        implied = {"rope_factor": 1.0, "rope_original_context": None, "context_length": original}
    else:
        implied = {"rope_original_context": original, "context_length": int(original * factor)}
    return {**implied, **changes}


def angles(config: RotaryConfig) -> RotaryAngles:
    """Return the rotary angles of a config."""
    size, theta, factor = config.head_dim, config.rope_theta, config.rope_factor
    if config.rope_scaling == "linear":
        return LinearAngles(size, theta, factor=factor)
    if config.rope_scaling == "ntk":
        return NTKAngles(size, theta, factor=factor)
    if config.rope_scaling is None:
        return RotaryAngles(size, theta)
    original = config.rope_original_context or config.context_length
    betas = {"beta_fast": config.rope_beta_fast, "beta_slow": config.rope_beta_slow}
    scale = config.rope_attention_factor
    return YarnAngles(size, theta, factor=factor, original_context=original, **betas, attention_factor=scale)


def published(config: RotaryConfig) -> dict[str, Any]:
    """Return the rotary keys of config.json, as transformers has read them since version 4.

    transformers has no type "ntk" and needs none, because it is only another theta; `rope_ntk` records the settings
    that this theta was computed from.
    """
    theta, kind = config.rope_theta, config.rope_scaling
    if kind is None:
        return {"rope_theta": theta}
    original = {"original_max_position_embeddings": config.rope_original_context}
    if kind == "ntk":
        settings = {"rope_theta": theta, "factor": config.rope_factor}
        return {"rope_theta": ntk_theta(config.head_dim, theta, config.rope_factor), "rope_ntk": settings, **original}
    values = {theirs: getattr(config, ours) for theirs, ours in _PUBLISHED[kind].items()}
    settings = {name: value for name, value in values.items() if value is not None}
    return {"rope_theta": theta, "rope_scaling": {"rope_type": kind, **settings}, **original}


def read(_kind: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rotary fields of a config from the content of a config.json.

    Raises InputError for an unknown rope_type or an unknown setting of one.
    """
    scaling = rotary_scaling(values)
    kind = scaling.pop("rope_type")
    theta = float(_THETA.check(scaling.pop("rope_theta", values.get("rope_theta", 10_000.0)), "rope_theta"))
    if not isinstance(kind, str) or kind not in _PUBLISHED:
        raise InputError(f"rope_type = {shown(kind)}; this family supports {', '.join(_PUBLISHED)}")
    known = _PUBLISHED[kind]
    if unknown := scaling.keys() - known.keys():
        settings = ", ".join(f"{name} = {scaling[name]!r}" for name in sorted(unknown))
        raise InputError(f"{settings}, which this family does not support for the rope_type {kind!r}")
    given = {known[name]: value for name, value in scaling.items()}
    if kind != "default":
        context = _LENGTH.check(values.get("max_position_embeddings"), "max_position_embeddings")
        factor = _FACTOR.check(scaling.get("factor"), "factor")
        original = values.get("original_max_position_embeddings")
        if original is None:
            original = {"linear": max(1, round(context / factor)), "yarn": context}[kind]
        return {"rope_theta": theta, "rope_scaling": kind, "rope_original_context": original, **given}
    return _read_ntk(values, theta) if "rope_ntk" in values else {"rope_theta": theta}


def _read_ntk(values: Mapping[str, Any], theta: float) -> dict[str, Any]:
    settings = read_dataclass(_Ntk, values["rope_ntk"], "rope_ntk")
    head_dim = _HEAD_DIM.check(values.get("head_dim"), "head_dim")
    original = _LENGTH.check(values.get("original_max_position_embeddings"), "original_max_position_embeddings")
    if not math.isclose(theta, ntk_theta(head_dim, settings.rope_theta, settings.factor)):
        given = shown(values["rope_ntk"])
        raise InputError(f"rope_theta = {theta}, which does not follow from rope_ntk = {given}")
    base = {"rope_theta": settings.rope_theta, "rope_factor": settings.factor}
    return {**base, "rope_scaling": "ntk", "rope_original_context": original}
