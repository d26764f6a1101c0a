"""The registry: every model family under its name, and how to build, count and load one.

model = models.build("vidya-v2", size="nano", vocab_size=4096, seed=0)
models.count("vidya-v2", "2.0")        # 124,635,456, and nothing is allocated
model = models.load("runs/vidya-v2-nano")
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from minigrad import checkpoint, nn
from minigrad.config import unknown
from minigrad.errors import InputError
from minigrad.language_model import LanguageModel
from models import vidya_v2

FAMILIES: dict[str, tuple[type[LanguageModel], type, dict[str, Any]]] = {
    "vidya-v2": (vidya_v2.VidyaV2, vidya_v2.VidyaV2Config, vidya_v2.SIZES),
}
_MODEL_TYPES = {"llama": "vidya-v2"}
_NOT_OF_A_SIZE = ("vocab_size", "context_length", "init_std", "dropout", "end_of_text_id")
"""What the models of one size may differ in: the text decides it, or how it is trained."""

CUSTOM = "custom"
"""What the size of a model is called whose shape has no name here."""

LAPTOP_SIZES = ("nano", "micro", "mini", "small")
"""The ladder that every family has, from minutes to a night."""


def ladder(family: str, size: str) -> tuple[str, ...]:
    """Return the sizes that `size` leaves to choose from: itself, or for "auto" the laptop sizes."""
    sizes = _family(family)[2]
    if size != "auto" and size not in sizes:
        raise unknown(f"size of {family}", size, ["auto", *sizes])
    return LAPTOP_SIZES if size == "auto" else (size,)


def configure(family: str, size: str = "nano", **overrides: Any) -> Any:
    """Return the config of a family's size, with any field overridden.

    Raises InputError for an unknown family, size or field (naming the nearest), or a shape that cannot be built.
    """
    sizes = _family(family)[2]
    if size not in sizes:
        raise unknown(f"size of {family}", size, sizes)
    names = [field.name for field in fields(sizes[size])]
    for name in overrides:
        if name not in names:
            raise unknown(f"config field of {family}", name, names)
    return replace(sizes[size], **overrides)


def skeleton(family: str, size: str = "nano", **overrides: Any) -> LanguageModel:
    """Build a model whose parameters have names and shapes but no memory; `initialise` gives it weights."""
    return _skeleton(_family(family)[0], configure(family, size, **overrides))


def variant(model: LanguageModel, **overrides: Any) -> LanguageModel:
    """Return the skeleton of a model like this one, with fields of its config overridden."""
    return _skeleton(type(model), replace(model.config, **overrides))


def build(family: str, size: str = "nano", *, seed: int = 0, dtype: str = "float32", **overrides: Any) -> LanguageModel:
    """Build a model with freshly drawn weights; the same `seed` gives the same weights."""
    model = skeleton(family, size, **overrides)
    model.initialise(seed, dtype)
    return model


def count(family: str, size: str = "nano", **overrides: Any) -> int:
    """Return the exact number of parameters of a size, tied weights once; nothing is allocated."""
    return skeleton(family, size, **overrides).num_parameters()


def load(folder: str | Path, dtype: str | None = None) -> LanguageModel:
    """Load a run folder, or a Hugging Face folder of a supported architecture.

    `dtype` is by default that of the stored weights; half precision becomes float32.
    Raises InputError naming the file that is missing, damaged or of another kind.
    """
    path = Path(folder) / "config.json"
    family, config = _read_config(checkpoint.read_json(path), path)
    model = _skeleton(_family(family)[0], config)
    weights = fitting_weights(model, folder)
    model.initialise(dtype=dtype or np.result_type(*(array.dtype for array in weights.values())), draw=False)
    model.load_state_dict(weights)
    return model


def start_from(values: dict[str, Any], path: Path, family: str | None, size: str) -> tuple[str, str, LanguageModel]:
    """Return (family, size, skeleton) of the model that a config.json describes, to go on training it.

    `values` is the content of the file at `path`. The skeleton has the longest context that the size allows.
    Raises InputError if it is not of the `family` and `size` that were asked for (None and "auto" ask for none).
    """
    found, config = _read_config(values, path)
    free = {name: getattr(config, name) for name in _NOT_OF_A_SIZE}
    names = [name for name, known in _family(found)[2].items() if replace(known, **free) == config] or [CUSTOM]
    if family not in (None, found):
        raise InputError(f"{path.parent} holds a model of {found}, but --model {family} was given")
    if size not in ("auto", *names):
        raise InputError(f"{path.parent} holds a {found} {names[0]}, but --size {size} was given")
    size = names[0] if size == "auto" else size
    longest = configure(found, size).context_length if size != CUSTOM else 0
    config = replace(config, context_length=max(longest, config.context_length))
    return found, size, _skeleton(_family(found)[0], config)


def fitting_weights(model: LanguageModel, folder: str | Path) -> dict[str, Any]:
    """Read the weights of a folder for a model; raises InputError if they do not fit, or have a head of their own."""
    weights = checkpoint.read_weights(folder)
    head = weights.pop("lm_head.weight", None)  # tied: some programs store the copy
    parameters = model.named_parameters()
    checkpoint.check_names(weights, {name: parameter.shape for name, parameter in parameters})
    tied = next(name for name, parameter in parameters if parameter is model.head())
    if head is not None and not np.array_equal(head, weights[tied], equal_nan=True):
        raise InputError(f"the weights in {folder} have an lm_head.weight of their own; here it must equal {tied}")
    return weights


def _read_config(values: dict[str, Any], path: Path) -> tuple[str, Any]:
    """Return the family and the config that the content of the file at `path` describes."""
    family = _MODEL_TYPES.get(values.get("model_type", ""))
    if family is None:
        known = ", ".join(sorted(_MODEL_TYPES))
        raise InputError(f"{path} is of model_type {values.get('model_type')!r}; supported: {known}")
    kind: Any = _family(family)[1]
    try:
        return family, kind.from_published(values)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path} lacks or garbles a setting: {error}") from None


def _skeleton(make: Any, config: Any) -> LanguageModel:
    with nn.shapes_only():
        model: LanguageModel = make(config)
    return model


def _family(name: str) -> tuple[type[LanguageModel], type, dict[str, Any]]:
    if name not in FAMILIES:
        raise unknown("model", name, FAMILIES)
    return FAMILIES[name]
