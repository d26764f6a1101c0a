"""The plan of attention: what the loops read, and how much work a task is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from minigrad.kernels.attention.plan import Plan, arithmetic_for, flat, task_of
from minigrad.kernels.rowwise.dropout import Stream


def _plan(lengths: list[int], **options: float) -> Plan:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    visible = np.concatenate([np.arange(1, length + 1) for length in lengths]).astype(np.int64)
    return Plan(offsets, np.stack([offsets[:-1], offsets[1:]], axis=1), visible, 0.5, **options)


def test_the_loops_read_contiguous_rows_and_numbers_of_one_type() -> None:
    q, k = np.zeros((7, 4, 3), np.float32), np.zeros((7, 2, 3), np.float32)
    inputs = _plan([3, 4], dropout=0.25, stream=Stream(5 + (6 << 32), 7, 8, 9)).inputs(arithmetic_for(q), q, k[::-1], k)
    assert [x.shape for x in (inputs.q, inputs.k, inputs.v)] == [(7, 12), (7, 6), (7, 6)]
    assert inputs.k.flags.c_contiguous
    assert inputs.kv_heads == 2
    assert type(inputs.scale) is type(inputs.draws.keep_scale) is np.float32
    assert inputs.draws[:6] == (5, 6, 7, 8, 9, 2**30)
    assert inputs.draws.keep_scale == np.float32(4 / 3)


def test_tasks_are_the_heads_of_each_sequence_in_turn() -> None:
    plan, q, k = _plan([3, 0, 4]), np.zeros((7, 6, 5)), np.zeros((7, 2, 5))
    inputs = plan.inputs(arithmetic_for(q), q, k, k)
    tasks = [task_of(inputs, number) for number in range(plan.num_tasks(k))]
    assert [tuple(task.heads) for task in tasks] == [(0, 2, 3, 5), (1, 2, 3, 5)] * 3
    assert [tuple(task[1:]) for task in tasks] == [(0, 9, 0, 3)] * 2 + [(3, 0, 3, 0)] * 2 + [(3, 12, 3, 4)] * 2


def test_a_lower_bound_makes_the_tasks_shorter() -> None:
    plan, q = _plan([64, 64]), np.zeros((128, 4, 8))
    local = replace(plan, first_visible=np.maximum(plan.visible - 16, 0))
    assert 4 * local.work(q, q) == plan.work(q, q)
    assert [bound.tolist() for bound in plan.inputs(arithmetic_for(q), q, q, q).seen] == [
        [0] * 128,
        plan.visible.tolist(),
    ]
    assert local.inputs(arithmetic_for(q), q, q, q).seen.first is local.first_visible


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_the_work_of_all_tasks_does_not_depend_on_how_many_they_are(kv_heads: int) -> None:
    plan, q = _plan([64, 64]), np.zeros((128, 4, 8))
    k = np.zeros((128, kv_heads, 8))
    assert plan.num_tasks(k) * plan.work(q, k) == q.size * 64 // 2


def test_there_is_no_work_without_sequences_or_keys() -> None:
    empty, k = Plan(np.zeros(1, np.int64), np.zeros((0, 2), np.int64), np.zeros(0, np.int64), 1.0), np.zeros((0, 1, 2))
    assert (empty.num_tasks(k), empty.work(k, k)) == (0, 0)


def test_heads_become_columns_without_a_copy() -> None:
    x = np.arange(24.0).reshape(4, 2, 3)
    assert flat(x).shape == (4, 6)
    assert np.shares_memory(flat(x), x)
