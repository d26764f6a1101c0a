"""Model configs: the properties that all have, their config.json, and initial standard deviations.

A config is a frozen dataclass. Each field is declared once, by `option`, with its meaning, its bounds and its key in
config.json; `ModelConfig` writes and reads the file by these declarations, in their order. An `Entries` among them is a
part of the file that is not one field.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

from minigrad.errors import InputError
from minigrad.formats.huggingface import listed_end_ids, read_fields, require_variant
from minigrad.options import Option, options


class Entries(NamedTuple):
    """Entries of config.json: what a config writes, and the fields that are read, for a class, from the content."""

    write: Callable[[Any], dict[str, Any]]
    read: Callable[[Any, Mapping[str, Any]], dict[str, Any]] = lambda kind, values: {}


def needed(**values: Any) -> Entries:
    """Return entries that no config writes, but that must have these values in a file, if it has them."""

    def read(kind: Any, found: Mapping[str, Any]) -> dict[str, Any]:
        require_variant(found, values)
        return {}

    return Entries(lambda config: {}, read)


def always(**values: Any) -> Entries:
    """Return entries that every config writes, and that must have these values in a file, if it has them."""
    return needed(**values)._replace(write=lambda config: values)


def copies(field: str, *keys: str) -> Entries:
    """Return entries that repeat the value of a field under other keys; reading ignores them."""
    return Entries(lambda config: dict.fromkeys(keys, getattr(config, field)))


def own_token(key: str, field: str) -> Entries:
    """Return the entry of a token that has an id of its own, or, if its field is None, that of the end of a text."""

    def write(config: Any) -> dict[str, Any]:
        own = getattr(config, field)
        return {key: config.end_of_text_id if own is None else own}

    def read(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        is_own = values.get(key) != values.get("eos_token_id")
        return read_fields(kind, values, {key: field}, {key: None}) if is_own else {field: None}

    return Entries(write, read)


class ModelConfig:
    """The shape of a model. Each family has a config of its own, a frozen dataclass with fields made by `option`."""

    __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]
    model_types: ClassVar[Mapping[str, str]]  # model_types of config.json and their architectures, the usual one first

    vocab_size: int  # every token id is below it
    num_layers: int  # between the embedding and the last norm
    width: int  # elements per token in the residual stream
    num_heads: int  # query heads of a layer
    context_length: int  # tokens of the longest sequence
    norm_eps: float  # what a norm adds to the mean square before the root
    init_std: float  # of the initial matrices
    dropout: float  # the probability with which training drops an activation
    end_of_text_id: int  # the token between documents

    @property
    def num_kv_heads(self) -> int:
        """The number of key/value heads of a layer: that of the query heads, unless the family has such a field."""
        return self.num_heads

    @property
    def head_dim(self) -> int:
        """The number of elements of a head: an equal part of the width, unless the family has such a field."""
        return self.width // self.num_heads

    def activations_per_token(self) -> int:
        """Return the number of elements per token that training stores for the backward pass, without the logits."""
        raise TypeError(f"{type(self).__name__} does not state its activations")

    def model_type(self) -> str:
        """Return the one of `model_types` that this config has."""
        return next(iter(self.model_types))

    def published(self) -> dict[str, Any]:
        """Return the content of config.json; a field that is None has no entry."""
        kind = self.model_type()
        content: dict[str, Any] = {"architectures": [self.model_types[kind]], "model_type": kind}
        for each in _entries(type(self)):
            content |= each.write(self)
        return content

    @classmethod
    def recognises(cls, values: Mapping[str, Any]) -> bool:
        """Return whether the content of a config.json describes a model of this family."""
        return values.get("model_type") in [*cls.model_types]

    @classmethod
    def from_published(cls, values: Mapping[str, Any]) -> Self:
        """Return the config that the content of a config.json describes; raises InputError for another variant.

        Of several tokens that end a text, the first is the one between documents.
        """
        fields: dict[str, Any] = {}
        if ends := listed_end_ids(values):
            values = {**values, "eos_token_id": ends[0]}
        for each in _entries(cls):
            fields |= each.read(cls, values)
        return cls(**fields)


def _entries(kind: type[Any]) -> list[Entries]:
    """Return the entries of config.json that a class of configs declares, in order: those of fields, and others."""
    keys = {each.name: each for each in options(kind) if each.published}
    return [
        _of_field(keys[name]) if name in keys else value
        for name, value in vars(kind).items()
        if name in keys or isinstance(value, Entries)
    ]


_ABSENT = object()


def _of_field(field: Option) -> Entries:
    key = str(field.published)

    def write(config: Any) -> dict[str, Any]:
        value = getattr(config, field.name)
        return {} if value is None else {key: value}

    def read(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
        value = values.get(key, _ABSENT)
        if callable(field.absent) and value in (None, _ABSENT):
            value = field.absent(values)
        elif value is _ABSENT:
            if not field.absent:
                raise InputError(f"{key} is missing")
            value = field.default
        return {field.name: field.check(value, key)}

    return Entries(write, read)


def residual_std(config: ModelConfig) -> float:
    """Return the initial standard deviation of matrices that write into the residual stream.

    Each layer adds two outputs to it, so they are smaller by sqrt(2 layers) (Radford et al. 2019, section 2.3).
    """
    return config.init_std / math.sqrt(2 * config.num_layers)


def laptop_init_std(width: int) -> float:
    """Return the initial standard deviation of the laptop sizes.

    A sum over fewer terms is smaller, so narrow matrices get larger values: the initial outputs of every size are then
    as large as with 0.02 at a width of 576, that of SmolLM2-135M.
    """
    return round(0.02 * math.sqrt(576 / width), 4)
