"""Quantised models in folders: what config.json and model.safetensors hold of them.

config.json names the format, in the entry in which other programs name theirs:

    "quantization_config": {"quant_method": "minigrad", "format": "int8", "version": 1}

model.safetensors holds the numbers of a matrix, line by line, under its name, and their scales under that name with
``.scales`` (see `minigrad.kernels.decoding.lines.Stored`). Anything else is stored as in any folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minigrad.errors import InputError
from minigrad.formats.huggingface import QUANTISATION
from minigrad.formats.typed import read_dataclass
from minigrad.formats.weights import check_arrays
from minigrad.kernels.decoding.lines import Stored
from minigrad.nn.module import Module
from minigrad.options import shown
from minigrad.quantised.layers import METHOD, VERSION, check_format
from minigrad.quantised.parameter import SCALES, QuantisedParameter
from minigrad.typing import Array, PathLike

_READ_AS = {"float16": "float32", "bfloat16": "uint16", "int8": "int8", "int4": "uint8"}
"""The types that reading a file gives the numbers of each format."""


@dataclass(frozen=True)
class _Entry:
    """The entry in config.json."""

    quant_method: str
    format: str
    version: int


def read_entry(values: Mapping[str, Any], path: Path) -> str | None:
    """Return the format that the content of the config.json at `path` names, or None.

    Raises InputError for an entry that this version does not know, such as one by another program.
    """
    if (entry := values.get(QUANTISATION)) is None:
        return None
    method = entry.get("quant_method") if isinstance(entry, dict) else entry
    if method != METHOD:
        problem = f"the weights were quantised by {shown(method)}, whose format is not read here"
        raise InputError(f"{path} says that {problem}; take the folder of the model before it was quantised")
    try:
        known = read_dataclass(_Entry, entry, QUANTISATION, ignore_unknown=True)
        check_format(known.format)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if known.version != VERSION:
        problem = f"{path} has weights stored as version {known.version} of {known.format}"
        wanted = "write the folder again with the other minigrad, or from the unquantised model"
        raise InputError(f"{problem}, and this minigrad reads version {VERSION}; {wanted}")
    return known.format


def check_quantised(model: Module, found: Mapping[str, Array], place: PathLike) -> None:
    """Raise InputError, listing every difference, unless arrays have the names, shapes and types of a model.

    `place` is where they are stored.
    """
    shapes, types = dict[str, tuple[int, ...]](), dict[str, str]()
    for name, parameter in model.named_parameters():
        if not isinstance(parameter, QuantisedParameter):
            shapes[name] = parameter.shape
            continue
        elements, scales = parameter.packed.stored_shapes()
        shapes[name], types[name] = elements, _READ_AS[parameter.packed.format]
        if scales is not None:
            shapes[name + SCALES] = scales
    check_arrays(found, shapes, np.float32, types=types, place=place)


def fill(model: Module, arrays: Iterable[tuple[str, Array]]) -> None:
    """Set the parameters of a quantised model to the arrays of a file, which come one after the other."""
    parameters, halves = dict(model.named_parameters()), dict[str, Array]()
    for name, array in arrays:
        owner = name.removesuffix(SCALES)
        parameter = parameters[owner]
        if not isinstance(parameter, QuantisedParameter):
            parameter.data = array
            continue
        packed = parameter.packed
        if not packed.scales.size:
            packed.insert(0, Stored(array.astype(packed.stored_type)))
        elif owner in halves:
            elements, scales = (array, halves.pop(owner)) if owner == name else (halves.pop(owner), array)
            packed.insert(0, Stored(elements, scales.astype(packed.scales.dtype)))
        else:
            halves[owner] = array
