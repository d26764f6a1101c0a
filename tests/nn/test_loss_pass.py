"""Losses that modules add: part of the loss in training mode only, the same if layers are recomputed."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import Tensor, nn
from minigrad.constants import IGNORE
from minigrad.nn.loss_pass import LossPass, loss_pass
from tests.models.tiny import build, tokens


class Norm(nn.RMSNorm):
    """A norm that adds its mean square to the loss."""

    seen: list[LossPass]

    def forward(self, x: Tensor) -> Tensor:
        if (current := loss_pass()) is not None:
            self.seen.append(current)
            current.add((x * x).mean())
        return super().forward(x)


def test_a_module_adds_to_the_loss_in_training_mode_alone() -> None:
    model, ids = build("vidya-v2", "float64"), tokens(0, 2, 9)
    targets = np.where(ids < 3, IGNORE, ids)
    plain = model.loss(ids, targets).item()
    assert model.added_loss == 0
    for layer in model.model.layers:  # type: ignore[attr-defined]
        layer.input_layernorm.__class__ = Norm
        layer.input_layernorm.seen = []
    model(ids)
    assert model.eval().loss(ids, targets).item() == plain
    found = []
    for recomputed in (False, True):
        model.train().recompute_layers(recomputed)  # type: ignore[attr-defined]
        model.zero_grad()
        loss = model.loss(ids, targets)
        loss.backward()
        assert loss.item() == pytest.approx(plain + model.added_loss)
        assert model.added_loss > 0
        found.append((model.added_loss, [np.array(each.grad) for each in model.parameters()]))
    assert found[0][0] == found[1][0]
    for kept, again in zip(found[0][1], found[1][1], strict=True):
        np.testing.assert_allclose(again, kept, rtol=1e-12, atol=1e-14)
    first = model.model.layers[0].input_layernorm.seen[0]  # type: ignore[attr-defined]
    np.testing.assert_array_equal(first.counted, (targets != IGNORE).reshape(-1))
    assert first.layout.lengths.tolist() == [9, 9]
    assert loss_pass() is None
