"""Every model that is compared is causal, and trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import models
from benchmarks.wiola_parts import choices, variants
from minigrad.options import assignments
from tests.models.tiny import CONTEXT, TINY, VOCAB, tokens

MODELS = variants() | choices()


@pytest.mark.parametrize("name", MODELS)
def test_a_variant_learns_and_sees_no_later_token(name: str) -> None:
    make, changes = MODELS[name]
    fields = TINY["wiola"] | {"vocab_size": VOCAB, "context_length": CONTEXT, "init_std": 0.2, "end_of_text_id": 0}
    model: Any = make(models.configure("wiola", **fields | assignments(changes)))
    model.initialise(0, "float64")
    ids = tokens(0, 2, CONTEXT)
    model.loss(ids[:, :-1], ids[:, 1:]).backward()
    assert all(np.isfinite(each.grad).all() for each in model.parameters() if each.grad is not None)
    model.eval()
    np.testing.assert_allclose(model(ids[:, :9]).data, model(ids).data[:, :9], rtol=0, atol=1e-9)
