"""Registers get their places in memory, and the instructions of a trace become a table of steps.

An addition is left out where the step before it can add to its target itself. The memory of a register is used again
after its last reader and the next barrier, so that using it again costs no barrier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from minigrad.autograd.tensor import Tensor
from minigrad.kernels.codegen.addresses import address_of
from minigrad.kernels.decoding import program as codes
from minigrad.kernels.decoding.lines import Packed
from minigrad.kernels.decoding.program import Heads, Pattern, Step
from minigrad.programs.trace import Common, Instruction, Recorder, Span, UntraceableError

_LINE = 16  # elements: registers begin with a cache line
_NORMS = (codes.RMS_NORM, codes.OFFSET_RMS_NORM, codes.LAYER_NORM)
_BY_ELEMENT = (codes.GELU, codes.EXACT_GELU, codes.SWIGLU, codes.SIGMOID_GATE, codes.ADD)
_IN_PLACE = (*_NORMS, codes.GELU, codes.EXACT_GELU)  # the target may be the source

_SHARES = {
    **dict.fromkeys((codes.EMBED, codes.ROTATE, codes.STORE, codes.SUMMARISE, codes.ATTEND_TO_FEW), ("texts", "texts")),
    **dict.fromkeys(_NORMS, ("texts", "texts")),
    **dict.fromkeys(_BY_ELEMENT, ("elements", "elements")),
    **dict.fromkeys((codes.LINEAR, codes.BLEND), ("all", "elements")),
    **dict.fromkeys((codes.ATTEND, codes.JOIN), ("all", "all")),
}
"""How threads share the source and the target of each kind of step: each uses its own texts or elements, or "all"."""


class Program(NamedTuple):
    """The steps of a pass over one token, and what they need of a model."""

    steps: list[Step]
    size: int  # elements of memory that each text needs
    logits: slice  # of these elements
    num_weights: int
    patterns: list[Pattern]  # of each layer
    common: Common
    kept: list[Any]  # the weights, because steps hold only their addresses

    @property
    def eps(self) -> float:
        """The number that all norms add before the root."""
        return float(self.common.eps or 0.0)

    @property
    def key_heads(self) -> tuple[int, int] | None:
        """The number of heads of keys and values, and their size; None for a model that stores none."""
        count, size = self.common.num_kv_heads, self.common.head_size
        return None if count is None or size is None else (count, size)

    def heads(self, positions: int, dtype: np.dtype[Any]) -> Heads:
        """Return the sizes of the heads, and the angles of this many positions."""
        queries, (keys, size) = self.common.num_heads or 1, self.key_heads or (1, 1)
        none, angles = np.empty((0, 0), dtype), self.common.angles
        cosine, sine = (none, none) if angles is None else angles.tables(positions, dtype)
        patterns = np.array(self.patterns, np.float64).reshape(-1, len(Pattern._fields))
        return Heads(queries, keys, size, patterns, cosine, sine, angles is not None and angles.interleaved)


def assemble(trace: Recorder) -> Program:
    """Return the program of a trace; raises UntraceableError if its steps need what they have overwritten."""
    instructions, steps, kept = _fused(trace.instructions), list[Step](), list[Any]()
    memory = _Memory(trace.sizes, instructions, trace.logits)
    for index, each in enumerate(instructions):
        source, target, waits = memory.advance(index, each)
        inputs = sum(span.size for span in each.source) or each.target.size
        inputs = each.operands[0].shape[0] if each.code == codes.EMBED else inputs
        adds = int(each.over is not None) if each.code == codes.LINEAR else each.adds
        places = (source, target, inputs, each.target.size)
        steps.append(Step(each.code, *places, adds=adds, layer=each.layer, waits=int(waits), **_weights(each, kept)))
    if len(trace.logits) != 1:
        raise UntraceableError("the logits of a text lie side by side")
    (logits,) = trace.logits
    place = memory.place(logits)
    num_weights = sum(step.inputs * step.outputs for step in steps if step.code == codes.LINEAR)
    layers = 1 + max((each.layer for each in instructions), default=0)
    patterns = [trace.patterns.get(layer, Pattern()) for layer in range(layers)]
    return Program(steps, memory.size, slice(place, place + logits.size), num_weights, patterns, trace.common, kept)


def _weights(instruction: Instruction, kept: list[Any]) -> dict[str, int]:
    """Return the addresses of the weights of a step, and their format; keep the arrays alive."""
    found: dict[str, int] = {}
    for name, operand in zip(("weight", "bias"), instruction.operands, strict=False):
        if isinstance(operand, Packed):
            lines = operand.lines()
            found |= {"weight": lines.address, "format": lines.format, "scales": lines.scales}
            kept.append(operand)
        elif operand is not None:
            kept.append(np.ascontiguousarray(operand.data if isinstance(operand, Tensor) else operand.lines()))
            found[name] = address_of(kept[-1])
    return found


class _Readers:
    """Which instructions read the elements of a register, by number."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._found: dict[int, list[tuple[int, Span]]] = {}
        for index, each in enumerate(instructions):
            also = each.target if each.code == codes.STORE else each.over
            for span in (*each.source, *([also] if also else [])):
                self._found.setdefault(span.register, []).append((index, span))

    def of(self, span: Span) -> list[int]:
        read = self._found.get(span.register, ())
        return [n for n, (_, start, size) in read if start < span.start + span.size and span.start < start + size]

    def after(self, index: int, span: Span) -> bool:
        return any(reader > index for reader in self.of(span))


