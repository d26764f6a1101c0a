"""Programs: registers, and barriers wherever a thread uses what another one wrote."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from minigrad.autograd.tensor import Tensor
from minigrad.kernels.decoding.machine import run_program
from minigrad.kernels.decoding.program import ADD, EMBED, LINEAR, SWIGLU, Share, Step
from minigrad.programs.decoder import texts_of
from minigrad.programs.lower import program_of
from minigrad.programs.registers import assemble
from minigrad.programs.trace import Instruction, Recorder, Span, UntraceableError
from tests.models.tiny import WITH_PROGRAM, build, tokens


def instruction(code: int, source: list[Span], target: int, size: int, **others: Any) -> Instruction:
    return Instruction(code, tuple(source), Span(target, 0, size), **others)


def recorded(sizes: list[int], instructions: list[Instruction], logits: Span) -> Recorder:
    model = build("gpt2")
    cache = model.new_cache(1, 1)
    recorder = Recorder(np.zeros(1, np.int64), cache, model.config)
    recorder.sizes, recorder.instructions, recorder.logits = sizes, instructions, (logits,)
    return recorder


def test_the_memory_of_a_register_is_used_again_after_a_barrier() -> None:
    weight = Tensor(np.zeros((20, 20), np.float32))
    chain = [instruction(LINEAR, [Span(n, 0, 20)], n + 1, 20, operands=(weight,)) for n in range(4)]
    first = instruction(EMBED, [], 0, 20, operands=(weight,))
    program = assemble(recorded([20] * 5, [first, *chain], Span(4, 0, 20)))
    assert [step.waits for step in program.steps] == [0, 1, 1, 1, 1]
    assert {step.target for step in program.steps} == {0, 32, 64}
    assert program.size == 96


def test_registers_that_are_read_side_by_side_lie_side_by_side() -> None:
    weight = Tensor(np.zeros((5, 10), np.float32))
    two = [instruction(EMBED, [], n, 5, operands=(weight,)) for n in range(2)]
    joined = instruction(LINEAR, [Span(1, 0, 5), Span(0, 0, 5)], 2, 5, operands=(weight,))
    steps = assemble(recorded([5, 5, 5], [*two, joined], Span(2, 0, 5))).steps
    assert [step.target for step in steps[:2]] == [5, 0]
    assert (steps[2].source, steps[2].inputs) == (0, 10)
    twice = instruction(LINEAR, [Span(0, 0, 5), Span(1, 0, 5)], 3, 5, operands=(weight,))
    with pytest.raises(UntraceableError, match="two ways"):
        assemble(recorded([5, 5, 5, 5], [*two, joined, twice], Span(3, 0, 5)))


def test_a_sum_that_is_read_later_keeps_its_terms() -> None:
    table, weight = Tensor(np.zeros((3, 4), np.float32)), Tensor(np.zeros((4, 4), np.float32))
    begin = [
        instruction(EMBED, [], 0, 4, operands=(table,)),
        instruction(EMBED, [], 1, 4, operands=(table,)),
        instruction(LINEAR, [Span(1, 0, 4)], 2, 4, operands=(weight,)),
    ]
    total = instruction(ADD, [Span(2, 0, 4)], 3, 4, over=Span(0, 0, 4))
    fused = assemble(recorded([4] * 4, [*begin, total], Span(3, 0, 4))).steps
    assert [(step.code, step.adds) for step in fused] == [(EMBED, 0), (EMBED, 0), (LINEAR, 1)]
    again = instruction(LINEAR, [Span(0, 0, 4)], 4, 4, operands=(weight,))
    last = instruction(ADD, [Span(3, 0, 4)], 5, 4, over=Span(4, 0, 4))
    kept = assemble(recorded([4] * 6, [*begin, total, again, last], Span(5, 0, 4))).steps
    assert [(step.code, step.adds) for step in kept] == [(EMBED, 0), (EMBED, 0), (LINEAR, 0), (ADD, 0), (LINEAR, 1)]


def test_a_matrix_does_not_add_to_what_it_reads() -> None:
    weight = Tensor(np.zeros((4, 4), np.float32))
    steps = [
        instruction(EMBED, [], 0, 4, operands=(weight,)),
        instruction(LINEAR, [Span(0, 0, 4)], 1, 4, operands=(weight,)),
        instruction(ADD, [Span(1, 0, 4)], 2, 4, over=Span(0, 0, 4)),
    ]
    program = assemble(recorded([4] * 3, steps, Span(2, 0, 4)))
    assert [(step.code, step.adds) for step in program.steps] == [(EMBED, 0), (LINEAR, 0), (ADD, 0)]
    assert program.steps[1].source != program.steps[1].target


def test_what_is_overwritten_cannot_be_read() -> None:
    weight = Tensor(np.zeros((3, 4), np.float32))
    both = [instruction(EMBED, [], n, 4, operands=(weight,)) for n in range(2)]
    gate = instruction(SWIGLU, [Span(0, 0, 4)], 2, 4, over=Span(1, 0, 4))
    late = instruction(SWIGLU, [Span(1, 0, 4)], 3, 4, over=Span(2, 0, 4))
    with pytest.raises(UntraceableError, match="read afterwards"):
        assemble(recorded([4] * 4, [*both, gate, late], Span(3, 0, 4)))


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("family", WITH_PROGRAM)
def test_between_two_barriers_the_order_of_threads_does_not_matter(family: str, order: tuple[int, ...]) -> None:
    model, count, threads = build(family, **{"dsff_narrow" if family == "wiola" else "feed_forward": 40}), 4, 3
    program = program_of(model)
    assert program is not None
    config, heads, table = model.config, program.heads(8, np.dtype(np.float32)), np.array(program.steps, np.int64)
    waits = Step._fields.index("waits")
    starts = [0, *np.flatnonzero(table[:, waits]), len(table)]
    assert len(starts) > 6 * config.num_layers

    def logits_of(shares: list[Share]) -> Any:
        memory = np.zeros((count, program.size), np.float32)
        cache = model.new_cache(count, 8)
        for position, ids in enumerate(tokens(0, count, 5).T):
            texts = texts_of(cache, ids, np.full(count, position), np.arange(count))
            for start, stop in itertools.pairwise(starts):
                part = table[start:stop].copy()
                part[:, waits] = 0
                for share in shares:
                    run_program(part, config.norm_eps, memory, heads, texts, np.zeros(1, np.int64), share)
        return memory[:, program.logits]

    together = logits_of([Share(number, threads) for number in order])
    np.testing.assert_array_equal(together, logits_of([Share(0, 1)]))
