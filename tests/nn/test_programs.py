"""Programs: registers, and barriers wherever a thread uses what another one wrote."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from minigrad.kernels.decoding.machine import run_program
from minigrad.kernels.decoding.program import Heads, Share, Step, Texts
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.programs import Program
from tests.models.tiny import TINY, build, tokens

WITH_PROGRAM = [family for family in TINY if build(family).write_program(Program(num_heads=4)) is not None]


def test_the_families_that_describe_their_pass() -> None:
    assert set(WITH_PROGRAM) >= {"gpt2", "vidya-v1", "vidya-v2", "vsla", "wiola"}


def test_registers_do_not_overlap_unless_they_are_temporary() -> None:
    program = Program(num_heads=1)
    first = program.register(20)
    with program.temporary():
        second = program.register(5)
    third = program.register(7)
    assert (first.place, second.place, third.place) == (0, 32, 32)
    assert program.size == 48
    assert first.part(4, 9) == (4, 5)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
@pytest.mark.parametrize("family", WITH_PROGRAM)
def test_between_two_barriers_the_order_of_threads_does_not_matter(family: str, order: tuple[int, ...]) -> None:
    model, count, threads = build(family, **{"dsff_narrow" if family == "wiola" else "feed_forward": 40}), 4, 3
    program = Program(model.config.num_heads)
    rows = model.write_program(program)
    assert rows is not None
    logits = program.head(model.tables()[-1], rows)
    config, angles = model.config, program.angles
    none = np.empty((0, 0), np.float32)
    tables = (none, none) if angles is None else angles.tables(8, np.dtype(np.float32))
    sizes = config.num_heads, config.num_kv_heads, config.head_dim
    heads = Heads(*sizes, np.array(program.patterns, np.float64), *tables, angles is not None and angles.interleaved)
    table = program.table()
    waits = Step._fields.index("waits")
    starts = [0, *np.flatnonzero(table[:, waits]), len(table)]
    assert len(starts) > 6 * config.num_layers

    def logits_of(shares: list[Share]) -> Any:
        memory = np.zeros((count, program.size), np.float32)
        cache = model.new_cache(count, 8)
        assert isinstance(cache, KeyValueCache)
        for position, ids in enumerate(tokens(0, count, 5).T):
            stored = cache.keys, cache.values, cache.far_keys, cache.far_values, cache.sums
            texts = Texts(ids.astype(np.int64), np.full(count, position), np.arange(count), *stored)
            for start, stop in itertools.pairwise(starts):
                part = table[start:stop].copy()
                part[:, waits] = 0
                for share in shares:
                    run_program(part, config.norm_eps, memory, heads, texts, np.zeros(1, np.int64), share)
        return memory[:, logits.place : logits.place + logits.size]

    together = logits_of([Share(number, threads) for number in order])
    np.testing.assert_array_equal(together, logits_of([Share(0, 1)]))
