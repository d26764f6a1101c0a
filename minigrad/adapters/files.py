"""Folders of adapters, in the format of PEFT: the two thin matrices of each layer, and the name of their base.

    adapter_config.json         {"peft_type": "LORA", "r": 8, "lora_alpha": 8, "base_model_name_or_path": "...", ...}
    adapter_model.safetensors   base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight (8, 96), ...
                                base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta (5, 96)

The last array holds the trained rows of the tokens that `trainable_token_indices` in the config lists; a tied head has
the same rows.
The output of an adapter is multiplied by ``lora_alpha / r``. In adapters written here both numbers are equal; when the
file of another program is read, its factor is multiplied into B.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.adapters.low_rank import adapt, adapted, linear_layers, sizes_of
from minigrad.adapters.token_rows import AdaptedEmbedding, EmbeddingWithRows, tables_of
from minigrad.errors import InputError
from minigrad.formats.folders import ADAPTERS, CONFIG
from minigrad.formats.huggingface import GENERATION, generation_config, write_files
from minigrad.formats.json_files import read_json
from minigrad.formats.safetensors import read_tensors
from minigrad.formats.typed import read_dataclass
from minigrad.formats.weights import check_arrays, check_values
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.replacing import replace
from minigrad.options import option, shown
from minigrad.quantised import QuantisedEmbedding
from minigrad.typing import Array

WEIGHTS = "adapter_model.safetensors"
_PREFIX, _OURS, _THEIRS = "base_model.model.", ".adapter.lora_", ".lora_"
_UNREAD = (
    *("modules_to_save", "rank_pattern", "alpha_pattern"),
    *("layer_replication", "alora_invocation_tokens", "use_qalora", "lora_bias"),
)
_INITIALS = (True, False, None, "gaussian", "eva", "orthogonal")  # others change the weights of the base, too
_OUR_ROWS, _THEIR_ROWS = ".token_adapter.delta", ".token_adapter.trainable_tokens_delta"


@dataclass(frozen=True)
class AdapterConfig:
    """What is understood of an adapter_config.json; the base is the folder of a model or of adapters."""

    base_model_name_or_path: str
    r: int = option(8, "rank", at_least=1)
    lora_alpha: float = option(8.0, "the output is multiplied by lora_alpha / r", above=0, at_most=1e6)
    peft_type: str = "LORA"
    bias: str = "none"
    use_dora: bool = False
    use_rslora: bool = False
    trainable_token_indices: Any = None  # tokens by the name of their table, or those of the embedding alone
    init_lora_weights: Any = True

    @classmethod
    def read(cls, folder: Path) -> AdapterConfig:
        """Read the config of a folder of adapters; raises InputError if it is damaged, or of a variant unknown here."""
        path = folder / ADAPTERS
        values = read_json(path)
        try:
            found = read_dataclass(cls, values, ignore_unknown=True)
        except InputError as error:
            raise InputError(f"{path} is damaged: {error}") from None
        for name, plain in (("peft_type", "LORA"), ("bias", "none"), ("use_dora", False)):
            if getattr(found, name) != plain:
                raise InputError(f"{path} has {name} = {getattr(found, name)!r}; only {plain!r} is read here")
        unread = {name: value for name in _UNREAD if (value := values.get(name))}
        if found.init_lora_weights not in _INITIALS:
            unread["init_lora_weights"] = found.init_lora_weights
        for name, value in unread.items():
            raise InputError(
                f"{path} has {name} = {shown(value)}, which is not read here: adapters must have one rank and be added "
                "to the base as it is; merge them in the program that wrote them, and take the folder of that model"
            )
        return found

    def tokens(self, model: LanguageModel) -> dict[str, list[int]]:
        """Return the tokens whose rows are stored, by the full name of their table in a model.

        Raises InputError if they are not tokens of the model, or if one is listed twice.
        """
        names, given = {_last(name): name for name in tables_of(model)}, self.trainable_token_indices or {}
        by_table = given if isinstance(given, dict) else {next(iter(names)): given}
        found, size = dict[str, list[int]](), model.config.vocab_size
        for table, tokens in by_table.items():
            name = "" if model.lm_head is None and table == "lm_head" else names.get(_last(table))
            if name is None:
                known = ", ".join(names.values())
                raise InputError(f"trainable_token_indices names the table {shown(table)}; the model has {known}")
            if (
                not isinstance(tokens, list)
                or not all(type(each) is int and each in range(size) for each in tokens)
                or len({*tokens}) < len(tokens)
            ):
                known = f"the model has tokens from 0 to {size - 1}, each to be listed once"
                raise InputError(f"trainable_token_indices is {shown(given)}, and {known}")
            if name:  # a tied head has the rows of the embedding
                found[name] = tokens
        return found


def is_adapter(folder: str | Path) -> bool:
    """Whether a folder holds adapters, and not a model."""
    return (Path(folder) / ADAPTERS).exists() and not (Path(folder) / CONFIG).exists()


def base_of(folder: str | Path) -> Path:
    """Return the folder on which adapters were trained: that of a model, or of other adapters.

    A base that is given as a relative path is looked for from here, and from the folder of the adapters.
    Raises InputError if it is not there.
    """
    path = Path(folder)
    name = AdapterConfig.read(path).base_model_name_or_path
    for base in (Path(name), path / name):
        if (base / CONFIG).exists() or is_adapter(base):
            return base
    problem = f"{path} holds adapters of the model {name}, which is not a folder of a model or of adapters here"
    raise InputError(f"{problem}; write its path into {path / ADAPTERS}, as base_model_name_or_path")


def model_below(folder: str | Path) -> Path:
    """Return the folder of the model under all adapters, or the folder itself if it holds a model.

    Raises InputError if a base is not there, or if adapters are in the end their own base.
    """
    path, seen = Path(folder), set[Path]()
    while is_adapter(path):
        if path.resolve() in seen:
            raise InputError(f"{folder} holds adapters that have {path} as their base, which in the end has itself")
        seen.add(path.resolve())
        path = base_of(path)
    return path


def save(
    model: LanguageModel, folder: str | Path, base: str | Path | None, weights: Mapping[str, Array] | None = None
) -> None:
    """Write the adapters of a model into a folder, or the model if it has none.

    `base` names the folder of the frozen weights. With `weights`, these are written in place of those of `trained`.
    Raises RunError if writing fails; the files that existed before are then unchanged.
    """
    layers, path = adapted(model), Path(folder)
    if not layers:
        model.save(path, weights)
        return
    if base is None:
        raise InputError("adapters are saved with the folder of their frozen weights: give base=FOLDER")
    if not (is_adapter(base) or (Path(base) / CONFIG).is_file()):
        raise InputError(f"base={base} is not a folder of a model or of adapters: these could not be loaded with it")
    if (path / CONFIG).exists():
        raise InputError(f"{path} holds a model, so adapters in it would not be found; save them into another folder")
    tables = {name: table for name, table in tables_of(model).items() if isinstance(table, AdaptedEmbedding)}
    filled = {name: table for name, table in tables_of(model).items() if isinstance(table, EmbeddingWithRows)}
    rank = next(len(layer.adapter.lora_A.weight) for layer in layers.values())
    tokens = {_last(name): table.token_adapter.tokens.tolist() for name, table in tables.items()}
    tokens |= {_last(name): table.tokens for name, table in filled.items()}
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(Path(base).resolve()),
        "r": rank,
        "lora_alpha": rank,
        "lora_dropout": 0.0,
        "bias": "none",
        "fan_in_fan_out": any(layer.inputs_first for layer in linear_layers(model).values()),
        "target_modules": sorted({_last(name) for name in layers}),
        "trainable_token_indices": tokens or None,
        "inference_mode": True,
    }
    arrays = dict(weights or trained(model))
    for name, table in tables.items():  # PEFT stores the rows themselves, under the name of a difference
        arrays[name + _OUR_ROWS] = arrays[name + _OUR_ROWS] + table.weight.data[table.token_adapter.tokens]
    arrays |= {name + _OUR_ROWS: table.rows for name, table in filled.items()}
    documents = {ADAPTERS: config}
    if model.end_ids:  # which training may have taught to a model that has the same base as others
        documents[GENERATION] = generation_config(model.config.published(), model.end_ids)
    write_files(path / WEIGHTS, {_theirs(name, model): array for name, array in arrays.items()}, documents)


def load_adapters(model: LanguageModel, folder: str | Path) -> None:
    """Give a model the adapters of a folder; its own matrices are frozen and stay as they are, but for rows of tokens.

    A quantised table, into which the rows are rounded, also keeps them as they are, so that `save` can write them.
    Raises InputError if the folder is damaged, or if its adapters are of a model of another shape.
    """
    path = Path(folder)
    config = AdapterConfig.read(path)
    arrays = {_ours(name, model): array for name, array in read_tensors(path / WEIGHTS).items()}
    names = frozenset(name.split(_OURS)[0] for name in arrays if not name.endswith(_OUR_ROWS))
    _check(model, arrays, names, config, path)
    adapt(model, config.r, only=names)
    for name, tokens in config.tokens(model).items():
        table, rows = tables_of(model)[name], arrays[name + _OUR_ROWS]
        matrix = np.array(table.weight.data)
        matrix[tokens] = rows
        table.weight.data = matrix
        if isinstance(table, QuantisedEmbedding):
            replace(model, {name: EmbeddingWithRows(table, tokens, rows)})
    of_b = config.lora_alpha / (math.sqrt(config.r) if config.use_rslora else config.r)
    for name, parameter in model.named_parameters():
        if name in arrays:
            factor = of_b if name.endswith(".lora_B.weight") else 1.0
            parameter.data = arrays[name] * arrays[name].dtype.type(factor)


def _check(
    model: LanguageModel, arrays: dict[str, Array], names: frozenset[str], config: AdapterConfig, path: Path
) -> None:
    """Raise InputError unless arrays are the adapters of layers of a model."""
    layers, expected = linear_layers(model), dict[str, tuple[int, ...]]()
    lacking = sorted(names - layers.keys())
    if lacking or not names:
        found = f"{lacking[0]}, which is not a linear layer of this model" if lacking else "no layer"
        raise InputError(f"{path / WEIGHTS} has adapters of {found}: such adapters are not read here")
    for name in names:
        inputs, outputs = sizes_of(layers[name])
        expected[f"{name}{_OURS}A.weight"] = (config.r, inputs)
        expected[f"{name}{_OURS}B.weight"] = (outputs, config.r)
    try:
        for name, tokens in config.tokens(model).items():
            expected[name + _OUR_ROWS] = (len(tokens), model.config.width)
        check_arrays(arrays, expected)
    except InputError as error:
        raise InputError(f"{path / WEIGHTS}: {error}; these are adapters of a model of another shape") from None
    check_values(arrays, path / WEIGHTS)


def trained(model: LanguageModel) -> dict[str, Array]:
    """Return the arrays of a model that a checkpoint needs: those of its adapters, or all if it has none."""
    ours = {name: each.data for name, each in model.named_parameters() if _OURS in name or name.endswith(_OUR_ROWS)}
    return ours or model.state_dict()


def _last(name: str) -> str:
    return name.rsplit(".", 1)[-1]


def _theirs(name: str, model: LanguageModel) -> str:
    # In transformers, a head of its own stands beside the part that the prefix names.
    prefix = "" if name.startswith("lm_head.") else model.published_prefix
    return _PREFIX + prefix + name.replace(_OURS, _THEIRS).replace(_OUR_ROWS, _THEIR_ROWS)


def _ours(name: str, model: LanguageModel) -> str:
    plain = name.removeprefix(_PREFIX).removeprefix(model.published_prefix)
    return plain.replace(_THEIRS, _OURS).replace(_THEIR_ROWS, _OUR_ROWS)
