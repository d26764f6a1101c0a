"""Sequences dealt to steps: each once in an epoch, some to every step, about as many tokens as there is room for."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from minigrad.finetuning.epochs import EpochSource


@given(lengths=st.lists(st.integers(1, 20), min_size=1, max_size=40), room=st.integers(20, 90), seed=st.integers(0, 99))
def test_an_epoch_deals_every_sequence_once(lengths: list[int], room: int, seed: int) -> None:
    deal = EpochSource(np.array(lengths), room)
    steps = deal.steps_per_epoch(1)
    for epoch in range(2):
        dealt = [deal.chosen(seed, epoch * steps + part, 1).tolist() for part in range(steps)]
        assert all(dealt)
        assert sorted(itertools.chain(*dealt)) == list(range(len(lengths)))
    total = 0
    for step in range(2 * steps + 1):
        assert deal.tokens_before(step, seed=seed, batch_size=1) == total
        total += sum(lengths[number] for number in deal.chosen(seed, step, 1))


def test_epochs_and_seeds_have_other_orders() -> None:
    deal = EpochSource(np.full(30, 4), 120)
    assert len({str(deal.chosen(seed, step, 1)) for seed in range(3) for step in range(3)}) == 9
