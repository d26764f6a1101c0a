"""A stretched model says the same in transformers, and one stretched there says the same here."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]

SHAPE: dict[str, Any] = {"num_layers": 2, "vocab_size": 50, "context_length": 64, "init_std": 0.3, "rope_theta": 500.0}
WAYS = [
    {"rope_scaling": "linear", "rope_factor": 4.0},
    {"rope_scaling": "ntk", "rope_factor": 4.0},
    {"rope_scaling": "yarn", "rope_factor": 4.0},
    {"rope_scaling": "yarn", "rope_factor": 3.0, "rope_beta_fast": 4.0, "rope_beta_slow": 0.5},
    {"rope_scaling": "yarn", "rope_factor": 2.0, "rope_attention_factor": 1.3},
]


def assert_same(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    ids = np.random.default_rng(0).integers(0, 50, (2, 128))
    ours = models.load(folder)(ids).data
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        expected = theirs(torch.tensor(ids)).logits.numpy()
    assert np.abs(ours - expected).max() <= 1e-4 * np.abs(expected).max()


@pytest.mark.parametrize("tied_head", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_logits_of_a_stretched_model(tmp_path: Path, way: dict[str, Any], tied_head: bool) -> None:
    model = models.build("vidya-v2", "nano", seed=3, tied_head=tied_head, **SHAPE)
    model.save(tmp_path)
    models.load(tmp_path, **way).save(tmp_path)
    assert_same(tmp_path)


@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "linear", "factor": 4.0},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32},
        {"rope_type": "yarn", "factor": 2.0, "beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 0.9},
    ],
)
def test_logits_of_a_model_stretched_there(tmp_path: Path, rope: dict[str, Any], place: str) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=24,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=128,
        initializer_range=0.3,
        **{place: {"rope_theta": 700.0} | rope},
    )
    transformers.set_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path)
    saved = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert saved["rope_parameters"]["rope_type"] == rope["rope_type"]
    assert_same(tmp_path)
