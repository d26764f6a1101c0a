"""Models from folders: loaded as they are, with adapters, in fewer bits, or wider (`models.growth`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.adapters import adapt, adapt_tokens, merge
from minigrad.adapters.files import base_of, is_adapter, load_adapters
from minigrad.adapters.files import model_below as model_below
from minigrad.errors import InputError
from minigrad.formats.folders import CONFIG, check_folder
from minigrad.formats.huggingface import QUANTISATION, UNROUNDED, read_end_ids, require_floats
from minigrad.formats.json_files import read_json
from minigrad.formats.weights import (
    HEAD,
    check_arrays,
    check_values,
    hash_of_arrays,
    read_each_weight,
    read_shapes,
    without_copy_of_tied,
)
from minigrad.nn.config import ModelConfig
from minigrad.nn.language_model import LanguageModel
from minigrad.quantised import files as quantised_files
from minigrad.quantised import format_of, quantise
from minigrad.system import hardware
from minigrad.training.folder import checkpoint
from minigrad.training.folder.checkpoint import State
from minigrad.typing import Array
from models import growth, pretrained
from models.pretrained import find_run
from models.registry import CUSTOM, FAMILIES, configure, override

GROWING = ("vidya-v2",)
"""The families that `growth` can widen."""


@dataclass(frozen=True)
class InitialWeights:
    """The initial weights of a model from a folder and, if the model grows, AdamW's moments."""

    weights: dict[str, Array]
    width: int
    grown: str = ""  # the fields that grow, in words
    moments: dict[str, Array] = field(default_factory=dict)  # of AdamW, where the folder has a checkpoint
    updates: int = 0  # the number of updates that the moments come from
    base: str = ""  # a hash of the weights, if adapters leave them as they are
    end_ids: tuple[int, ...] = ()  # tokens that end a text, if the folder lists several

    def fill(self, model: LanguageModel) -> None:
        """Copy the weights into an initialised model, which then ends a text with the same tokens.

        In a model that grows, new elements keep their initial values.
        """
        if self.grown:
            growth.widen_weights(model, self.weights, self.width)
        else:  # adapters keep their initial values
            model.load_state_dict(model.state_dict() | self.weights)
        model.end_ids = self.end_ids

    def adapted(self, model: LanguageModel, rank: int, tokens: Sequence[int]) -> InitialWeights:
        """Freeze a skeleton, give it adapters of a rank and rows of new tokens, and return the weights as its base.

        Raises InputError for a model that grows.
        """
        if self.grown:
            raise InputError(f"--adapter-rank {rank} trains adapters of a model as it is, and this one grows")
        adapt(model, rank)
        adapt_tokens(model, tokens)
        return replace(self, base=hash_of_arrays(self.weights))

    def moments_for(self, model: LanguageModel) -> dict[str, Array]:
        """Return the moments in the shapes of a model that grew."""
        return growth.widen_moments(model, self.moments, self.width)


def load(
    folder: str | Path, dtype: str | None = None, *, quantize: str | None = None, **overrides: Any
) -> LanguageModel:
    """Load a run folder, or a Hugging Face folder of a supported architecture, with any config field overridden.

    `dtype` is by default that of the stored weights; half precision becomes float32. With `quantize`, the matrices stay
    in a smaller format: float16, bfloat16, int8 or int4 (see `minigrad.quantised`). Such a model writes faster, in
    less memory, and cannot be trained. A folder that was saved in such a format is loaded in it.
    The folder of adapters (`minigrad.adapters.files`) names its base: that is loaded, and the adapters are added to
    its matrices, or stay beside them if these are quantised. A name is that of a model in `models.pretrained`.
    Raises InputError naming the file that is missing, damaged or of another kind.
    """
    folder = find_run(folder)
    check_folder(folder)
    if is_adapter(folder):
        model_below(folder)  # which refuses adapters that are their own base
        base = base_of(folder)
        return _with_adapters(load(base, dtype, quantize=quantize, **overrides), folder, base)
    path = Path(folder) / CONFIG
    values = read_json(path)
    name, config = read_config(values, path)
    model = FAMILIES[name].skeleton(override(config, overrides))
    stored = quantised_files.read_entry(values, path)
    if stored is not None and quantize not in (None, stored):
        raise InputError(f"{folder} is stored as {stored}: its weights cannot be rounded again to {quantize}")
    if (quantize := quantize or stored) is not None:
        if dtype not in (None, "float32"):
            raise InputError(f"a quantised model computes in float32, not in {dtype}")
        quantise(model, quantize)
    found = stored_weights(model, folder)
    if stored is not None:
        quantised_files.check_quantised(model, found, folder)
        model.initialise(draw=False)
        quantised_files.fill(model, each_weight(model, folder))
    else:
        weights, parameters = each_fitting_weight(model, folder), dict(model.named_parameters())
        kinds = {array.dtype for array in found.values()} if quantize is None else {np.float32}
        model.initialise(dtype=dtype or np.result_type(*kinds), draw=False)
        for weight, array in weights:
            parameters[weight].data = array
            del array  # before the next one is read
    model.end_ids = read_end_ids(folder)
    hardware.give_back_memory()
    return model