def _must_add(instruction: Instruction) -> bool:
    """Whether a kind of step always adds to its target: a mixture of streams, and the row of a position."""
    return instruction.code == codes.BLEND or (instruction.code == codes.EMBED and bool(instruction.adds))


def _fused(instructions: Sequence[Instruction]) -> list[Instruction]:
    """Let instructions add to their target what an addition would add to it: x + (a + b) becomes x + a, then + b."""
    found, removed, readers = list(instructions), set[int](), _Readers(instructions)
    made = {each.target.register: index for index, each in enumerate(instructions) if each.code != codes.STORE}

    def first_term(span: Span) -> int:
        """Return which instruction sets a sum, if it could add and nothing else reads the sum; else -1."""
        each = found[made[span.register]]
        if span != each.target or len(readers.of(span)) != 1:
            return -1
        if each.over is not None and (each.code in (codes.LINEAR, codes.ADD) or _must_add(each)):
            return first_term(each.over)
        return made[span.register] if each.code == codes.LINEAR or _must_add(each) else -1

    for index, each in enumerate(instructions):
        if each.code != codes.ADD or each.over is None:
            continue
        (term,) = each.source
        for base, other in ((each.over, term), (term, each.over)):
            first, begin = first_term(other), made[base.register]
            is_value = found[begin].over is not None or not _must_add(found[begin])
            if is_value and begin < first and all(reader < first or reader == index for reader in readers.of(base)):
                last = made[other.register]
                found[first] = found[first]._replace(over=base)
                found[last] = found[last]._replace(target=each.target)
                made[each.target.register] = last
                removed.add(index)
                break
        else:
            if readers.after(index, each.over):
                found[index] = each._replace(over=term, source=(each.over,))
    return [each for index, each in enumerate(found) if index not in removed]


class _Use(NamedTuple):
    """Memory that a step reads or writes, and how threads share it."""

    place: int
    size: int
    shared: str
    writes: bool = False

    def conflicts(self, other: _Use) -> bool:
        """Return whether one thread may use what another one writes."""
        apart = self.place + self.size <= other.place or other.place + other.size <= self.place
        same = self.shared == other.shared != "all" and (self[:2] == other[:2] or self.shared == "texts")
        return (self.writes or other.writes) and not apart and not same


