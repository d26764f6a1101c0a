"""Trace a pass of a model over one token: run its own forward on unknown values, and note the steps that compute them.

An `Unknown` is a tensor without elements: it has a shape, and registers that will hold its rows. A rule (`lowers`)
says which steps of `minigrad.kernels.decoding` compute an operation on such tensors; the operation itself is not run.
An operation without a rule reads the elements of its arguments, and that ends the trace: then the model depends on the
data, or computes what a program cannot. So a trace reads no weights, takes milliseconds, and cannot take a value that
belongs to one token for a constant.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from minigrad.autograd.graph import no_grad
from minigrad.autograd.observers import Observer, watch
from minigrad.autograd.tensor import Tensor
from minigrad.kernels.decoding.program import LINEAR, Pattern
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.config import ModelConfig
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout
from minigrad.nn.module import in_evaluation
from minigrad.nn.rotary import RotaryAngles
from minigrad.typing import Array

TOKENS, POSITIONS = -1, -2
"""The registers of the token of each text and of its position, which only a lookup in a table reads."""

RULES: dict[Callable[..., Any], Callable[..., Any]] = {}
"""For an operation or a composite, a function of a `Recorder` and the same arguments, which returns unknown tensors."""


def lowers(function: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make a rule for an operation or a composite of the decorated function.

    An argument or an option that the rule does not take ends the trace.
    """

    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        RULES[function] = rule
        return rule

    return register


class UntraceableError(Exception):
    """A pass that depends on the data, or that the steps of a program cannot compute."""


class Span(NamedTuple):
    """Elements of a register."""

    register: int
    start: int
    size: int


class Instruction(NamedTuple):
    """A step on registers that have no place in memory yet. Each instruction sets a register of its own."""

    code: int
    source: tuple[Span, ...]  # read as if they followed one another
    target: Span  # of a store, the values, which are read
    over: Span | None = None  # elements that the step changes in place: they become the target, and are lost
    layer: int = 0
    adds: int = 0
    operands: tuple[Any, ...] = ()  # matrix, table or weights of a norm; then a bias or an offset


class Unknown(Tensor):
    """A tensor of a trace, (rows, ...): the elements of a row lie in registers, and cannot be read."""

    __slots__ = ("_spans",)

    def __init__(self, shape: Sequence[int], dtype: DTypeLike, spans: Sequence[Span]) -> None:
        super().__init__(np.ndarray(shape, dtype, bytes(8), strides=(0,) * len(shape)))  # it takes no memory
        self._spans = tuple(spans)

    @property
    def spans(self) -> tuple[Span, ...]:
        """Where the elements of a row lie; raises UntraceableError if no step has put them into registers yet."""
        if sum(span.size for span in self._spans) != self.width:
            raise UntraceableError("no register holds the elements of this tensor")
        return self._spans

    @property
    def data(self) -> Array:
        """No array: raises UntraceableError."""
        raise UntraceableError("the elements of a tensor are not known while a pass is traced")

    @data.setter
    def data(self, value: Any) -> None:
        raise UntraceableError("the elements of a tensor cannot be set while a pass is traced")

    @property
    def width(self) -> int:
        """The number of elements of a row."""
        return math.prod(self.shape[1:])

    def part(self, start: int, size: int) -> tuple[Span, ...]:
        """Return where `size` elements of each row lie, from `start` on."""
        found = []
        for register, first, length in self.spans:
            begin, end = max(start, 0), min(start + size, length)
            if begin < end:
                found.append(Span(register, first + begin, end - begin))
            start -= length
        return tuple(found)


@dataclass
class Common:
    """What all steps of a program have in common; None where no step needs it."""

    eps: float | None = None  # what norms add before the root
    num_heads: int | None = None
    num_kv_heads: int | None = None
    head_size: int | None = None
    angles: RotaryAngles | None = None