def _with_adapters(model: LanguageModel, folder: Path, base: Path) -> LanguageModel:
    """Return the model of `base` with the adapters of a folder: in its matrices, or beside them if it is quantised."""
    if format_of(model) is not None and is_adapter(base):
        raise InputError(
            f"{folder} holds adapters of adapters ({base}), and a quantised model has room for one layer of them; "
            f'merge {base} first: models.load("{base}").save(DIR)'
        )
    load_adapters(model, folder)
    model.end_ids = read_end_ids(folder) or model.end_ids
    if format_of(model) is None:
        merge(model)
    return model


def grow(folder: str | Path, size: str | None = None, seed: int = 0, **overrides: Any) -> LanguageModel:
    """Load a run folder or a Hugging Face folder as a wider model with the same output; `seed` draws new elements.

    The new widths are the `overrides`; the others are those of `size`, or without one the present ones. Vocabulary,
    context and angles stay, and the dtype is that of the stored weights. Raises InputError, naming the reason, if the
    model cannot grow to these widths.
    """
    for name in overrides:
        if name not in growth.WIDTHS:
            raise InputError(f"growing changes {', '.join(growth.WIDTHS)}, not {name}")
    folder = find_run(folder)
    check_folder(folder)
    if is_adapter(folder):
        raise _grow_merged(folder)
    path = folder / CONFIG
    family, config = read_config(read_json(path), path)
    target = override(config if size is None else configure(family, size), overrides)
    model = FAMILIES[family].skeleton(grown_config(family, config, target))
    found = initial_weights_for(model, folder)
    model.initialise(seed, np.result_type(*(array.dtype for array in found.weights.values())))
    found.fill(model)
    return model


def start_from(
    values: dict[str, Any], path: Path, family: str | None, size: str, **overrides: Any
) -> tuple[str, str, LanguageModel]:
    """Return (family, size, skeleton) of the model to train on from the one that a config.json describes.

    `values` is the content of the file at `path`. If `size` is a larger one, the skeleton has its widths; "auto" keeps
    the size. The skeleton has the longest context that the size allows, and fields overridden; if these make it wider,
    it gets the `norm_eps` with which it computes the same function.
    Raises InputError if the model is not of the given `family` (None allows any), or cannot grow to the size.
    """
    require_floats(values, path, _unrounded(path.parent))
    found, config = read_config(values, path)
    if family not in (None, found):
        raise InputError(f"{path.parent} holds a model of {found}, but --model {family} was given")
    names = FAMILIES[found].names_of(config)
    if size not in ("auto", *names):
        try:
            config = grown_config(found, config, configure(found, size))
        except InputError as error:
            refused = f"{path.parent} holds a {found} {names[0]}, but --size {size} was given"
            instead = f". A larger width works: --set width={2 * config.width}" if found in GROWING else ""
            raise InputError(f"{refused}: {error}{instead}") from None
    changed = override(config, overrides)
    if found in GROWING and changed.width > config.width and "norm_eps" not in overrides:
        changed = replace(changed, norm_eps=growth.widened(config, changed).norm_eps)  # the function stays the same
    names = FAMILIES[found].names_of(changed)
    size = size if size in names else names[0]
    model = FAMILIES[found].skeleton(changed)
    if size == CUSTOM or model.learns_positions or "context_length" in overrides:
        return found, size, model
    longest = max(configure(found, size).context_length, changed.context_length)
    return found, size, FAMILIES[found].skeleton(replace(changed, context_length=longest))


def _unrounded(quantised: Path) -> str:
    """Return where unrounded weights of quantised ones are; models/pretrained has none of its quantised models."""
    if quantised.resolve().parent != pretrained.FOLDER.resolve():
        return UNROUNDED
    shipped = {name: read_json(pretrained.FOLDER / name / CONFIG) for name in pretrained.names()}
    others = " or ".join(name for name, values in shipped.items() if QUANTISATION not in values)
    return f"this model comes in this form alone, and can be a --teacher; start from {others}"


def read_config(values: dict[str, Any], path: Path) -> tuple[str, ModelConfig]:
    """Return the family and the config that `values`, the content of the file at `path`, describe.

    Raises InputError if no family recognises them, or if a setting is missing or of the wrong type.
    """
    kind = values.get("model_type")
    for name, family in FAMILIES.items():
        if isinstance(kind, str) and family.config.recognises(values):
            try:
                return name, family.config.from_published(values)
            except InputError as error:
                raise InputError(f"{path} describes no {name} that can be built here: {error}") from None
    raise InputError(
        f"{path} is of model_type {kind!r:.60}, in a form that no family here has; there are {', '.join(FAMILIES)}"
    )


