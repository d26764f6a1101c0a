"""The weights of a Hugging Face folder: one safetensors file, or shards with an index."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from minigrad.errors import InputError
from minigrad.formats.json_files import read_json
from minigrad.formats.safetensors import read_each, read_headers
from minigrad.formats.typed import read_dataclass
from minigrad.typing import Array, Arrays, PathLike

HEAD = "lm_head.weight"
"""The published name of the matrix that computes logits."""

# How the names of arrays end that older programs stored beside the weights: GPT-2's masks, and Llama's frequencies.
_NO_WEIGHTS = (".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq")


def read_weights(source: PathLike) -> dict[str, Array]:
    """Return the arrays of a safetensors file, or of a folder with model.safetensors in one file or in shards.

    float16 and bfloat16 become float32. Raises InputError for a file that is missing, damaged or of another format.
    """
    return dict(read_each_weight(source))


def read_each_weight(source: PathLike) -> Iterator[tuple[str, Array]]:
    """Yield the names and arrays of `read_weights` one by one, so that not all need be in memory."""
    for file in _files(source):
        yield from read_each(file)


def read_shapes(source: PathLike) -> dict[str, Array]:
    """Return the arrays of `read_weights` without their values: they take no memory, and none is read."""
    return {name: entry.without_memory() for file in _files(source) for name, entry in read_headers(file).items()}


def rename_published(weights: Mapping[str, Array], prefix: str, names: Container[str]) -> dict[str, Array]:
    """Return published weights without a prefix of their names, and without arrays that are not weights.

    Older programs stored these beside the weights. An array whose name is among `names`, those of a model, stays.
    """
    plain = {name.removeprefix(prefix): array for name, array in weights.items()}
    return {name: array for name, array in plain.items() if name in names or not name.endswith(_NO_WEIGHTS)}


def without_copy_of_tied(
    weights: Iterable[tuple[str, Array]], tied: str, place: PathLike
) -> Iterator[tuple[str, Array]]:
    """Yield the weights of a model whose head is its embedding, called `tied`, without a stored copy of that head.

    Raises InputError at the end if the copy differs; `place` is where the weights are stored.
    """
    copies: dict[str, Array] = {}
    for name, array in weights:
        if name in (HEAD, tied):
            copies[name] = array
        if name != HEAD:
            yield name, array
    if len(copies) == 2 and not np.array_equal(copies[HEAD], copies[tied], equal_nan=True):
        raise InputError(
            f"the weights in {place} have an {HEAD} of their own, but config.json says that it is {tied} "
            "(tie_word_embeddings)"
        )


@dataclass(frozen=True)
class _Index:
    """The content of model.safetensors.index.json."""

    weight_map: dict[str, str]  # from the name of an array to the name of its file


def _files(source: PathLike) -> list[Path]:
    """Return the safetensors files of a file or folder; raises InputError if there are none, or if one lacks arrays."""
    path = Path(source)
    single, index = path / "model.safetensors", path / "model.safetensors.index.json"
    if single.exists() or not path.is_dir():
        return [single if single.exists() else path]
    if not index.exists():
        pickled = "pickled weights (.bin, .pt) are never loaded, as a pickle can run any program"
        raise InputError(f"{path} holds neither {single.name} nor {index.name}; {pickled}")
    content = read_json(index).get("weight_map")
    try:
        weight_map = read_dataclass(_Index, {"weight_map": content}).weight_map
    except InputError as error:
        raise InputError(f"{index} holds no weight_map from names to files: {error}") from None
    elsewhere = [shard for shard in weight_map.values() if Path(shard).name != shard]
    if elsewhere:
        raise InputError(f"{index} names {elsewhere[0]!r}, which is not a file in the same folder")
    files = [path / shard for shard in sorted(set(weight_map.values()))]
    stored = dict[str, Path]()
    for file in files:
        for name in read_headers(file):
            if name in stored:
                raise InputError(f"{stored[name]} and {file.name} both hold {name}: one does not belong to {index}")
            stored[name] = file
    missing = [name for name in weight_map if name not in stored]
    if missing:
        raise InputError(f"{index} lists weights that its files do not hold: {_some(missing)}")
    return files


def check_arrays(
    weights: Arrays,
    expected: Mapping[str, tuple[int, ...]],
    dtype: DTypeLike | None = None,
    *,
    types: Mapping[str, str] | None = None,
    place: PathLike | None = None,
) -> None:
    """Raise InputError unless `weights` holds exactly the `expected` names, each with the expected shape and type.

    The type is `dtype`, or for the names in `types` the one given there; without it, any floating-point type. `place`
    is where the weights are stored.
    """
    known = {name: array for name, array in weights.items() if name in expected}
    wanted = dict.fromkeys(known, "floating-point" if dtype is None else np.dtype(dtype).name) | dict(types or {})
    lists: dict[str, list[str]] = {
        "missing": [name for name in expected if name not in weights],
        "unexpected": [name for name in weights if name not in expected],
        "of another shape": [],
        "of another type": [],
    }
    for name, array in known.items():
        if array.shape != expected[name]:
            lists["of another shape"].append(f"{name} is {array.shape}, should be {expected[name]}")
        if array.dtype.kind != "f" if wanted[name] == "floating-point" else array.dtype != wanted[name]:
            lists["of another type"].append(f"{name} is {array.dtype}, should be {wanted[name]}")
    problems = [f"{title}: {_some(found)}" for title, found in lists.items() if found]
    if problems:
        where = f"{place}: " if place is not None else ""
        raise InputError(f"{where}the weights do not fit the model: {'; '.join(problems)}")


def check_values(weights: Arrays, place: PathLike) -> None:
    """Raise InputError, naming the first such array, if an element of the weights in `place` is not finite."""
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise InputError(f"{place} is damaged: {name} has elements that are not finite")


def hash_of_arrays(arrays: Arrays) -> str:
    """Return a hash of arrays and their names, as 32 hexadecimal digits; their order does not matter."""
    digest = hashlib.blake2b(digest_size=16)
    for name in sorted(arrays):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def _some(items: list[str]) -> str:
    return ", ".join(items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")
