"""A model as a folder in the published format: config.json, generation_config.json and model.safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minigrad.errors import RunError
from minigrad.formats.json_files import write_json
from minigrad.formats.safetensors import save_tensors
from minigrad.nn.module import Module
from minigrad.typing import Array


def save_model(model: Module, config: dict[str, Any], folder: Path, weights: Mapping[str, Array] | None) -> None:
    """Write a published config, completed by the entries of all modules, and the weights, by default the model's own.

    Raises RunError if writing fails; a file that existed before is then unchanged. Raises InputError if a module cannot
    be saved in this format.
    """
    for _, module in model.named_modules():
        config |= module.config_entries()
    if weights is None:
        stored = [(name, parameter.stored()) for name, parameter in model.named_parameters()]
        weights = {name + suffix: array for name, arrays in stored for suffix, array in arrays.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {folder}: {error.strerror}") from error
    ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id") if key in config}
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", ids)
    save_tensors(folder / "model.safetensors", weights)
