"""The rotary settings of a config: checked, extended to a longer context, made into angles, written and read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol

from minigrad.errors import InputError
from minigrad.nn.rotary import RotaryAngles
from minigrad.nn.rotary_scaling import LinearAngles, NTKAngles, YarnAngles, ntk_theta

SCALINGS = ("linear", "ntk", "yarn")
_YARN = {
    "factor": "rope_factor",
    "original_max_position_embeddings": "rope_original_context",
    "beta_fast": "rope_beta_fast",
    "beta_slow": "rope_beta_slow",
    "attention_factor": "rope_attention_factor",
}
_PUBLISHED: dict[str, dict[str, str]] = {"default": {}, "linear": {"factor": "rope_factor"}, "yarn": _YARN}
"""The settings of each rope_type of a config.json: the name there, and the name here."""


class RotaryConfig(Protocol):
    """The fields that a config with rotary settings has."""

    @property
    def head_dim(self) -> int:
        """Elements of a head."""

    @property
    def context_length(self) -> int:
        """Tokens that a sequence may have."""

    @property
    def rope_theta(self) -> float:
        """Base of the rotary frequencies."""

    @property
    def rope_scaling(self) -> str | None:
        """How longer sequences than those trained on are read: linear, ntk, yarn or None."""

    @property
    def rope_factor(self) -> float:
        """How many times longer."""

    @property
    def rope_original_context(self) -> int | None:
        """The context trained on, where rope_scaling extends it."""

    @property
    def rope_beta_fast(self) -> float:
        """yarn keeps the frequency of pairs that rotate more often than this in the original context."""

    @property
    def rope_beta_slow(self) -> float:
        """yarn divides by the factor the frequency of pairs that rotate less often than this."""

    @property
    def rope_attention_factor(self) -> float | None:
        """The factor by which yarn lengthens queries and keys; None: 0.1 ln(factor) + 1."""


def check(config: RotaryConfig) -> None:
    """Raise InputError for rotary settings that cannot be used together."""
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
    """Return changes of a scaling together with those that follow from them, unless these are given too.

    The context so far becomes the original one, and the context grows by the factor; without a scaling, both are
    reset.
    """
    kind, factor = (changes.get(name, getattr(config, name)) for name in ("rope_scaling", "rope_factor"))
    trained = changes.get("rope_original_context") or config.rope_original_context or config.context_length
    if kind is None:
        implied = {"rope_factor": 1.0, "rope_original_context": None, "context_length": trained}
    else:
        implied = {"rope_original_context": trained, "context_length": int(trained * factor)}
    return {**implied, **changes}


def angles(config: RotaryConfig) -> RotaryAngles:
    """Return the rotary angles that a config asks for."""
    size, theta, factor = config.head_dim, config.rope_theta, config.rope_factor
    if config.rope_scaling == "linear":
        return LinearAngles(size, theta, factor=factor)
    if config.rope_scaling == "ntk":
        return NTKAngles(size, theta, factor=factor)
    if config.rope_scaling == "yarn":
        return YarnAngles(
            size,
            theta,
            factor=factor,
            original_context=config.rope_original_context or config.context_length,
            beta_fast=config.rope_beta_fast,
            beta_slow=config.rope_beta_slow,
            attention_factor=config.rope_attention_factor,
        )
    return RotaryAngles(size, theta)


def published(config: RotaryConfig) -> dict[str, Any]:
    """Return the rotary keys of config.json, as transformers has read them since version 4.

    transformers has no type "ntk" and needs none, as that is another theta; `rope_ntk` notes where it came from.
    """
    theta, kind = config.rope_theta, config.rope_scaling
    if kind is None:
        return {"rope_theta": theta}
    original = {"original_max_position_embeddings": config.rope_original_context}
    if kind == "ntk":
        noted = {"rope_theta": theta, "factor": config.rope_factor}
        return {"rope_theta": ntk_theta(config.head_dim, theta, config.rope_factor), "rope_ntk": noted, **original}
    settings = {theirs: getattr(config, ours) for theirs, ours in _PUBLISHED[kind].items()}
    known = {name: value for name, value in settings.items() if value is not None}
    return {"rope_theta": theta, "rope_scaling": {"rope_type": kind, **known}, **original}


def read(values: dict[str, Any]) -> dict[str, Any]:
    """Return the rotary fields of a config from the content of a config.json.

    Older files have rope_theta and rope_scaling, newer ones rope_parameters. Raises InputError for a rope_type, or a
    setting of one, that is not known here.
    """
    scaling: dict[str, Any] = {}
    for name in ("rope_scaling", "rope_parameters"):
        found = values.get(name) or {}
        if not isinstance(found, dict):
            raise InputError(f"config.json has {name} = {found!r}, which should be an object with a rope_type")
        scaling |= {key: value for key, value in found.items() if value is not None}
    kind = scaling.pop("rope_type", scaling.pop("type", "default"))
    theta = float(scaling.pop("rope_theta", values.get("rope_theta", 10_000.0)))
    if kind not in _PUBLISHED:
        raise InputError(f"config.json has the rope_type {kind!r}; this family knows {', '.join(_PUBLISHED)}")
    known = _PUBLISHED[kind]
    if unknown := scaling.keys() - known.keys():
        settings = ", ".join(f"{name} = {scaling[name]!r}" for name in sorted(unknown))
        raise InputError(f"config.json has {settings}, which this family does not know for the rope_type {kind!r}")
    fields = {known[name]: value for name, value in scaling.items()}
    if kind != "default":
        context = values["max_position_embeddings"]
        trained = {"linear": round(context / scaling["factor"]), "yarn": context}[kind]
        original = values.get("original_max_position_embeddings", trained)
        return {"rope_theta": theta, "rope_scaling": kind, "rope_original_context": original, **fields}
    return _read_ntk(values, theta) if "rope_ntk" in values else {"rope_theta": theta}


def _read_ntk(values: dict[str, Any], theta: float) -> dict[str, Any]:
    noted, original = values["rope_ntk"], values["original_max_position_embeddings"]
    if not math.isclose(theta, ntk_theta(values["head_dim"], noted["rope_theta"], noted["factor"])):
        raise InputError(f"config.json has rope_theta = {theta}, which does not follow from rope_ntk = {noted!r}")
    fields = {"rope_theta": noted["rope_theta"], "rope_factor": noted["factor"]}
    return {**fields, "rope_scaling": "ntk", "rope_original_context": original}
