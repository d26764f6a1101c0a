"""A batch of unequal texts has one gradient, however it is divided into parts and among replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import nn
from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch
from minigrad.training.parallel import Replicas
from tests.models.tiny import TINY, VOCAB, build
from train import forward_backward

pytestmark = pytest.mark.usefixtures("two_threads")
every_family = pytest.mark.parametrize("family", TINY)

# Merging takes the discrete choice of neighbours whose cosine exceeds a threshold: at 0 it merges often.
MERGING: dict[str, dict[str, Any]] = {family: {} for family in TINY}
MERGING["wiola"] = {"atm": "avg_causal", "atm_threshold": 0.0}


def packed(seed: int, lengths: list[int], ignored: float = 0.0) -> Batch:
    """Draw sequences of these lengths, of whose targets a share does not count."""
    draw, rows = np.random.default_rng(seed), sum(lengths)
    tokens, targets = (draw.integers(0, VOCAB, rows).astype(np.int32) for _ in range(2))
    targets[draw.random(rows) < ignored] = IGNORE
    return Batch(tokens, targets, nn.Layout.packed(lengths))


def learned(learners: Replicas, parts: list[Batch], **options: Any) -> tuple[float, dict[str, Any]]:
    """Return the loss and the gradients of a fresh step in these parts."""
    model = learners.models[0]
    model.zero_grad()
    loss = sum(learners.run(forward_backward, part, **options) for part in parts)
    return loss, {name: np.array(parameter.grad) for name, parameter in model.named_parameters()}


@every_family
@settings(max_examples=12)
@given(
    seed=st.integers(0, 99),
    lengths=st.lists(st.integers(0, 7), min_size=1, max_size=7).filter(any),
    parts=st.integers(1, 5),
    count=st.integers(1, 4),
    ignored=st.sampled_from([0.0, 0.4, 0.9, 1.0]),
    options=st.fixed_dictionaries({"dropout": st.sampled_from([0.0, 0.3]), "recomputed": st.booleans()}),
)
def test_any_split_of_unequal_texts_gives_the_same_gradient(
    family: str, seed: int, lengths: list[int], parts: int, count: int, ignored: float, options: dict[str, Any]
) -> None:
    """Any number of parts and of replicas, also more than there are texts, and parts in which no target counts."""
    batch = packed(seed, lengths, ignored)
    model = build(family, "float64", dropout=options["dropout"], **MERGING[family])
    model.recompute_layers(options["recomputed"])
    step = {"step": 3, "num_targets": batch.num_targets}
    loss, gradients = learned(Replicas(model, 1, seed), [batch], **step)
    learners = Replicas(model, count, seed)
    for _ in range(2):  # the second time, the replicas' gradients hold what the first left
        found, divided = learned(learners, batch.parts(parts), **step)
        assert found == pytest.approx(loss, rel=1e-12)
        for name, gradient in gradients.items():
            np.testing.assert_allclose(divided[name], gradient, rtol=0, atol=1e-10 * max(1, np.abs(gradient).max()))


@every_family
def test_every_way_to_cut_a_batch_into_two_gives_the_same_gradient(family: str) -> None:
    model, batch = build(family, "float64", dropout=0.3, **MERGING[family]), packed(5, [5, 1, 0, 6, 3], ignored=0.2)
    batch.targets[:6] = IGNORE  # of the first two texts
    options = {"step": 1, "num_targets": batch.num_targets}
    loss, gradients = learned(Replicas(model, 1), [batch], **options)
    for cut in batch.layout.offsets[1:-1]:
        halves = [batch.between(0, int(cut)), batch.between(int(cut), 15)]
        found, divided = learned(Replicas(model, 2), halves, **options)
        assert found == pytest.approx(loss, rel=1e-12)
        for name, gradient in gradients.items():
            np.testing.assert_allclose(divided[name], gradient, rtol=0, atol=1e-10)