def grown_config(name: str, config: ModelConfig, target: ModelConfig) -> ModelConfig:
    """Return the config of a model of family `name` that grows to the widths of `target`; InputError if it cannot."""
    if name not in GROWING:
        raise InputError(f"a model of {name} cannot grow; only {', '.join(GROWING)} can")
    wider = growth.widened(config, target)
    if not growth.describe(config, wider):
        raise InputError("the wanted size is not wider")
    return wider


def initial_weights_for(model: LanguageModel, folder: str | Path) -> InitialWeights:
    """Read the initial weights of `model` from a folder, whose model is the same or a narrower one.

    If the folder holds adapters, they are added to the weights of their base.
    Raises InputError, listing every difference, if it neither fits the model nor can grow into it.
    """
    if is_adapter(folder):
        merged = load(folder)
        can_grow = isinstance(merged.config, tuple(FAMILIES[name].config for name in GROWING))
        if can_grow and growth.describe(merged.config, model.config):
            raise _grow_merged(folder)
        check_arrays(weights := merged.state_dict(), _shapes(model), place=folder)
        return InitialWeights(weights, model.config.width, end_ids=merged.end_ids)
    path = Path(folder) / CONFIG
    values = read_json(path)
    require_floats(values, path, _unrounded(path.parent))
    name, config = read_config(values, path)
    grown, end_ids = growth.describe(config, model.config) if name in GROWING else "", read_end_ids(Path(folder))
    if not grown:
        weights = dict(each_fitting_weight(model, folder))
        check_values(weights, folder)
        return InitialWeights(weights, model.config.width, end_ids=end_ids)
    required = growth.widened(config, model.config).norm_eps
    if required != model.config.norm_eps:
        raise InputError(f"{folder} grows ({grown}) only with norm_eps {required}, not {model.config.norm_eps}")
    # The weights in the folder must fit this model with the old widths.
    widths = {width: getattr(config, width) for width in growth.WIDTHS}
    narrow = FAMILIES[name].skeleton(override(model.config, widths))
    weights = dict(each_fitting_weight(narrow, folder))
    check_values(weights, folder)
    initial = InitialWeights(weights, config.width, grown, end_ids=end_ids)
    if checkpoint.newest(folder) is None:
        return initial
    saved = checkpoint.load(folder)
    found = {name: array for name, array in saved.moments.items() if name.endswith((".m", ".v"))}
    if not found:  # SGD keeps none of these
        return initial
    kinds = {f"{name}.{kind}": shape for name, shape in _shapes(narrow).items() for kind in "mv"}
    # An optimizer that turns matrices keeps no second moments of them.
    expected = {name: shape for name, shape in kinds.items() if name in found or name.endswith(".m")}
    check_arrays(found, expected, place=folder)
    return replace(initial, moments=found, updates=State.read(saved, folder).updates)


def _grow_merged(folder: str | Path) -> InputError:
    return InputError(f'{folder} holds adapters; merge them before the model grows: models.load("{folder}").save(DIR)')


def stored_weights(model: LanguageModel, folder: str | Path) -> dict[str, Array]:
    """Return the weights of a folder under the names of a model, as arrays that take no memory; no array is read."""
    found = model.rename_weights(read_shapes(folder))
    if model.lm_head is None:  # tied, but some programs store a copy
        found.pop(HEAD, None)
    return found


def each_fitting_weight(model: LanguageModel, folder: str | Path) -> Iterator[tuple[str, Array]]:
    """Yield the weights of a folder for a model one by one, so that they need not all be in memory.

    Raises InputError at once, listing every difference, if they do not fit.
    """
    check_arrays(stored_weights(model, folder), _shapes(model), place=folder)  # before anything is read or allocated
    return each_weight(model, folder)


def each_weight(model: LanguageModel, folder: str | Path) -> Iterator[tuple[str, Array]]:
    """Yield the weights of a folder, one after the other, under the names of a model; others are left out.

    Raises InputError at the end if the head is the embedding, and the folder holds another one.
    """
    renamed = _each_renamed(model, folder)
    if model.lm_head is not None:
        return renamed
    tied = next(name for name, parameter in model.named_parameters() if parameter is model.head())
    return without_copy_of_tied(renamed, tied, folder)


def _each_renamed(model: LanguageModel, folder: str | Path) -> Iterator[tuple[str, Array]]:
    without_memory = read_shapes(folder)
    ours = {id(array): name for name, array in model.rename_weights(without_memory).items()}
    for name, array in read_each_weight(folder):
        if (known := ours.get(id(without_memory[name]))) is not None:
            yield known, array


def _shapes(model: LanguageModel) -> dict[str, tuple[int, ...]]:
    return {name: parameter.shape for name, parameter in model.named_parameters()}
