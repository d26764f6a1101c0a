"""The registry: every model family under its name, and how to build, count, load and grow one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.adapters import merge
from minigrad.adapters.files import base_of as base_of
from minigrad.adapters.files import is_adapter, load_adapters
from minigrad.errors import InputError
from minigrad.formats.huggingface import require_floats
from minigrad.formats.json_files import read_json
from minigrad.nn.config import ModelConfig
from minigrad.nn.language_model import LanguageModel
from minigrad.quantised import files as quantised_files
from minigrad.quantised import format_of, quantise
from minigrad.system import hardware
from models import gpt2, growth, initial_weights, vidya_v1, vidya_v2, vsla, wiola
from models.family import CUSTOM, Family, override
from models.family import skeleton as skeleton_of
from models.initial_weights import GROWING, InitialWeights
from models.names import LAPTOP_SIZES, check_size

FAMILIES = {
    "gpt2": Family(gpt2.GPT2, gpt2.GPT2Config, gpt2.SIZES),
    "vidya-v1": Family(vidya_v1.VidyaV1, vidya_v1.VidyaV1Config, vidya_v1.SIZES),
    "vidya-v2": Family(vidya_v2.VidyaV2, vidya_v2.VidyaV2Config, vidya_v2.SIZES),
    "vsla": Family(vsla.VSLA, vsla.VSLAConfig, vsla.SIZES),
    "wiola": Family(wiola.Wiola, wiola.WiolaConfig, wiola.SIZES),
}
"""The families by name: the class of the model, the class of its config, and the configs of its sizes."""

RECIPES: dict[str, dict[str, Any]] = {"vidya-v2": {"key_shift": True}}
"""Fields that are in no published design, but learn better: new runs of a family's laptop sizes set them."""


def configure(family: str, size: str = "nano", **overrides: Any) -> ModelConfig:
    """Return the config of a family's size, with any field overridden.

    Raises InputError for an unknown family, size or field (naming the closest), or a shape that cannot be built.
    """
    check_size(family, size)
    return override(FAMILIES[family].sizes[size], overrides)


def skeleton(family: str, size: str = "nano", **overrides: Any) -> LanguageModel:
    """Build a model whose parameters have names and shapes but no memory; `initialise` gives them values."""
    config = configure(family, size, **overrides)
    return FAMILIES[family].skeleton(config)


def for_training(family: str, size: str = "nano", **overrides: Any) -> LanguageModel:
    """Return the skeleton that a new run trains: a laptop size with the settings of `RECIPES`, any other size as it is.

    >>> for_training("vidya-v2", "nano").config.key_shift, for_training("vidya-v2", "2.0").config.key_shift
    (True, False)
    """
    check_size(family, size)
    recipe = RECIPES.get(family, {}) if size in LAPTOP_SIZES else {}
    return skeleton(family, size, **(recipe | overrides))


def smallest_published(family: str) -> tuple[str, LanguageModel]:
    """Return the name and the skeleton of a family's smallest published size.

    >>> smallest_published("vidya-v2")[0], smallest_published("gpt2")[0]
    ('2.0', '124m')
    """
    size = next(size for size in FAMILIES[family].sizes if size not in LAPTOP_SIZES)
    return size, skeleton(family, size)


def variant(model: LanguageModel, **overrides: Any) -> LanguageModel:
    """Return the skeleton of a model like this one, with fields of its config overridden."""
    return skeleton_of(type(model), override(model.config, overrides))


def build(family: str, size: str = "nano", *, seed: int = 0, dtype: str = "float32", **overrides: Any) -> LanguageModel:
    """Build a model with freshly drawn weights; the same `seed` gives the same weights."""
    model = skeleton(family, size, **overrides)
    model.initialise(seed, dtype)
    return model


def count(family: str, size: str = "nano", **overrides: Any) -> int:
    """Return the exact number of parameters of a size, tied weights once; nothing is allocated."""
    return skeleton(family, size, **overrides).num_parameters()


