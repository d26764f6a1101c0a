"""A model as its page holds it: a table of steps in JSON, and the bytes of the weights."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.errors import InputError
from minigrad.kernels.codegen.addresses import address_of
from minigrad.kernels.decoding import program as codes
from minigrad.kernels.decoding.lines import Packed
from minigrad.nn.language_model import LanguageModel
from minigrad.programs.lower import program_of
from minigrad.programs.registers import Program
from minigrad.typing import Array

NAMES = {
    getattr(codes, name): name
    for name in (
        *("EMBED", "RMS_NORM", "OFFSET_RMS_NORM", "LAYER_NORM", "LINEAR", "ROTATE", "STORE", "ATTEND", "JOIN", "GELU"),
        *("EXACT_GELU", "SWIGLU", "SIGMOID_GATE", "ADD", "SUMMARISE", "ATTEND_TO_FEW", "BLEND"),
    )
}
"""The steps by the names that the engine knows them by."""

MOST_BYTES = 300_000_000
"""Of weights in a page: a browser reads its text as one string, which is a third longer."""

_MOST_STORED = 1 << 28  # bytes of keys and values of a text in the page


def export(model: LanguageModel) -> tuple[dict[str, Any], bytes]:
    """Return the content of the table of a model's page, and its weights.

    Matrices keep the format that they have (`minigrad.quantised`). Raises InputError for a model without a program,
    and for weights that are too large for a page.
    """
    program = program_of(model)
    if program is None:
        raise InputError(
            "a page runs the program of a model, and this model has none: "
            "write with generate.py instead (docs/writing.md says which models have a program)"
        )
    store, heads = _Store(program), _heads(model, program)
    context = min(model.config.context_length, max(2, _MOST_STORED // _bytes_of_a_token(program)))
    steps = []
    for step in program.steps:
        weight, bias = store.number(step.weight), store.number(step.bias)
        places = step.source, step.target, step.inputs, step.outputs
        steps.append([NAMES[step.code], *places, weight, bias, step.adds, step.layer])
    heads |= _angles(program, context, store)
    if len(store.content) > MOST_BYTES:
        size, most = len(store.content) / 1e6, MOST_BYTES / 1e6
        raise InputError(f"the weights take {size:,.0f} MB, and a page holds at most {most:,.0f}; try --quantize int4")
    table = {
        "steps": steps,
        "size": program.size,
        "logits": [program.logits.start, program.logits.stop - program.logits.start],
        "eps": program.eps,
        "context": context,
        "heads": heads,
        "matrices": store.matrices,
    }
    return table, bytes(store.content)


def _heads(model: LanguageModel, program: Program) -> dict[str, Any]:
    heads = program.heads(1, np.dtype(np.float64))
    patterns = [list(pattern) for pattern in program.patterns]
    return {"queries": heads.num_heads, "keys": heads.kv_heads, "size": heads.size, "patterns": patterns}


def _bytes_of_a_token(program: Program) -> int:
    heads = program.heads(1, np.dtype(np.float64))
    return 2 * 4 * len(program.patterns) * heads.kv_heads * -(-heads.size // 8) * 8


def _angles(program: Program, context: int, store: _Store) -> dict[str, Any]:
    """Return the rotary frequencies, or the numbers of two tables if the angles do not follow from frequencies."""
    angles = program.common.angles
    if angles is None:
        return {}
    cosine, sine = (table[:context] for table in angles.tables(context, np.dtype(np.float64)))
    turned, scale = np.outer(np.arange(context), angles.frequencies), float(cosine[0, 0])
    found: dict[str, Any] = {"interleaved": bool(angles.interleaved)}
    if np.allclose(cosine, scale * np.cos(turned), atol=1e-9) and np.allclose(sine, scale * np.sin(turned), atol=1e-9):
        return found | {"frequencies": angles.frequencies.tolist(), "scale": scale}
    return found | {"cosine": store.add(cosine), "sine": store.add(sine)}


class _Store:
    """The matrices of a page, each once, in the order of their first use."""

    def __init__(self, program: Program) -> None:
        self.matrices: list[dict[str, Any]] = []
        self.content = bytearray()
        self._kept = {
            each.lines().address if isinstance(each, Packed) else address_of(each): each for each in program.kept
        }
        self._numbers: dict[int, int] = {0: -1}

    def number(self, address: int) -> int:
        """Return the number of the matrix at an address, as a step has it; -1 for none."""
        if address not in self._numbers:
            self._numbers[address] = self.add(self._kept[address])
        return self._numbers[address]

    def add(self, matrix: Packed | Array) -> int:
        """Add a matrix and return its number; floats become float32, and a vector one row."""
        if isinstance(matrix, Packed):
            stored, format, (rows, columns) = matrix.stored(), matrix.format, matrix.shape
            about = {"at": self._append(stored.elements)}
            if stored.scales is not None:
                about["scales"] = self._append(stored.scales)
        else:
            floats = np.atleast_2d(matrix).astype(np.float32)
            format, (rows, columns), about = "float32", floats.shape, {"at": self._append(floats)}
        self.matrices.append({"format": format, "rows": rows, "columns": columns, **about})
        return len(self.matrices) - 1

    def _append(self, array: Array) -> int:
        place = len(self.content)
        little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
        self.content += little.tobytes()
        self.content += bytes(-len(self.content) % 4)
        return place
