"""A model family: its model class, its config class and its named sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from minigrad import nn
from minigrad.nn import rotary_settings
from minigrad.nn.config import ModelConfig
from minigrad.nn.language_model import LanguageModel
from minigrad.options import options, unknown

CUSTOM = "custom"
"""The size of a model whose shape has no name."""

_NOT_PART_OF_A_SIZE = (
    *("vocab_size", "end_of_text_id", "begin_of_text_id", "padding_id"),
    *("context_length", "init_std", "dropout", "norm_eps", "key_shift"),
    *("rope_scaling", "rope_factor", "rope_original_context"),
    *("rope_beta_fast", "rope_beta_slow", "rope_attention_factor"),
)
"""Fields that do not identify a size: they depend on the tokenizer, or on how a model is trained, extended or grown."""


class Family(NamedTuple):
    """A model class, its config class, and the configs of its sizes by name."""

    model: type[LanguageModel]
    config: type[ModelConfig]
    sizes: Mapping[str, ModelConfig]

    def names_of(self, config: ModelConfig) -> list[str]:
        """Return the names of the sizes that have the shape of `config`, closest first; [CUSTOM] if there is none."""
        free = {name: getattr(config, name) for name in _NOT_PART_OF_A_SIZE if hasattr(config, name)}
        names = [name for name, known in self.sizes.items() if replace(known, **free) == config]
        return sorted(names, key=lambda name: _differences(self.sizes[name], free)) or [CUSTOM]

    def skeleton(self, config: ModelConfig) -> LanguageModel:
        """Build a model whose parameters have names and shapes but no memory; `initialise` gives them values."""
        return skeleton(self.model, config)


def skeleton(model: Any, config: ModelConfig) -> LanguageModel:
    """Build a model of a class whose parameters have names and shapes but no memory."""
    with nn.shapes_only():
        built: LanguageModel = model(config)
    return built


def _differences(config: ModelConfig, values: Mapping[str, Any]) -> int:
    return sum(getattr(config, name) != value for name, value in values.items())


def override(config: ModelConfig, values: Mapping[str, Any]) -> ModelConfig:
    """Return a config with some fields changed; a str is converted to the field's type: "0.5" to 0.5, "none" to None.

    Raises InputError for a field that the config lacks, naming the closest, or for a value that is not allowed.
    """
    fields = {each.name: each for each in options(type(config))}
    for name in values:
        if name not in fields:
            raise unknown(f"field of {type(config).__name__}", name, fields)
    changes = {
        name: fields[name].convert(value, name) if isinstance(value, str) else fields[name].check(value, name)
        for name, value in values.items()
    }
    if changes.keys() & {"rope_scaling", "rope_factor"}:
        rotary: Any = config  # only a config with rotary positions has these fields
        changes = rotary_settings.extended(rotary, changes)
    return replace(config, **changes)
