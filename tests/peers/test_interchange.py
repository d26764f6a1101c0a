"""Folders go both ways: what we write opens in transformers, what transformers writes opens here, and says the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
import tokenizer
from minigrad.formats.weights import read_weights
from minigrad.generation import stream

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

TEXT = "The list type is a mutable sequence.\n\n    It holds é, 中文 and emoji 🙂 too; see list.append().\n"
IDS = np.random.default_rng(0).integers(0, 96, (2, 20))
LLAMA: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
GPT2: dict[str, Any] = {
    "vocab_size": 96,
    "n_embd": 32,
    "n_layer": 2,
    "n_head": 4,
    "n_positions": 64,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
}


def theirs(folder: Path) -> Any:
    with torch.no_grad():
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        return model(torch.tensor(IDS)).logits.numpy()


def same(folder: Path, wanted: Any, tolerance: float = 1e-4) -> None:
    ours = models.load(folder).eval()(IDS).data
    assert np.abs(ours - wanted).max() <= tolerance * np.abs(wanted).max()


def written_by_transformers(kind: str, folder: Path, save: dict[str, Any] | None = None, **config: Any) -> Any:
    torch.manual_seed(0)
    made = {
        "llama": lambda: transformers.LlamaForCausalLM(transformers.LlamaConfig(**(LLAMA | config))),
        "gpt2": lambda: transformers.GPT2LMHeadModel(transformers.GPT2Config(**(GPT2 | config))),
    }[kind]()
    made.eval()
    made.save_pretrained(folder, **(save or {}))
    return made


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
@pytest.mark.parametrize("tied", [True, False])
def test_what_transformers_writes(kind: str, tied: bool, tmp_path: Path) -> None:
    written_by_transformers(kind, tmp_path, tie_word_embeddings=tied)
    body = {"llama": "model.", "gpt2": "transformer."}[kind]
    assert {name.startswith(body) for name in read_weights(tmp_path)} == ({True} if tied else {True, False})
    same(tmp_path, theirs(tmp_path))


@pytest.mark.parametrize(
    "settings",
    [
        {"rope_parameters": {"rope_type": "default", "rope_theta": 777.0}},
        {"rope_theta": 777.0},
        {"rope_theta": 777.0, "rope_scaling": None},
        {"rope_theta": 777.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
        {"rope_theta": 777.0, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}},
    ],
)
def test_positions_where_newer_and_older_files_have_them(settings: dict[str, Any], tmp_path: Path) -> None:
    written_by_transformers("llama", tmp_path)
    before = theirs(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    del config["rope_parameters"]
    (tmp_path / "config.json").write_text(json.dumps(config | settings), encoding="utf-8")
    wanted = theirs(tmp_path)
    assert np.abs(wanted - before).max() > 1e-3
    same(tmp_path, wanted)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_half_precision_and_shards(kind: str, dtype: str, tmp_path: Path) -> None:
    model = written_by_transformers(kind, tmp_path / "whole")
    model.to(getattr(torch, dtype)).save_pretrained(tmp_path / "parts", max_shard_size="20KB")
    assert len(list((tmp_path / "parts").glob("*.safetensors"))) > 1
    same(tmp_path / "parts", theirs(tmp_path / "parts"))


def test_the_body_of_a_gpt2_without_its_head(tmp_path: Path) -> None:
    """Saved without the head, names have no prefix, as in the published checkpoint."""
    model = written_by_transformers("gpt2", tmp_path / "whole")
    model.transformer.save_pretrained(tmp_path / "body")
    assert "wte.weight" in read_weights(tmp_path / "body")
    same(tmp_path / "body", theirs(tmp_path / "whole"))


@pytest.mark.parametrize("mask", ["float32", "bool", "uint8"])
def test_a_gpt2_with_causal_masks_among_its_weights(mask: str, tmp_path: Path) -> None:
    """As files have them that were written before transformers 4.30."""
    written_by_transformers("gpt2", tmp_path)
    safetensors = pytest.importorskip("safetensors.torch")
    weights = safetensors.load_file(tmp_path / "model.safetensors")
    for layer in range(2):
        masks = torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64).to(getattr(torch, mask))
        weights[f"transformer.h.{layer}.attn.bias"] = masks
        weights[f"transformer.h.{layer}.attn.masked_bias"] = torch.tensor(-1e4)
    wanted = theirs(tmp_path)
    safetensors.save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    same(tmp_path, wanted)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("gpt2", {}),
        ("gpt2", {"tied_head": False}),
        ("vidya-v2", {}),
        ("vidya-v2", {"tied_head": False}),
        ("vidya-v2", {"rope_scaling": "linear", "rope_factor": 2.0}),
        ("vidya-v2", {"rope_scaling": "yarn", "rope_factor": 4.0}),
        ("vidya-v2", {"rope_scaling": "ntk", "rope_factor": 4.0}),
    ],
)
def test_what_we_write(family: str, changes: dict[str, Any], tmp_path: Path) -> None:
    tok = tokenizer.train([TEXT * 20], vocab_size=300)
    shape = {"vocab_size": 300, "context_length": 64, "init_std": 0.3}
    if "rope_scaling" in changes:  # trained without, then stretched
        models.build(family, "nano", seed=3, **shape).save(tmp_path / "trained")
        model = models.load(tmp_path / "trained", **changes)
    else:
        model = models.build(family, "nano", seed=3, **shape, **changes)
    model.save(tmp_path / "run")
    tok.save(tmp_path / "run")
    same(tmp_path / "run", theirs(tmp_path / "run"))
    network = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run")
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "run")
    assert their_tokenizer(TEXT)["input_ids"] == tok.encode(TEXT)
    assert their_tokenizer.decode(tok.encode(TEXT)) == TEXT
    prompt = tok.encode("the list")
    written = network.generate(torch.tensor([prompt]), max_new_tokens=25, do_sample=False, eos_token_id=None)
    ours = list(stream(model, prompt, tokens=25, temperature=0, end_ids=()))
    assert ours == written[0, len(prompt) :].tolist()
    assert tok.decode(ours) == their_tokenizer.decode(ours)


def test_a_tokenizer_that_splits_digits(tmp_path: Path) -> None:
    """As SmolLM2's: single digits, then GPT-2's pattern."""
    tokenizers = pytest.importorskip("tokenizers")
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    pre = tokenizers.pre_tokenizers
    made.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False)])
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=340, special_tokens=["<|endoftext|>"], initial_alphabet=pre.ByteLevel.alphabet()
    )
    made.train_from_iterator(["a 1234 and 12 is 1246, 99 times\n"] * 20, trainer)
    made.save(str(tmp_path / "tokenizer.json"))
    ours = tokenizer.load(tmp_path / "tokenizer.json")
    for text in ("12 and 1234", "x1y22 333é\n\n 4", ""):
        assert ours.encode(text) == made.encode(text).ids
        assert ours.decode(ours.encode(text)) == text


def test_a_config_of_ours_says_what_theirs_says(tmp_path: Path) -> None:
    models.build("gpt2", "nano", vocab_size=300).save(tmp_path)
    config = transformers.AutoConfig.from_pretrained(tmp_path)
    said = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    for key in ("n_embd", "n_layer", "n_head", "n_inner", "n_positions", "activation_function", "layer_norm_epsilon"):
        assert getattr(config, key) == said[key]


def test_a_gpt2_with_rotary_positions_is_refused_and_not_misread(tmp_path: Path) -> None:
    models.build("gpt2", "nano", num_layers=1, vocab_size=96, rope_theta=10_000.0).save(tmp_path)
    with pytest.raises(ValueError, match="gpt2-rotary"):
        theirs(tmp_path)
