"""Initial weights from the folder of another run, whose model is the same, or a narrower one that grows."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.adapters import adapt, adapt_tokens
from minigrad.errors import InputError
from minigrad.formats.huggingface import require_floats
from minigrad.formats.json_files import read_json
from minigrad.formats.weights import check_weights, read_each_weight, read_shapes
from minigrad.nn.config import ModelConfig
from minigrad.nn.language_model import LanguageModel
from minigrad.training.folder import checkpoint
from minigrad.training.folder.state import State
from minigrad.typing import Array
from models import growth
from models.family import Family, override

GROWING = ("vidya-v2",)
"""The families that `growth` can widen."""

Families = Mapping[str, Family]

_HEAD = "lm_head.weight"


@dataclass(frozen=True)
class InitialWeights:
    """The initial weights of a model from a folder and, if the model grows, AdamW's moments."""

    weights: dict[str, Array]
    width: int
    grown: str = ""  # the fields that grow, in words
    moments: dict[str, Array] = field(default_factory=dict)  # of AdamW, where the folder has a checkpoint
    updates: int = 0  # the number of updates that the moments come from
    base: str = ""  # a hash of the weights, if adapters leave them as they are

    def fill(self, model: LanguageModel) -> None:
        """Copy the weights into an initialised model; in a model that grows, new elements keep their initial values."""
        if self.grown:
            growth.widen_weights(model, self.weights, self.width)
        else:  # adapters keep their initial values
            model.load_state_dict(model.state_dict() | self.weights)

    def adapted(self, model: LanguageModel, rank: int, tokens: Sequence[int]) -> InitialWeights:
        """Freeze a skeleton, give it adapters of a rank and rows of tokens, and return the weights as its base.

        The tokens are new: a pre-training has never read them.

        Raises InputError for a model that grows.
        """
        if self.grown:
            raise InputError(f"--adapter-rank {rank} trains adapters of a model as it is, and this one grows")
        adapt(model, rank)
        adapt_tokens(model, tokens)
        digest = hashlib.blake2b(digest_size=16)
        for name in sorted(self.weights):
            digest.update(name.encode() + self.weights[name].tobytes())
        return replace(self, base=digest.hexdigest())

    def moments_for(self, model: LanguageModel) -> dict[str, Array]:
        """Return the moments in the shapes of a model that grew."""
        return growth.widen_moments(model, self.moments, self.width)


def read_config(families: Families, values: dict[str, Any], path: Path) -> tuple[str, ModelConfig]:
    """Return the family and the config that `values`, the content of the file at `path`, describe.

    Raises InputError if no family recognises them, or if a setting is missing or of the wrong type.
    """
    kind = values.get("model_type")
    for name, family in families.items():
        if isinstance(kind, str) and family.config.recognises(values):
            try:
                return name, family.config.from_published(values)
            except InputError as error:
                raise InputError(f"{path} lacks or garbles a setting: {error}") from None
    raise InputError(
        f"{path} is of model_type {kind!r:.60}, in a form that no family here has; there are {', '.join(families)}"
    )


def initial_weights(families: Families, model: LanguageModel, folder: str | Path) -> InitialWeights:
    """Read the initial weights of `model` from a folder, whose model is the same or a narrower one.

    Raises InputError, listing every difference, if it neither fits the model nor can grow into it.
    """
    path = Path(folder) / "config.json"
    values = read_json(path)
    require_floats(values, path)
    name, config = read_config(families, values, path)
    grown = growth.describe(config, model.config) if name in GROWING else ""
    if not grown:
        return InitialWeights(fitting_weights(model, folder), model.config.width)
    required = growth.widened(config, model.config).norm_eps
    if required != model.config.norm_eps:
        raise InputError(f"{folder} grows ({grown}) only with norm_eps {required}, not {model.config.norm_eps}")
    # The weights in the folder must fit this model with the old widths.
    narrow = families[name].skeleton(override(model.config, {width: getattr(config, width) for width in growth.WIDTHS}))
    weights = fitting_weights(narrow, folder)
    if checkpoint.latest(folder) is None:
        return InitialWeights(weights, config.width, grown)
    saved = checkpoint.load(folder)
    found = {name: array for name, array in saved.moments.items() if name.endswith((".m", ".v"))}
    kinds = {f"{name}.{kind}": shape for name, shape in _shapes(narrow).items() for kind in "mv"}
    # An optimizer that turns matrices keeps no second moments of them.
    check_weights(found, {name: shape for name, shape in kinds.items() if name in found or name.endswith(".m")})
    return InitialWeights(weights, config.width, grown, found, State.read(saved, folder).updates)


def of_model(source: LanguageModel, model: LanguageModel) -> InitialWeights:
    """Return the weights of another model; raises InputError if they do not fit."""
    weights = source.state_dict()
    check_weights(weights, _shapes(model))
    return InitialWeights(weights, model.config.width)


def fitting_weights(model: LanguageModel, folder: str | Path) -> dict[str, Array]:
    """Read the weights of a folder for a model; raises InputError, listing every difference, if they do not fit."""
    return dict(each_fitting_weight(model, folder))


def stored_weights(model: LanguageModel, folder: str | Path) -> dict[str, Array]:
    """Return the weights of a folder under the names of a model, as arrays that take no memory; no array is read."""
    found = model.rename_weights(read_shapes(folder))
    if model.lm_head is None:  # tied, but some programs store a copy
        found.pop(_HEAD, None)
    return found


def each_fitting_weight(model: LanguageModel, folder: str | Path) -> Iterator[tuple[str, Array]]:
    """Yield the arrays of `fitting_weights` one by one, so that the arrays need not all be in memory."""
    check_weights(stored_weights(model, folder), _shapes(model))  # before anything is read or allocated
    return _checked_for_copy(model, folder)


def _checked_for_copy(model: LanguageModel, folder: str | Path) -> Iterator[tuple[str, Array]]:
    tied = next(name for name, parameter in model.named_parameters() if parameter is model.head())
    copies: dict[str, Array] = {}
    for name, array in read_renamed(model, folder):
        if model.lm_head is None and name in (_HEAD, tied):
            copies[name] = array
        if model.lm_head is not None or name != _HEAD:
            yield name, array
    if _HEAD in copies and not np.array_equal(copies[_HEAD], copies[tied], equal_nan=True):
        raise InputError(
            f"the weights in {folder} have an lm_head.weight of their own, but config.json says that it is {tied} "
            "(tie_word_embeddings)"
        )


def read_renamed(model: LanguageModel, folder: str | Path) -> Iterator[tuple[str, Array]]:
    """Yield the weights of a folder, one after the other, under the names of a model; others are left out."""
    without_memory = read_shapes(folder)
    ours = {id(array): name for name, array in model.rename_weights(without_memory).items()}
    for name, array in read_each_weight(folder):
        if (known := ours.get(id(without_memory[name]))) is not None:
            yield known, array


def grown_config(name: str, config: ModelConfig, target: ModelConfig) -> ModelConfig:
    """Return the config of a model of family `name` that grows to the widths of `target`; InputError if it cannot."""
    if name not in GROWING:
        raise InputError(f"a model of {name} cannot grow; only {', '.join(GROWING)} can")
    wider = growth.widened(config, target)
    if not growth.describe(config, wider):
        raise InputError("it is not wider than that")
    return wider


def _shapes(model: LanguageModel) -> dict[str, tuple[int, ...]]:
    return {name: parameter.shape for name, parameter in model.named_parameters()}
