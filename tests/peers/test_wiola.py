"""Wiola's released package and we say the same, where its mathematics is causal: at evaluation, with merging off."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
from minigrad.formats.safetensors import save_tensors
from minigrad.generation import stream

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]
torch = pytest.importorskip("torch")
wiola = pytest.importorskip("wiola")

IDS = np.random.default_rng(0).integers(0, 64, (2, 30))
SHAPE: dict[str, Any] = {
    "vocab_size": 64,
    "num_layers": 6,
    "width": 32,
    "num_heads": 4,
    "num_kv_heads": 2,
    "dsff_narrow": 16,
    "dsff_wide": 48,
    "context_length": 64,
    "gcla_gate_init": 0.0,
    "init_std": 0.2,
}


def assert_same(ours: Any, wanted: Any) -> None:
    assert np.abs(ours - wanted).max() <= 1e-4 * np.abs(wanted).max()


def test_our_folder_opens_there(tmp_path: Path) -> None:
    model = models.build("wiola", seed=1, **SHAPE).eval()
    rng = np.random.default_rng(1)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data = parameter.data + rng.normal(0, 0.2, parameter.shape).astype(np.float32)
    model.save(tmp_path)
    theirs = wiola.WiolaForCausalLM.from_pretrained(tmp_path).eval()
    with torch.no_grad():
        assert_same(model(IDS).data, theirs(torch.tensor(IDS)).logits.numpy())
    prompt = IDS[0, :5].tolist()
    ours = list(stream(model, prompt, tokens=20, temperature=0, end_ids=()))
    written = theirs.generate(
        torch.tensor([prompt]), max_new_tokens=20, do_sample=False, eos_token_id=None, use_cache=False
    )
    assert ours == written[0, 5:].tolist()


def test_their_folder_opens_here(tmp_path: Path) -> None:
    torch.manual_seed(0)
    config = wiola.WiolaConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        dsff_narrow_size=16,
        dsff_wide_size=48,
        initializer_range=0.2,
    )
    theirs = wiola.WiolaForCausalLM(config).eval()
    # The package's own save_pretrained fails, so config and tensors are written one by one, as the release has them.
    config.to_json_file(tmp_path / "config.json")
    weights = {name: tensor.numpy() for name, tensor in theirs.state_dict().items() if name != "lm_head.weight"}
    save_tensors(tmp_path / "model.safetensors", weights)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["model_type"] == "wiola"
    with torch.no_grad():
        assert_same(models.load(tmp_path).eval()(IDS).data, theirs(torch.tensor(IDS)).logits.numpy())
