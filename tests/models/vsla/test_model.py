"""VSLA: the count of its published size, GPT-2 as a special case, and what its patterns change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import models
from minigrad import InputError
from minigrad.optim import AdamW
from models.registry import compare_claim
from models.vsla.patterns import CANDIDATES
from tests.models.tiny import CONTEXT, VOCAB, build, tokens


def test_the_exact_count_and_that_of_the_document() -> None:
    assert models.count("vsla", "1b") == 1_319_917_568
    line = compare_claim("vsla", "1b", models.skeleton("vsla", "1b"))
    assert "its document says 1,100,000,000 parameters, the shape has 1,319,917,568" in line


def test_with_full_attention_in_every_layer_it_is_gpt2() -> None:
    shape: dict[str, Any] = {"num_layers": 3, "width": 12, "num_heads": 3, "feed_forward": 20}
    gpt2 = build("gpt2", "float64", num_layers=3).eval()
    vsla = build("vsla", "float64", seed=1, patterns="full", **shape).eval()
    vsla.load_state_dict(gpt2.state_dict())
    ids = tokens(0, 2, CONTEXT)
    assert vsla(ids).data.tobytes() == gpt2(ids).data.tobytes()


@pytest.mark.parametrize("patterns", ["local", "sparse", "pyramid", "adaptive", "pyramid+local+full"])
def test_every_pattern_changes_what_a_long_sequence_gives(patterns: str) -> None:
    full, other = (build("vsla", patterns=each, top_k=2).eval() for each in ("full", patterns))
    ids = tokens(0, 1, CONTEXT)
    same = np.isclose(full(ids).data, other(ids).data, rtol=0, atol=1e-4).all(axis=-1)[0]
    assert same[:2].all()
    assert not same[-3:].any()


def test_more_tokens_than_positions_are_refused() -> None:
    with pytest.raises(InputError, match=f"{CONTEXT + 1} tokens are more than the model's context of {CONTEXT}"):
        build("vsla")(tokens(0, 1, CONTEXT + 1))


def test_a_pattern_lowers_the_work_of_long_sequences() -> None:
    full, local = (models.skeleton("vsla", "1b", patterns=each) for each in ("full", "local"))
    assert full.macs_per_token(4_096) == models.skeleton("gpt2", "medium", **_shape(full)).macs_per_token(4_096)
    attention = 2 * 24 * 2_048
    assert full.macs_per_token(4_096) - local.macs_per_token(4_096) == attention * (2_048 - (256 - 8))
    assert full.macs_per_token(128) == local.macs_per_token(128)


def _shape(model: Any) -> dict[str, Any]:
    names = ("num_layers", "width", "num_heads", "feed_forward", "context_length")
    return {name: getattr(model.config, name) for name in names}


def test_the_share_of_tokens_that_saw_far_keys_is_measured() -> None:
    model = build("vsla", patterns="adaptive+local", num_layers=3, entropy=0.0).eval()
    model(tokens(0, 2, CONTEXT))
    assert model.measurements() == {"far_share": [pytest.approx((CONTEXT - 4 - 3 + 1) / CONTEXT)] * 2}
    assert build("vsla", patterns="local").measurements() == {}


def test_a_learned_pattern_mixes_the_candidates_of_each_head() -> None:
    model: Any = build("vsla", "float64", patterns="learned", num_layers=1, top_k=2).eval()
    ids, attention = tokens(0, 1, CONTEXT), model.h[0].attn
    assert model.measurements() == {"pattern_share": [0.25] * 4}
    for number, kind in enumerate(CANDIDATES):
        shares = np.full((3, len(CANDIDATES)), -np.inf)
        shares[:, number] = 0
        attention.pattern.logits.data = shares.reshape(-1)
        fixed = build("vsla", "float64", patterns=kind, num_layers=1, top_k=2).eval()
        assert not fixed.load_state_dict({n: a for n, a in model.state_dict().items() if "logits" not in n})
        np.testing.assert_allclose(model(ids).data, fixed(ids).data, rtol=0, atol=1e-12)
        assert model.measurements()["pattern_share"][number] == 1


def test_training_finds_the_pattern_that_a_task_needs() -> None:
    """Each token repeats the one twelve before it: out of a window of 4, so full attention alone can find it."""
    model: Any = build("vsla", patterns="local+learned", num_layers=2, init_std=0.2, top_k=1, block=8)
    draw, optimizer = np.random.default_rng(0), AdamW(model.parameters(), lr=0.02, weight_decay=0.0)
    for _ in range(200):
        ids = np.tile(draw.integers(0, VOCAB, (8, 12)), (1, 2))
        optimizer.zero_grad()
        model.loss(ids[:, :-1], np.where(np.arange(23) < 11, -100, ids[:, 1:])).backward()
        optimizer.step(max_norm=1.0)
    shares = dict(zip(CANDIDATES, model.measurements()["pattern_share"], strict=True))
    assert shares["full"] > 0.4
    assert shares["local"] < 0.1
