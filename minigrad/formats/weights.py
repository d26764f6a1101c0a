"""The weights of a Hugging Face folder: one safetensors file, or shards with an index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from minigrad.errors import InputError
from minigrad.formats.json_files import read_json
from minigrad.formats.safetensors import Arrays, read_tensors
from minigrad.typing import Array, PathLike


def read_weights(source: PathLike) -> dict[str, Array]:
    """Return the arrays of a safetensors file, or of a folder with model.safetensors in one file or in shards.

    float16 and bfloat16 are widened to float32. Raises InputError for a file that is missing, damaged or of another
    format.
    """
    path = Path(source)
    single, index = path / "model.safetensors", path / "model.safetensors.index.json"
    if single.exists() or not path.is_dir():
        return read_tensors(single if single.exists() else path)
    if not index.exists():
        pickled = "pickled weights (.bin, .pt) are never loaded, as a pickle can run any program"
        raise InputError(f"{path} holds neither {single.name} nor {index.name}; {pickled}")
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise InputError(f"{index} holds no weight_map from names to files")
    weights: dict[str, Array] = {}
    for shard in sorted(set(weight_map.values())):
        weights |= read_tensors(path / shard)
    missing = [name for name in weight_map if name not in weights]
    if missing:
        raise InputError(f"{index} lists weights that its files do not hold: {_some(missing)}")
    return weights


def check_names(weights: Arrays, expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise InputError unless `weights` holds exactly the `expected` names, each with the expected shape."""
    lists = {
        "missing": [name for name in expected if name not in weights],
        "unexpected": [name for name in weights if name not in expected],
        "of another shape": [
            f"{name} is {weights[name].shape}, should be {shape}"
            for name, shape in expected.items()
            if name in weights and weights[name].shape != shape
        ],
    }
    problems = [f"{title}: {_some(found)}" for title, found in lists.items() if found]
    if problems:
        raise InputError(f"the weights do not fit the model: {'; '.join(problems)}")


def _some(items: list[str]) -> str:
    return ", ".join(items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")