class _Memory:
    """The places of registers, while the instructions are carried out.

    A register has a home in another one if a step makes it of that one in place, or if a step reads both side by side.
    """

    def __init__(self, sizes: Sequence[int], instructions: Sequence[Instruction], kept: Sequence[Span]) -> None:
        self.size = 0
        self._sizes, self._homes, self._places = list(sizes), dict[int, Span](), dict[int, int]()
        self._taken: dict[int, tuple[int, int]] = {}  # start and stop of the registers in use
        self._left: list[int] = []  # registers that no later step reads, but perhaps some thread still does
        self._uses: list[_Use] = []  # since the last barrier
        self._change_in_place(instructions)
        for each in instructions:
            self._join(each.source)
        self._last: dict[int, int] = {}  # the last instruction that uses a register
        for index, each in enumerate(instructions):
            self._last |= dict.fromkeys(self._registers(each), index)
        self._last |= dict.fromkeys((self._at_home(span).register for span in kept), len(instructions))

    def place(self, span: Span) -> int:
        """Return the first element of a span; a register that has no place yet gets one."""
        register, start, _ = self._at_home(span)
        if register not in self._places:
            first, size = 0, -(-self._sizes[register] // _LINE) * _LINE
            for begin, end in sorted(self._taken.values()):
                if first + size <= begin:
                    break
                first = max(first, end)
            self._places[register], self._taken[register] = first, (first, first + size)
            self.size = max(self.size, first + size)
        return self._places[register] + start

    def advance(self, index: int, instruction: Instruction) -> tuple[int, int, bool]:
        """Return the places of source and target of the next instruction, and whether threads wait before it."""
        code, source, target, *_ = instruction
        of_source, of_target = _SHARES[code]
        first = self.place(source[0]) if source else 0
        uses = [_Use(self.place(target), target.size, of_target, writes=code != codes.STORE)]
        if source:
            uses.append(_Use(first, sum(span.size for span in source), of_source))
        if code in (codes.STORE, codes.ATTEND):  # the keys and values of a layer are as a register
            uses.append(_Use(-1 - instruction.layer, 1, "all", writes=code == codes.STORE))
        waits = any(one.conflicts(other) for one in uses for other in self._uses)
        if waits:
            for register in self._left:
                del self._taken[register]
            self._left.clear()
        self._uses = uses if waits else self._uses + uses
        self._left += {register for register in self._registers(instruction) if self._last[register] == index}
        return first, uses[0].place, waits

    def _registers(self, instruction: Instruction) -> list[int]:
        return [self._at_home(span).register for span in (*instruction.source, instruction.target)]

    def _at_home(self, span: Span) -> Span:
        """Return the elements that hold a span, of a register that has no home in another one."""
        while (home := self._homes.get(span.register)) is not None:
            span = Span(home.register, home.start + span.start, span.size)
        return span

    def _change_in_place(self, instructions: Sequence[Instruction]) -> None:
        """Give what steps change in place its home; raises UntraceableError if the old elements are read afterwards."""
        readers = _Readers(instructions)
        for index, each in enumerate(instructions):
            over = each.over
            if over is None and _must_add(each):
                raise UntraceableError("a step can only add this to something")
            if over is not None and readers.after(index, over):
                raise UntraceableError("a value is changed in place and read afterwards")
            is_free = len(each.source) == 1 and not readers.after(index, each.source[0])
            if over is None and each.code in _IN_PLACE and is_free:
                over = each.source[0]
            if over is not None:
                self._homes[each.target.register] = over

    def _join(self, spans: Sequence[Span]) -> None:
        """Give registers that are read side by side a home in one register."""
        joined: list[Span] = []
        for span in map(self._at_home, spans):
            if joined and span[:2] == (joined[-1].register, joined[-1].start + joined[-1].size):
                joined[-1] = joined[-1]._replace(size=joined[-1].size + span.size)
            else:
                joined.append(span)
        registers = [span.register for span in joined]
        if len(joined) > 1 and sorted({(r, self._sizes[r]) for r in registers}) != sorted((r, n) for r, _, n in joined):
            raise UntraceableError("registers would have to lie side by side in two ways")
        if len(joined) > 1:
            starts = np.cumsum([0, *(span.size for span in joined)]).tolist()
            for span, start in zip(joined, starts, strict=False):
                self._homes[span.register] = Span(len(self._sizes), start, span.size)
            self._sizes.append(starts[-1])