class Recorder(Observer):
    """The instructions of a pass over one token of each text, at these positions, and what they have in common."""

    def __init__(self, positions: Array, cache: KeyValueCache, config: ModelConfig) -> None:
        self.rows, self.positions, self.cache = len(positions), positions, cache
        self.looked_up = {TOKENS: config.vocab_size, POSITIONS: config.context_length}  # how many rows of a table
        self.instructions: list[Instruction] = []
        self.sizes: list[int] = []  # of the registers
        self.patterns: dict[int, Pattern] = {}  # of the layers
        self.common = Common()
        self.logits: tuple[Span, ...] = ()
        self._thread = threading.get_ident()

    def replace(self, function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        """Return what the rule of an operation on unknown tensors returns."""
        rule = RULES.get(function)
        if rule is None or threading.get_ident() != self._thread:
            return None
        given = [self._or_position(argument) for argument in arguments]
        if not any(isinstance(argument, Unknown) for argument in given):
            return None
        return rule(self, *given, **options)

    def _or_position(self, argument: Any) -> Any:
        """Return the unknown positions for an array of those of this pass; anything else as it is."""
        array = argument.data if type(argument) is Tensor else argument
        if isinstance(array, np.ndarray) and array.dtype.kind == "i" and np.array_equal(array, self.positions):
            return Unknown(array.shape, array.dtype, [Span(POSITIONS, 0, 1)])
        return argument

    def agree(self, **values: Any) -> None:
        """Note what a whole program has in common; raises UntraceableError if something else was noted."""
        for name, value in values.items():
            if (noted := getattr(self.common, name)) not in (None, value):
                raise UntraceableError(f"all steps of a program have the same {name}: {noted} is not {value}")
            setattr(self.common, name, value)

    def step(
        self, code: int, *sources: Unknown, over: Unknown | None = None, width: int | None = None, **others: Any
    ) -> Unknown:
        """Add an instruction that reads the sources and changes `over`; return its result.

        That has the shape (rows, width), or by default the shape of what the step changes, or of the first source.
        `others` are fields of an `Instruction`.
        """
        like = sources[0] if over is None else over
        source, changed = tuple(span for each in sources for span in each.spans), () if over is None else over.spans
        if len(changed) != int(over is not None) or any(span.register < 0 for span in (*source, *changed)):
            raise UntraceableError("a step reads registers, and changes one of them")
        shape = like.shape if width is None else (len(like), width)
        return self.add(code, source, shape, like.dtype, over=changed[0] if changed else None, **others)

    def add(
        self, code: int, source: tuple[Span, ...], shape: tuple[int, ...], dtype: DTypeLike, **others: Any
    ) -> Unknown:
        """Add an instruction whose result has a shape and a dtype; return the result."""
        instruction = Instruction(code, source, Span(len(self.sizes), 0, math.prod(shape[1:])), **others)
        if shape[0] != self.rows or any(isinstance(operand, Unknown) for operand in instruction.operands):
            raise UntraceableError("a step computes a row of each text, with weights that are known")
        self.sizes.append(instruction.target.size)
        self.instructions.append(instruction)
        return Unknown(shape, dtype, [instruction.target])

    def linear(self, x: Unknown, outputs: int, inputs: int, *operands: Any) -> Unknown:
        """Apply a matrix, and a bias if there is one, to the last axis of x: a step for each of its lines."""
        if inputs != x.shape[-1]:
            raise UntraceableError(f"a matrix has {inputs} inputs, not {x.shape[-1]}")
        spans = list[Span]()
        for start in range(0, x.width, inputs):
            line = Unknown((self.rows, inputs), x.dtype, x.part(start, inputs))
            spans += self.step(LINEAR, line, width=outputs, operands=operands).spans
        return Unknown((*x.shape[:-1], outputs), x.dtype, spans)


def trace(model: LanguageModel) -> Recorder | None:
    """Trace a model; None if it cannot be described by one list of steps for all tokens and positions.

    It is traced twice, with other positions and another number of texts: what differs depends on them.
    """
    try:
        first, second = (_traced(model, np.array(lengths)) for lengths in ([0], [1, 3]))
    except Exception:  # an operation met a value that is not known: the model itself has more to say, if it is called
        return None
    return first if _are_equal(first, second) else None


def _traced(model: LanguageModel, lengths: Array) -> Recorder:
    lengths = np.minimum(lengths, model.config.context_length - 1)
    cache = model.new_cache(len(lengths), int(lengths.max()) + 1)
    cache.lengths = lengths
    recorder, layout = Recorder(lengths, cache, model.config), Layout.rectangular(len(lengths), 1)
    tokens = Unknown(lengths.shape, np.int64, [Span(TOKENS, 0, 1)])
    with in_evaluation(model), no_grad(), watch(recorder):
        recorder.logits = model(tokens, cache=cache, layout=layout).spans
    return recorder


def _are_equal(one: Recorder, other: Recorder) -> bool:
    def without_operands(trace: Recorder) -> Any:
        steps = [instruction._replace(operands=()) for instruction in trace.instructions]
        return steps, trace.sizes, trace.patterns, trace.common, trace.logits

    def is_same(a: Any, b: Any) -> bool:
        return a is b or (isinstance(a, Tensor) and np.array_equal(a.data, b.data))

    pairs = zip(one.instructions, other.instructions, strict=False)
    same_steps = without_operands(one) == without_operands(other)
    return same_steps and all(all(map(is_same, a.operands, b.operands)) for a, b in pairs)
