"""The registry: every model family under its name, and how to build, count and load one.

model = models.build("vidya-v2", size="nano", vocab_size=4096, seed=0)
models.count("vidya-v2", "2.0")        # 124,635,456, and nothing is allocated
model = models.load("runs/vidya-v2-nano")
"""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from minigrad import checkpoint, nn
from minigrad.config import unknown
from minigrad.errors import InputError
from minigrad.language_model import LanguageModel
from models import vidya_v2

FAMILIES: dict[str, tuple[type[LanguageModel], type, dict[str, Any]]] = {
    "vidya-v2": (vidya_v2.VidyaV2, vidya_v2.VidyaV2Config, vidya_v2.SIZES),
}
_MODEL_TYPES = {"llama": "vidya-v2"}


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
    return _skeleton(family, configure(family, size, **overrides))


def build(family: str, size: str = "nano", *, seed: int = 0, dtype: str = "float32", **overrides: Any) -> LanguageModel:
    """Build a model with freshly drawn weights; the same `seed` gives the same weights."""
    model = skeleton(family, size, **overrides)
    model.initialise(seed, dtype)
    return model


def count(family: str, size: str = "nano", **overrides: Any) -> int:
    """Return the exact number of parameters of a size, tied weights once; nothing is allocated."""
    return skeleton(family, size, **overrides).num_parameters()


def load(folder: str | Path, dtype: str = "float32") -> LanguageModel:
    """Load a run folder, or a Hugging Face folder of a supported architecture.

    Raises InputError naming the file that is missing, damaged or of another kind.
    """
    folder = Path(folder)
    values = checkpoint.read_json(folder / "config.json")
    family = _MODEL_TYPES.get(values.get("model_type", ""))
    if family is None:
        known = ", ".join(sorted(_MODEL_TYPES))
        raise InputError(f"{folder / 'config.json'} is of model_type {values.get('model_type')!r}; supported: {known}")
    kind: Any = _family(family)[1]
    try:
        config = kind.from_published(values)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / 'config.json'} lacks or garbles a setting: {error}") from None
    model = _skeleton(family, config)
    weights = _fitting_weights(model, folder)
    model.initialise(dtype=dtype, draw=False)
    model.load_state_dict(weights)
    return model


def load_weights(model: LanguageModel, folder: str | Path) -> None:
    """Copy the weights of a folder into a model of the same shape; raises InputError if they do not fit."""
    model.load_state_dict(_fitting_weights(model, Path(folder)))


def _fitting_weights(model: LanguageModel, folder: Path) -> dict[str, Any]:
    weights = checkpoint.read_weights(folder)
    weights.pop("lm_head.weight", None)  # tied: some programs store the copy
    checkpoint.check_names(weights, {name: parameter.shape for name, parameter in model.named_parameters()})
    return weights


def _skeleton(family: str, config: Any) -> LanguageModel:
    make: Any = _family(family)[0]
    with nn.shapes_only():
        model: LanguageModel = make(config)
    return model


def _family(name: str) -> tuple[type[LanguageModel], type, dict[str, Any]]:
    if name not in FAMILIES:
        raise unknown("model", name, FAMILIES)
    return FAMILIES[name]
