"""A model that sees a later token is found out, also if it does so in training alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import models
from benchmarks.evaluation.causality import ALLOWED, leak
from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.nn import Layout
from models.vidya_v2 import VidyaV2

SMALL = {"num_layers": 6, "width": 16, "num_heads": 4, "vocab_size": 64, "context_length": 24, "init_std": 0.2}
WIOLA: dict[str, Any] = SMALL | {"num_kv_heads": 2, "dsff_narrow": 16, "dsff_wide": 32, "end_of_text_id": 0}
VIDYA: dict[str, Any] = SMALL | {"num_layers": 2, "num_kv_heads": 2, "head_dim": 4, "feed_forward": 32}


@pytest.mark.parametrize(
    ("changes", "leaks"),
    [({}, False), ({"atm": "kv_only"}, False), ({"atm": "paper"}, True), ({"gcla_summary": "paper"}, True)],
)
def test_the_literal_forms_of_wiola_leak_and_the_causal_ones_do_not(changes: dict[str, Any], leaks: bool) -> None:
    assert (leak(models.skeleton("wiola", "nano", **WIOLA | changes), 24) > ALLOWED) == leaks


class Peeping(VidyaV2):
    """A model whose every row gets a billionth of the row after it."""

    share = 1e-6

    def hidden(self, tokens: Tensor, layout: Layout, cache: Any = None) -> Tensor:
        x = super().hidden(tokens, layout, cache)
        return x + ops.concatenate(x[1:], x[:1], axis=0) * self.share if self.training else x


def test_a_small_leak_in_training_alone_is_found_also_after_training() -> None:
    from benchmarks.evaluation.judge import check_leak

    config = models.configure("vidya-v2", "nano", **VIDYA)
    model = Peeping(config)
    model.initialise(1)
    for trained in (False, True):
        found = leak(model, 24, trained=trained)
        with pytest.raises(InputError, match="the arm 'peeping' sees later tokens"):
            check_leak("peeping", found, expected=False)
        check_leak("peeping", found, expected=True)
    model.train()
    assert not leak(VidyaV2(config), 24) > ALLOWED
    with pytest.raises(InputError, match="leaks = true, but no logit depends on a later token"):
        check_leak("honest", leak(VidyaV2(config), 24), expected=True)


class PeepingLate(VidyaV2):
    """A model in which the last position of each block of 16 sees the first of the next, from the fourth block on."""

    def hidden(self, tokens: Tensor, layout: Layout, cache: Any = None) -> Tensor:
        x = super().hidden(tokens, layout, cache)
        peeps = (layout.positions % 16 == 15) & (layout.positions > 48)
        return x + ops.concatenate(x[1:], x[:1], axis=0) * peeps[:, None].astype(x.dtype)


class PeepingBelow(VidyaV2):
    """A model in which each position gets a millionth of the same position of the next sequence."""

    def hidden(self, tokens: Tensor, layout: Layout, cache: Any = None) -> Tensor:
        x = super().hidden(tokens, layout, cache)
        length = int(layout.lengths[0])
        return x + ops.concatenate(x[length:], x[:length], axis=0) * 1e-6


def test_a_model_that_sees_another_sequence_is_found() -> None:
    model = PeepingBelow(models.configure("vidya-v2", "nano", **VIDYA))
    model.initialise(1)
    assert leak(model, 24) > ALLOWED
    assert leak(model, 24, trained=True) > ALLOWED


@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_shortest_sequences_can_be_asked(length: int) -> None:
    config = models.configure("vidya-v2", "nano", **VIDYA)
    assert leak(VidyaV2(config), length) <= ALLOWED
    model = Peeping(config)
    model.initialise(1)
    assert leak(model, length) > ALLOWED  # with one token each, of another sequence


def test_a_leak_that_begins_late_in_a_sequence_is_found_at_the_length_of_training() -> None:
    model = PeepingLate(models.configure("vidya-v2", "nano", **VIDYA | {"context_length": 256}))
    assert not leak(model, 48) > ALLOWED
    assert leak(model, 256) > ALLOWED


def test_a_leak_beyond_the_context_of_training_is_found_if_the_arm_is_judged_there() -> None:
    from benchmarks.evaluation.judge import Judge

    model = PeepingLate(models.configure("vidya-v2", "nano", **VIDYA | {"context_length": 48}))
    run: Any = SimpleNamespace(model=model, settings=SimpleNamespace(context=48))
    Judge("late", [48], leaks=False).begin(run)
    with pytest.raises(InputError, match="the arm 'late' sees later tokens"):
        Judge("late", [48, 256], leaks=False).begin(run)
