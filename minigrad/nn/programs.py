"""Programs: how a model describes its pass over one token, as steps on registers, in the order of its `hidden`.

`minigrad.kernels.decoding` carries the steps out. A program computes what the model computes, up to the order in which
sums are added.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from minigrad.kernels.codegen.addresses import address_of
from minigrad.kernels.decoding.attention import PARTS
from minigrad.kernels.decoding.lines import Packed
from minigrad.kernels.decoding.program import (
    ATTEND,
    ATTEND_TO_FEW,
    BLEND,
    EMBED,
    EXACT_GELU,
    GELU,
    JOIN,
    LAYER_NORM,
    LINEAR,
    OFFSET_RMS_NORM,
    RMS_NORM,
    ROTATE,
    SIGMOID_GATE,
    STORE,
    SUMMARISE,
    SWIGLU,
    Pattern,
    Step,
)
from minigrad.nn.layers import Conv1D, Embedding, LayerNorm, RMSNorm
from minigrad.nn.parameter import Parameter
from minigrad.nn.rotary import RotaryAngles
from minigrad.typing import Array

_LINE = 16  # elements: registers begin with a cache line


class Register(NamedTuple):
    """A part of the memory of each text."""

    place: int
    size: int

    def part(self, start: int, stop: int) -> Register:
        """Return the elements from `start` to `stop`."""
        return Register(self.place + start, stop - start)


class _Use(NamedTuple):
    """A register that a step reads or writes; `divided` says how threads share it, "all" if each may use all of it."""

    register: Register
    divided: str
    writes: bool = False


_ROLES = {
    EMBED: ("none", "texts"),
    RMS_NORM: ("texts", "texts"),
    OFFSET_RMS_NORM: ("texts", "texts"),
    LAYER_NORM: ("texts", "texts"),
    LINEAR: ("all", "elements"),
    ROTATE: ("texts", "texts"),
    STORE: ("texts", "texts"),
    ATTEND: ("all", "all"),
    JOIN: ("all", "all"),
    GELU: ("elements", "elements"),
    EXACT_GELU: ("elements", "elements"),
    SWIGLU: ("elements", "elements"),
    SIGMOID_GATE: ("elements", "elements"),
    SUMMARISE: ("texts", "texts"),
    ATTEND_TO_FEW: ("texts", "texts"),
    BLEND: ("all", "elements"),
}
"""How threads share the source and the target of each kind of step."""


class Program:
    """The steps of a pass over one token, in the order in which they are carried out; attention has `num_heads`."""

    def __init__(self, num_heads: int) -> None:
        self._num_heads = num_heads
        self.steps: list[Step] = []
        self.size = 0  # elements of memory that each text needs
        self.num_weights = 0
        self.angles: RotaryAngles | None = None
        self.patterns: list[Pattern] = []  # of each layer
        self._uses: list[_Use] = []  # since the last barrier
        self._free = 0  # the first element of memory that belongs to no register
        self._weights: list[Array] = []  # kept alive, because steps hold only their addresses
        self._packed: list[Packed] = []  # as well

    def register(self, size: int) -> Register:
        """Return a new register."""
        found = Register(self._free, size)
        self._free += -(-size // _LINE) * _LINE
        self.size = max(self.size, self._free)
        return found

    @contextlib.contextmanager
    def temporary(self) -> Iterator[None]:
        """Let registers that are made inside the block share their memory with those made after it."""
        before = self._free
        yield
        self._free = before

    def embed(self, table: Embedding) -> Register:
        """Look up the token."""
        x = self.register(table.weight.shape[1])
        self._embed(table, x, of_position=False)
        return x

    def add_position(self, x: Register, table: Embedding) -> None:
        """Add the embedding of the position to x."""
        self._embed(table, x, of_position=True)

    def norm(self, module: RMSNorm | LayerNorm, x: Register, out: Register | None = None) -> Register:
        """Normalise x, into a new register unless `out` is given."""
        if isinstance(module, LayerNorm):
            return self._norm(LAYER_NORM, x, out, module.weight, module.bias)
        return self._norm(RMS_NORM, x, out, module.weight, None)

    def offset_norm(self, weight: Parameter, offset: Parameter, x: Register) -> Register:
        """Add an offset to x and normalise the sum, into a new register."""
        return self._norm(OFFSET_RMS_NORM, x, None, weight, offset)

    def linear(
        self, module: Any, x: Register, *, add_to: Register | None = None, out: Register | None = None
    ) -> Register:
        """Apply a layer to x: added to a register, or into one, a new one unless `out` is given."""
        bias = 0 if module.bias is None else self._address(module.bias.data)
        is_reversed = getattr(module.weight, "transposed", isinstance(getattr(module, "inner", module), Conv1D))
        out = add_to or out or self.register(module.weight.shape[int(is_reversed)])
        matrix = self._matrix(module)
        self._add(LINEAR, x, out, bias=bias, adds=int(add_to is not None), **matrix)
        self.num_weights += x.size * out.size
        if (adapter := getattr(module, "adapter", None)) is not None:
            self.linear(adapter.lora_B, self.linear(adapter.lora_A, x), add_to=out)
        return out

    def head(self, module: Embedding, x: Register) -> Register:
        """Compute the logits of x with the matrix (vocab_size, width) of the head."""
        out = self.register(module.weight.shape[0])
        self._add(LINEAR, x, out, **self._matrix(module))
        self.num_weights += x.size * out.size
        return out

    def rotate(self, x: Register, angles: RotaryAngles) -> None:
        """Rotate the heads in x by the angles of the position; a program has one set of angles."""
        self.angles = angles
        self._add(ROTATE, x, x)

    def attend(
        self,
        layer: int,
        q: Register,
        k: Register,
        v: Register,
        pattern: Pattern | None = None,
        *,
        key_shift: bool = False,
    ) -> Register:
        """Store key and value, and attend from the query to all stored keys, or to the keys that a pattern shows.

        With `key_shift`, half of the key is stored with the next token.
        """
        self.patterns.append(pattern or Pattern())
        self._add(STORE, k, v, layer=layer, adds=int(key_shift))
        parts = self.register(PARTS * (q.size + 2 * self._num_heads))
        self._add(ATTEND, q, parts, layer=layer)
        out = self.register(q.size)
        self._add(JOIN, parts, out, layer=layer)
        return out

    def summarise(self, layer: int, x: Register) -> Register:
        """Return the mean of x, the output of a layer, over the text so far."""
        out = self.register(x.size)
        self._add(SUMMARISE, x, out, layer=layer)
        return out

    def attend_to_few(self, source: Register, beta: Array, attended: Register) -> None:
        """Mix `attended` with the attention to a few keys, which gets the share `beta` (1,).

        The source holds the queries, all keys, and all values, one after the other.
        """
        self._add(ATTEND_TO_FEW, source, attended, weight=self._address(beta))

    def sigmoid_gate(self, gate: Register, x: Register) -> None:
        """Multiply x by the logistic function of a gate."""
        self._add(SIGMOID_GATE, gate, x)

    def blend(self, source: Register, add_to: Register) -> None:
        """Add a mixture of a and b to a register; the source holds a, b and the gate, one after the other."""
        self._add(BLEND, source, add_to)

    def gelu(self, x: Register, *, is_exact: bool = False) -> None:
        """Apply GELU to x, in its exact form or in that with tanh."""
        self._add(EXACT_GELU if is_exact else GELU, x, x)

    def swiglu(self, gate: Register, up: Register) -> None:
        """Set `up` to silu(gate) * up."""
        self._add(SWIGLU, gate, up)

    def table(self) -> Array:
        """Return the steps as an array (steps, 12) of int64."""
        return np.array(self.steps, np.int64)

    def _norm(
        self, code: int, x: Register, out: Register | None, weight: Parameter, bias: Parameter | None
    ) -> Register:
        out = out or self.register(x.size)
        beside = 0 if bias is None else self._address(bias.data)
        self._add(code, x, out, weight=self._address(weight.data), bias=beside)
        return out

    def _matrix(self, module: Any) -> dict[str, int]:
        """Return where the lines of the matrix of a layer lie, and in which format."""
        packed = getattr(module.weight, "packed", None)
        if packed is None:
            inner = getattr(module, "inner", module)
            if hasattr(module, "merged"):
                return {"weight": self._address(module.merged().data)}
            return {"weight": self._address(inner.lines() if isinstance(inner, Conv1D) else inner.weight.data)}
        self._packed.append(packed)
        lines = packed.lines()
        return {"weight": lines.address, "format": lines.format, "scales": lines.scales}

    def _embed(self, table: Embedding, x: Register, of_position: bool) -> None:
        rows = Register(0, table.weight.shape[0])
        self._add(EMBED, rows, x, adds=int(of_position), **self._matrix(table))

    def _address(self, weight: Array) -> int:
        lines = np.ascontiguousarray(weight)
        self._weights.append(lines)
        return address_of(lines)

    def _add(self, code: int, source: Register, target: Register, **others: int) -> None:
        by_source, by_target = _ROLES[code]
        uses = [_Use(target, by_target, writes=code != STORE)]
        if by_source != "none":
            uses.append(_Use(source, by_source))
        if code in (STORE, ATTEND):  # the keys and values of a layer are as a register
            uses.append(_Use(Register(-1 - others["layer"], 1), "all", writes=code == STORE))
        waits = any(_conflict(one, other) for one in uses for other in self._uses)
        self._uses = uses if waits else self._uses + uses
        self.steps.append(Step(code, source.place, target.place, source.size, target.size, waits=int(waits), **others))


def _conflict(one: _Use, other: _Use) -> bool:
    """Return whether one thread may use what another one writes."""
    (a, divided, writes), (b, divided_too, writes_too) = one, other
    apart = a.place + a.size <= b.place or b.place + b.size <= a.place
    same_share = divided == divided_too != "all" and (a == b or divided == "texts")
    return (writes or writes_too) and not apart and not same_share
