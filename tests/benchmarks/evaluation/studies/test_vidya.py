"""A Vidya v1 with parts of v2 writes what it computes, and has the heads that its arm asks for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.evaluation.studies.vidya import Vidya
from minigrad import no_grad
from minigrad.programs.decoder import Decoder
from models.vidya_v1 import VidyaV1Config


@pytest.mark.parametrize("groups", [1, 3])
@pytest.mark.parametrize("has_gate", [False, True])
@pytest.mark.parametrize("key_shift", [False, True])
def test_it_writes_what_it_computes(groups: int, has_gate: bool, key_shift: bool) -> None:
    attributes: dict[str, Any] = {"groups": groups, "has_gate": has_gate, "key_shift": key_shift}
    arm = type("Arm", (Vidya,), attributes)
    model = arm(VidyaV1Config(vocab_size=13, num_layers=2, width=12, num_heads=3, head_dim=4, feed_forward=20))
    model.initialise(1)
    assert model.parameters()[0].dtype == np.float32
    tokens = np.random.default_rng(0).integers(0, 13, (2, 7))
    with no_grad():
        wanted = model(tokens).data[:, -1]
    decoder, cache = Decoder(model), model.new_cache(2, 7)
    for place in range(7):
        logits = decoder.step(tokens[:, place], cache)
    np.testing.assert_allclose(logits, wanted, atol=1e-5)
    assert cache.keys.shape == (2, 2, 7, 3 // groups, 4)
    model.cache_format = "bfloat16"
    assert model.new_cache().format == "bfloat16"
