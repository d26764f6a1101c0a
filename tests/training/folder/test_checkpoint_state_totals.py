"""Sums over steps."""

from __future__ import annotations

import math

import numpy as np
import pytest

from minigrad.training.folder.checkpoint import Totals
from train import take_step


def test_measurements_average_over_the_steps_since_the_last_line(make):
    run, single = make(), make()
    for _ in range(4):
        take_step(run)
    losses = []
    for _ in range(4):
        take_step(single)
        losses.append(single.totals.mean_loss)
        single.totals = Totals()
    assert run.totals.mean_loss == pytest.approx(np.mean(losses))
    seen = [run.plan.source.batch(seed=0, step=step, batch_size=2).targets for step in range(4)]
    num_bytes = sum(int(run.text.byte_lengths[targets].sum()) for targets in seen)
    assert run.totals.bits_per_byte == pytest.approx(sum(losses) * 16 / math.log(2) / num_bytes)