def load(
    folder: str | Path, dtype: str | None = None, *, quantize: str | None = None, **overrides: Any
) -> LanguageModel:
    """Load a run folder, or a Hugging Face folder of a supported architecture, with any config field overridden.

    `dtype` is by default that of the stored weights; half precision becomes float32. With `quantize`, the matrices stay
    in a smaller format: float16, bfloat16, int8 or int4 (see `minigrad.quantised`). Such a model writes faster, in
    less memory, and cannot be trained. A folder that was saved as int8 or int4 is loaded as that.
    The folder of adapters (`minigrad.adapters.files`) names its base: that is loaded, and the adapters are added to
    its matrices, or stay beside them if these are quantised.
    Raises InputError naming the file that is missing, damaged or of another kind.
    """
    if is_adapter(folder):
        return _load_adapted(folder, dtype, quantize, overrides)
    path = Path(folder) / "config.json"
    values = read_json(path)
    name, config = initial_weights.read_config(FAMILIES, values, path)
    model = FAMILIES[name].skeleton(override(config, overrides))
    stored = quantised_files.read_entry(values, path)
    if stored is not None and quantize not in (None, stored):
        raise InputError(f"{folder} is stored as {stored}: its weights cannot be rounded again to {quantize}")
    if (quantize := quantize or stored) is not None:
        if dtype not in (None, "float32"):
            raise InputError(f"a quantised model computes in float32, not in {dtype}")
        quantise(model, quantize)
    if stored is not None:
        quantised_files.check_arrays(model, initial_weights.stored_weights(model, folder))
        model.initialise(draw=False)
        quantised_files.fill(model, initial_weights.read_renamed(model, folder))
        hardware.give_back_memory()
        return model
    found, parameters = initial_weights.stored_weights(model, folder), dict(model.named_parameters())
    weights = initial_weights.each_fitting_weight(model, folder)
    kinds = {array.dtype for array in found.values()} if quantize is None else {np.float32}
    model.initialise(dtype=dtype or np.result_type(*kinds), draw=False)
    for weight, array in weights:
        parameters[weight].data = array
        del array  # before the next one is read
    hardware.give_back_memory()
    return model


def _load_adapted(
    folder: str | Path, dtype: str | None, quantize: str | None, overrides: dict[str, Any]
) -> LanguageModel:
    model = load(base_of(folder), dtype, quantize=quantize, **overrides)
    load_adapters(model, folder)
    if format_of(model) is None:
        merge(model)
    return model


def grow(folder: str | Path, size: str = "2.1", seed: int = 0, **overrides: Any) -> LanguageModel:
    """Load a run folder or a Hugging Face folder as a wider model with the same output; `seed` draws new elements.

    The new widths are those of `size`, or of the `overrides`; vocabulary, context and angles stay, and the dtype is
    that of the stored weights. Raises InputError, naming the reason, if the model cannot grow to these widths.
    """
    for name in overrides:
        if name not in growth.WIDTHS:
            raise InputError(f"growing changes {', '.join(growth.WIDTHS)}, not {name}")
    family, config = _read(folder)
    target = initial_weights.grown_config(family, config, configure(family, size, **overrides))
    model = FAMILIES[family].skeleton(target)
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
    require_floats(values, path)
    found, config = initial_weights.read_config(FAMILIES, values, path)
    if family not in (None, found):
        raise InputError(f"{path.parent} holds a model of {found}, but --model {family} was given")
    names = FAMILIES[found].names_of(config)
    if size not in ("auto", *names):
        try:
            config = initial_weights.grown_config(found, config, configure(found, size))
        except InputError as error:
            refused = f"{path.parent} holds a {found} {names[0]}, but --size {size} was given"
            instead = f". A larger width works: --set width={2 * config.width}" if found in GROWING else ""
            raise InputError(f"{refused}: {error}{instead}") from None
    changed = override(config, overrides)
    if found in GROWING and changed.width > config.width and "norm_eps" not in overrides:
        changed = replace(changed, norm_eps=growth.widened(config, changed).norm_eps)  # the function stays the same
    config = changed
    names = FAMILIES[found].names_of(config)
    size = size if size in names else names[0]
    model = FAMILIES[found].skeleton(config)
    if size == CUSTOM or model.learns_positions:
        return found, size, model
    longest = max(configure(found, size).context_length, config.context_length)
    return found, size, FAMILIES[found].skeleton(replace(config, context_length=longest))


def initial_weights_for(model: LanguageModel, folder: str | Path) -> InitialWeights:
    """Read the initial weights of `model` from a folder, whose model is the same or a narrower one.

    Those of adapters are the weights of their base, to which they are added.
    Raises InputError, listing every difference, if it neither fits the model nor can grow into it.
    """
    if is_adapter(folder):
        return initial_weights.of_model(load(folder), model)
    return initial_weights.initial_weights(FAMILIES, model, folder)


def _read(folder: str | Path) -> tuple[str, ModelConfig]:
    path = Path(folder) / "config.json"
    return initial_weights.read_config(FAMILIES, read_json(path), path)
