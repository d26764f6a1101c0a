"""The registry: every model family under its name, and how to build, count and load one.

model = models.build("vidya-v2", size="nano", vocab_size=4096, seed=0)
models.count("vidya-v2", "2.0")        # 124,635,456, and nothing is allocated
model = models.load("runs/vidya-v2-nano")
model = models.grow("runs/vidya-v2-2.0", size="2.1")      # wider, and saying the same
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np

from minigrad import checkpoint, nn, rope_settings
from minigrad.config import unknown
from minigrad.errors import InputError
from minigrad.language_model import LanguageModel
from models import gpt2, growth, vidya_v1, vidya_v2, wiola

FAMILIES: dict[str, tuple[type[LanguageModel], Any, dict[str, Any]]] = {
    "gpt2": (gpt2.GPT2, gpt2.GPT2Config, gpt2.SIZES),
    "vidya-v1": (vidya_v1.VidyaV1, vidya_v1.VidyaV1Config, vidya_v1.SIZES),
    "vidya-v2": (vidya_v2.VidyaV2, vidya_v2.VidyaV2Config, vidya_v2.SIZES),
    "wiola": (wiola.Wiola, wiola.WiolaConfig, wiola.SIZES),
}
_NOT_OF_A_SIZE = (
    *("vocab_size", "context_length", "init_std", "dropout", "end_of_text_id", "norm_eps"),
    *("rope_scaling", "rope_factor", "rope_original_context"),
    *("rope_beta_fast", "rope_beta_slow", "rope_attention_factor"),
)
"""What the models of one size may differ in: the text decides it, or how it is trained, stretched or was grown."""

_GROWING = ("vidya-v2",)
"""The families whose layers `growth` knows."""

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
    return override(sizes[size], overrides)


def override(config: Any, values: Mapping[str, Any]) -> Any:
    """Return a config with some fields changed; a text becomes what the field holds: "0.5" a number, "none" None.

    Raises InputError for a field that the config lacks, naming the nearest, or for a value of another type.
    """
    kinds = get_type_hints(type(config))
    for name in values:
        if name not in kinds:
            raise unknown(f"field of {type(config).__name__}", name, kinds)
    changes = {name: _convert(name, value, kinds[name]) for name, value in values.items()}
    if changes.keys() & {"rope_scaling", "rope_factor"}:
        changes = rope_settings.stretched(config, changes)
    return replace(config, **changes)


def _convert(name: str, value: Any, kind: Any) -> Any:
    choices = get_args(kind) or (kind,)
    wrong = InputError(f"{name} takes a value of type {choices[0].__name__}, not {value!r}")
    if not isinstance(value, str):
        fits = isinstance(value, (*choices, int) if float in choices else choices)
        if not fits or (isinstance(value, bool) and bool not in choices):  # to Python True is a number
            raise wrong
        return value
    if value.lower() == "none" and type(None) in choices:
        return None
    if str in choices:
        return value
    if bool in choices:
        if value.lower() not in ("true", "false"):
            raise InputError(f"{name} is true or false, not {value!r}")
        return value.lower() == "true"
    try:
        return choices[0](value)
    except ValueError:
        raise wrong from None


def skeleton(family: str, size: str = "nano", **overrides: Any) -> LanguageModel:
    """Build a model whose parameters have names and shapes but no memory; `initialise` gives it weights."""
    return _skeleton(_family(family)[0], configure(family, size, **overrides))


def variant(model: LanguageModel, **overrides: Any) -> LanguageModel:
    """Return the skeleton of a model like this one, with fields of its config overridden."""
    return _skeleton(type(model), override(model.config, overrides))


def build(family: str, size: str = "nano", *, seed: int = 0, dtype: str = "float32", **overrides: Any) -> LanguageModel:
    """Build a model with freshly drawn weights; the same `seed` gives the same weights."""
    model = skeleton(family, size, **overrides)
    model.initialise(seed, dtype)
    return model


def count(family: str, size: str = "nano", **overrides: Any) -> int:
    """Return the exact number of parameters of a size, tied weights once; nothing is allocated."""
    return skeleton(family, size, **overrides).num_parameters()


def load(folder: str | Path, dtype: str | None = None, **overrides: Any) -> LanguageModel:
    """Load a run folder, or a Hugging Face folder of a supported architecture, with any config field overridden.

    `dtype` is by default that of the stored weights; half precision becomes float32.
    Raises InputError naming the file that is missing, damaged or of another kind.
    """
    path = Path(folder) / "config.json"
    family, config = _read_config(checkpoint.read_json(path), path)
    model = _skeleton(_family(family)[0], override(config, overrides))
    weights = fitting_weights(model, folder)
    model.initialise(dtype=dtype or np.result_type(*(array.dtype for array in weights.values())), draw=False)
    model.load_state_dict(weights)
    return model


def grow(folder: str | Path, size: str = "2.1", seed: int = 0, **overrides: Any) -> LanguageModel:
    """Load a run folder or a Hugging Face folder as a wider model that says the same; `seed` draws what is new.

    The new widths are those of `size`, or of the `overrides`; vocabulary, context and angles stay, and the type of
    number is that of the stored weights. Raises InputError, naming what stands in the way, if it cannot grow so.
    """
    for name in overrides:
        if name not in growth.WIDTHS:
            raise InputError(f"growing changes {', '.join(growth.WIDTHS)}, not {name}")
    path = Path(folder) / "config.json"
    family, config = _read_config(checkpoint.read_json(path), path)
    model = _skeleton(_family(family)[0], _grown(family, config, configure(family, size, **overrides)))
    found = start(model, folder)
    model.initialise(seed, np.result_type(*(array.dtype for array in found.weights.values())))
    found.fill(model)
    return model


def start_from(
    values: dict[str, Any], path: Path, family: str | None, size: str, **overrides: Any
) -> tuple[str, str, LanguageModel]:
    """Return (family, size, skeleton) of the model to train on from the one that a config.json describes.

    `values` is the content of the file at `path`. If `size` is a larger one, the model is to grow into it; "auto" asks
    for none. The skeleton has the longest context that the size allows, and fields overridden.
    Raises InputError if it is not of the `family` that was asked for (None asks for none), or cannot grow so.
    """
    found, config = _read_config(values, path)
    if family not in (None, found):
        raise InputError(f"{path.parent} holds a model of {found}, but --model {family} was given")
    names = _sizes_of(found, config)
    if size not in ("auto", *names):
        try:
            config = _grown(found, config, configure(found, size))
        except InputError as error:
            refused = f"{path.parent} holds a {found} {names[0]}, but --size {size} was given"
            raise InputError(f"{refused}: {error}") from None
    config = override(config, overrides)
    names = _sizes_of(found, config)
    size = size if size in names else names[0]
    make = _family(found)[0]
    if size != CUSTOM and not make.learns_positions:
        config = replace(config, context_length=max(configure(found, size).context_length, config.context_length))
    return found, size, _skeleton(make, config)


def _sizes_of(family: str, config: Any) -> list[str]:
    """Return the names of the sizes that a config has the shape of, likest first, or that it is a custom one."""
    sizes = _family(family)[2]
    free = {name: getattr(config, name) for name in _NOT_OF_A_SIZE if hasattr(config, name)}
    names = [name for name, known in sizes.items() if replace(known, **free) == config]
    return sorted(names, key=lambda name: sum(getattr(sizes[name], f) != free[f] for f in free)) or [CUSTOM]


def _grown(family: str, config: Any, target: Any) -> Any:
    if family not in _GROWING:
        raise InputError(f"a model of {family} cannot grow; only {', '.join(_GROWING)} can")
    wider = growth.widened(config, target)
    if not growth.describe(config, wider):
        raise InputError("it is no wider than that")
    return wider


@dataclass(frozen=True)
class Start:
    """What a folder holds for training that goes on from it: weights and, for a model that is to grow, moments."""

    weights: dict[str, Any]
    width: int
    grown: str = ""  # what is to grow, in words
    moments: dict[str, Any] = field(default_factory=dict)  # of AdamW, where the folder has a checkpoint
    updates: int = 0  # that the moments come from

    def fill(self, model: LanguageModel) -> None:
        """Put the weights into an initialised model; what grows keeps the values it has where it may."""
        if self.grown:
            growth.widen_weights(model, self.weights, self.width)
        else:
            model.load_state_dict(self.weights)

    def moments_for(self, model: LanguageModel) -> dict[str, Any]:
        """Return the moments in the shapes of a model that grew."""
        return growth.widen_moments(model, self.moments, self.width)


def start(model: LanguageModel, folder: str | Path) -> Start:
    """Read what `model` starts with from a folder, whose model is the same or a narrower one.

    Raises InputError, listing every difference, if it neither fits the model nor can grow into it.
    """
    path = Path(folder) / "config.json"
    family, config = _read_config(checkpoint.read_json(path), path)
    grown = growth.describe(config, model.config) if family in _GROWING else ""
    if not grown:
        return Start(fitting_weights(model, folder), model.config.width)
    wanted = growth.widened(config, model.config).norm_eps
    if wanted != model.config.norm_eps:
        raise InputError(f"{folder} grows ({grown}) only with norm_eps {wanted}, not {model.config.norm_eps}")
    # What is in the folder must fit the same model, as narrow as it was.
    narrow = variant(model, **{name: getattr(config, name) for name in growth.WIDTHS})
    weights = fitting_weights(narrow, folder)
    if checkpoint.latest(folder) is None:
        return Start(weights, config.width, grown)
    saved = checkpoint.load(folder)
    moments = {f"{name}.{kind}": shape for name, shape in _shapes(narrow).items() for kind in "mv"}
    checkpoint.check_names(saved.moments, moments)
    return Start(weights, config.width, grown, saved.moments, int(saved.state["updates"]))


def _shapes(model: LanguageModel) -> dict[str, tuple[int, ...]]:
    return {name: parameter.shape for name, parameter in model.named_parameters()}


def fitting_weights(model: LanguageModel, folder: str | Path) -> dict[str, Any]:
    """Read the weights of a folder for a model; raises InputError, listing every difference, if they do not fit."""
    weights = model.adopt(checkpoint.read_weights(folder))
    expected = _shapes(model)
    head = None if "lm_head.weight" in expected else weights.pop("lm_head.weight", None)
    checkpoint.check_names(weights, expected)
    if head is not None:  # tied, but some programs store the copy
        tied = next(name for name, parameter in model.named_parameters() if parameter is model.head())
        if not np.array_equal(head, weights[tied], equal_nan=True):
            raise InputError(
                f"the weights in {folder} have an lm_head.weight of their own, but config.json says that it is "
                f"{tied} (tie_word_embeddings)"
            )
    return weights


def _read_config(values: dict[str, Any], path: Path) -> tuple[str, Any]:
    """Return the family and the config that the content of the file at `path` describes."""
    for family, (_, kind, _) in FAMILIES.items():
        if kind.recognises(values):
            try:
                config = kind.from_published(values)
                return family, override(config, vars(config))  # which looks at the type of every field
            except (KeyError, TypeError, ValueError) as error:
                raise InputError(f"{path} lacks or garbles a setting: {error}") from None
    raise InputError(
        f"{path} is of model_type {values.get('model_type')!r}, in a form that no family here has; "
        f"there are {', '.join(FAMILIES)}"
    )


def _skeleton(make: Any, config: Any) -> LanguageModel:
    with nn.shapes_only():
        model: LanguageModel = make(config)
    return model


def _family(name: str) -> tuple[type[LanguageModel], Any, dict[str, Any]]:
    if name not in FAMILIES:
        raise unknown("model", name, FAMILIES)
    return FAMILIES[name]
