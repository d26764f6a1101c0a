"""A run with shifted keys opens in transformers by the files of `minigrad.formats.transformers`, and says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
from minigrad.formats.transformers.__main__ import TransformersConfig, export
from minigrad.generation import stream
from minigrad.generation.settings import Sampling

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

LARGE_WEIGHTS: dict[str, Any] = {"key_shift": True, "init_std": 0.3}
TINY: dict[str, Any] = {
    **LARGE_WEIGHTS, "value_residual": True, "vocab_size": 60, "num_layers": 2, "context_length": 64,
}  # fmt: skip
GREEDY: dict[str, Any] = {"do_sample": False, "max_new_tokens": 12, "eos_token_id": None, "pad_token_id": 0}


def written(folder: Path, size: str = "nano", **shape: Any) -> Any:
    """Save one of our models with the files beside it, and return it."""
    model = models.build("vidya-v2", size, seed=3, **shape)
    model.save(folder)
    export(TransformersConfig(run=str(folder)))
    return model.eval()


def opened(folder: Path, **settings: Any) -> Any:
    kind = transformers.AutoModelForCausalLM
    return kind.from_pretrained(folder, trust_remote_code=True, dtype=torch.float32, **settings).eval()


def tokens(*shape: int, below: int = 60) -> Any:
    return np.random.default_rng(0).integers(1, below, shape)


def assert_same(ours: Any, theirs: Any, ids: Any) -> None:
    wanted = ours(ids).data
    with torch.no_grad():
        found = theirs(torch.tensor(ids)).logits.numpy()
    assert np.abs(found - wanted).max() <= 1e-4 * max(1.0, np.abs(wanted).max())


def greedy(model: Any, ids: Any) -> list[int]:
    settings = Sampling(temperature=0, top_p=None, tokens=GREEDY["max_new_tokens"])
    return [int(token) for token in stream(model, [ids.tolist()], settings)]


@pytest.mark.parametrize(
    ("size", "shape"),
    [
        ("nano", {"key_shift": True}),
        ("nano", LARGE_WEIGHTS),
        ("micro", {"key_shift": True}),
        ("nano", {**LARGE_WEIGHTS, "value_residual": True}),
        ("nano", {**LARGE_WEIGHTS, "value_residual": True, "key_shift": False}),
        ("nano", {**TINY, "tied_head": False}),
        ("nano", {**TINY, "head_dim": 6, "num_heads": 4, "num_kv_heads": 4}),
    ],
)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_logits(tmp_path: Path, size: str, shape: dict[str, Any], attention: str) -> None:
    ours = written(tmp_path, size, **shape)
    theirs = opened(tmp_path, attn_implementation=attention)
    assert type(theirs).__name__ == "VidyaV2ForCausalLM"
    assert_same(ours, theirs, tokens(2, 33))


@pytest.mark.parametrize("way", ["linear", "ntk", "yarn"])
def test_logits_of_a_stretched_model(tmp_path: Path, way: str) -> None:
    models.build("vidya-v2", "nano", seed=3, **TINY).save(tmp_path)
    ours = models.load(tmp_path, rope_scaling=way, rope_factor=4.0)
    ours.save(tmp_path)
    export(TransformersConfig(run=str(tmp_path)))
    assert_same(ours, opened(tmp_path), tokens(2, 128))


@pytest.mark.parametrize("name", ["key_shift", "value_residual"])
def test_each_counts(tmp_path: Path, name: str) -> None:
    """Without it the logits differ, so that the tests above can fail."""
    ours = written(tmp_path, **TINY)
    with pytest.raises(AssertionError):
        assert_same(ours, opened(tmp_path, **{name: False}), tokens(2, 33))


@pytest.mark.parametrize("cache", [None, "static"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_greedy_tokens_with_a_cache_alone_and_padded_in_a_batch(tmp_path: Path, cache: Any, attention: str) -> None:
    ours = written(tmp_path, **TINY)
    theirs = opened(tmp_path, attn_implementation=attention)
    texts = [tokens(20)[:length] for length in (20, 7, 1)]
    wanted = [greedy(ours, text) for text in texts]
    batch = torch.tensor(np.stack([np.pad(text, (20 - len(text), 0)) for text in texts]))
    mask = torch.tensor(np.stack([np.arange(20) >= 20 - len(text) for text in texts]).astype(np.int64))
    settings = GREEDY | {"cache_implementation": cache} if cache else GREEDY
    together = theirs.generate(batch, attention_mask=mask, **settings)[:, 20:].tolist()
    one = theirs.generate(torch.tensor(texts[1][None]), **settings)[0, 7:].tolist()
    assert together == wanted
    assert one == wanted[1]


def test_padding_at_either_end_changes_no_logits(tmp_path: Path) -> None:
    ours, theirs = written(tmp_path, **TINY), opened(tmp_path)
    text = tokens(1, 9)
    wanted = ours(text).data[0]
    for left, right in ((3, 0), (0, 3)):
        ids, mask = (torch.tensor(np.pad(each, ((0, 0), (left, right)))) for each in (text, np.ones_like(text)))
        places = (mask.cumsum(-1) - 1).clamp(min=0)
        with torch.no_grad():
            found = theirs(ids, attention_mask=mask, position_ids=places).logits[0, left : left + 9].numpy()
        assert np.abs(found - wanted).max() <= 1e-4 * max(1.0, np.abs(wanted).max())


def test_it_is_saved_and_loaded_there_and_here(tmp_path: Path) -> None:
    ours = written(tmp_path / "run", **TINY)
    opened(tmp_path / "run").save_pretrained(tmp_path / "again")
    assert_same(ours, opened(tmp_path / "again"), tokens(2, 33))
    back = models.load(tmp_path / "again")
    assert back.config == ours.config
    assert np.array_equal(back(tokens(2, 33)).data, ours(tokens(2, 33)).data)


def test_it_can_be_trained_there(tmp_path: Path) -> None:
    written(tmp_path, **TINY)
    model, ids = opened(tmp_path).train(), torch.tensor(tokens(2, 33))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_texts_packed_into_one_row_are_refused(tmp_path: Path) -> None:
    written(tmp_path, **TINY)
    with pytest.raises(ValueError, match="position_ids begin anew within a row"):
        opened(tmp_path)(torch.tensor(tokens(1, 6)), position_ids=torch.tensor([[0, 1, 2, 0, 1, 2]]))


@pytest.mark.parametrize("entry", [{"num_local_experts": 4}, {"attention_bias": True}, {"hidden_act": "gelu"}])
def test_another_variant_is_refused(tmp_path: Path, entry: dict[str, Any]) -> None:
    written(tmp_path, **TINY)
    path, (name,) = tmp_path / "config.json", entry
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | entry), encoding="utf-8")
    with pytest.raises(ValueError, match=f"config.json has {name} = "):
        opened(tmp_path)
