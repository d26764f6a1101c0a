"""Vidya v2: parameter counts, published names, folders, and longer contexts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import models
from minigrad import InputError, Tensor, nn
from minigrad.formats.safetensors import save_tensors
from minigrad.formats.weights import read_weights
from minigrad.nn import rotary_settings
from models.vidya_v2 import SIZES, Block, VidyaV2Config
from tests.models.tiny import TOLERANCE, assert_same, change_config

Array = NDArray[Any]

COUNTS = {
    "nano": 975_072,
    "nano-32": 984_288,
    "micro": 4_753_344,
    "micro-32": 4_722_624,
    "mini": 14_753_952,
    "small": 40_913_280,
    "2.0": 124_635_456,
    "2.1": 213_366_528,
    "2.2": 325_690_560,
    "2.3": 576_794_880,
    "smollm2-135m": 134_515_008,
    "mobilellm-125m": 124_635_456,
}
VOCAB, CONTEXT = 13, 24
TINY: dict[str, Any] = {
    "vocab_size": VOCAB,
    "num_layers": 2,
    "width": 12,
    "num_heads": 4,
    "num_kv_heads": 2,
    "head_dim": 4,
    "feed_forward": 16,
    "context_length": CONTEXT,
    "init_std": 0.5,  # large, so that every non-linear mechanism has an effect
}
MODELS = {dtype: models.build("vidya-v2", dtype=dtype, **TINY).eval() for dtype in TOLERANCE}

both_types = pytest.mark.parametrize("dtype", TOLERANCE)


def tokens(draw_seed: int, batch_size: int, length: int) -> Array:
    return np.random.default_rng(draw_seed).integers(0, VOCAB, (batch_size, length))


def logits(dtype: str, ids: Array, cache: Any = None) -> Array:
    result: Array = MODELS[dtype](ids, cache=cache).data
    return result


@pytest.mark.parametrize("size", SIZES)
def test_exact_counts(size: str) -> None:
    assert models.count("vidya-v2", size) == COUNTS[size]


def test_the_count_is_that_of_the_built_model() -> None:
    assert MODELS["float32"].num_parameters() == models.count("vidya-v2", **TINY)
    built = models.build("vidya-v2", "nano")
    assert sum(array.size for array in built.state_dict().values()) == COUNTS["nano"]


def test_names_and_shapes_of_the_published_checkpoints() -> None:
    shapes = {name: array.shape for name, array in MODELS["float32"].state_dict().items()}
    layer = {
        "input_layernorm.weight": (12,),
        "self_attn.q_proj.weight": (16, 12),
        "self_attn.k_proj.weight": (8, 12),
        "self_attn.v_proj.weight": (8, 12),
        "self_attn.o_proj.weight": (12, 16),
        "post_attention_layernorm.weight": (12,),
        "mlp.gate_proj.weight": (16, 12),
        "mlp.up_proj.weight": (16, 12),
        "mlp.down_proj.weight": (12, 16),
    }
    wanted = {"model.embed_tokens.weight": (VOCAB, 12), "model.norm.weight": (12,)}
    wanted |= {f"model.layers.{n}.{name}": shape for n in (0, 1) for name, shape in layer.items()}
    assert shapes == wanted


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_layers": 0}, "num_layers takes a whole number of at least 1 and at most 10,000, not 0"),
        ({"vocab_size": -5}, "vocab_size takes a whole number of at least 1 and at most 16,777,216, not -5"),
        ({"num_heads": 4, "num_kv_heads": 3}, r"num_heads \(4\) must be a multiple of num_kv_heads \(3\)"),
        ({"head_dim": 5}, "head_dim must be even"),
    ],
)
def test_shapes_that_cannot_be_built_are_refused(fields: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        models.build("vidya-v2", "nano", **fields)


@both_types
def test_loaded_weights_are_those_that_were_saved(dtype: str, tmp_path: Path) -> None:
    model = models.build("vidya-v2", seed=5, **TINY)
    model.save(tmp_path / "run")
    loaded = models.load(tmp_path / "run", dtype=dtype)
    assert isinstance(loaded.config, VidyaV2Config)
    saved = {name: array.astype(dtype) for name, array in model.state_dict().items()}
    assert loaded.state_dict().keys() == saved.keys()
    for name, array in loaded.state_dict().items():
        assert array.dtype == dtype
        assert array.tobytes() == saved[name].tobytes(), name
    bases = {id(parameter.data.base) for parameter in loaded.parameters()}
    assert len(bases) == 1
    if dtype == "float32":
        ids = tokens(0, 2, 7)
        assert loaded(ids).data.tobytes() == model(ids).data.tobytes()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    models.build("vidya-v2", **TINY).save(tmp_path)
    return tmp_path


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        models.load(tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_missing_or_truncated_file_is_named(saved: Path, name: str) -> None:
    content = (saved / name).read_bytes()
    (saved / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=name):
        models.load(saved)
    (saved / name).unlink()
    with pytest.raises(InputError, match=r"config\.json|safetensors"):
        models.load(saved)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "bert"}, "model_type 'bert', in a form that no family here has"),
        ({"rope_parameters": {"rope_theta": 5e5, "rope_type": "llama3"}}, "here: rope_type = 'llama3'"),
        (
            {"rope_scaling": {"rope_type": "linear"}},
            "describes no vidya-v2 that can be built here: factor takes a finite number",
        ),
        ({"tie_word_embeddings": False}, r"missing: lm_head\.weight"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"hidden_size": "wide"}, "hidden_size"),
        ({"num_hidden_layers": 3}, r"layers\.2"),
        ({"intermediate_size": 17}, r"mlp"),
    ],
)
def test_a_folder_of_another_variant_is_refused(saved: Path, values: dict[str, Any], message: str) -> None:
    change_config(saved, **values)
    with pytest.raises(InputError, match=message):
        models.load(saved)


@pytest.mark.parametrize(
    "values",
    [
        {"rope_parameters": {"rope_theta": 777.0, "rope_type": "default"}},
        {"rope_parameters": {"rope_theta": 777.0}, "rope_scaling": None, "rope_theta": 1.0},
        {"rope_theta": 777.0, "rope_scaling": {"rope_type": "default"}},
    ],
)
def test_theta_is_read_from_older_and_newer_files(saved: Path, values: dict[str, Any]) -> None:
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    del config["rope_theta"]
    (saved / "config.json").write_text(json.dumps(config | values), encoding="utf-8")
    assert models.load(saved).config.rope_theta == 777.0


def test_a_head_of_its_own_has_its_own_gradient_and_is_saved(tmp_path: Path) -> None:
    model = models.build("vidya-v2", **TINY, tied_head=False)
    assert model.num_parameters() == MODELS["float32"].num_parameters() + VOCAB * 12
    assert model.head() is dict(model.named_parameters())["lm_head.weight"]
    ids = tokens(0, 2, 8)
    model.loss(ids[:, :-1], ids[:, 1:]).backward()
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert gradients["lm_head.weight"].shape == (VOCAB, 12)
    assert (gradients["lm_head.weight"] != 0).all()
    unread = np.setdiff1d(np.arange(VOCAB), ids[:, :-1])
    assert not gradients["model.embed_tokens.weight"][unread].any()
    model.save(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))["tie_word_embeddings"] is False
    loaded = models.load(tmp_path)
    assert loaded.config == model.config
    assert loaded(ids).data.tobytes() == model(ids).data.tobytes()


def test_a_llama_without_tie_word_embeddings_has_a_head_of_its_own(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text(encoding="utf-8"))
    del config["tie_word_embeddings"]
    (saved / "config.json").write_text(json.dumps(config), encoding="utf-8")
    weights = read_weights(saved)
    weights["lm_head.weight"] = -weights["model.embed_tokens.weight"]
    save_tensors(saved / "model.safetensors", weights)
    ids = tokens(0, 1, 9)
    np.testing.assert_allclose(models.load(saved)(ids).data, -logits("float32", ids), rtol=1e-6)


def test_the_frequencies_that_older_files_hold_are_not_weights(saved: Path) -> None:
    frequencies = {f"model.layers.{n}.self_attn.rotary_emb.inv_freq": np.ones(2, np.float32) for n in (0, 1)}
    save_tensors(saved / "model.safetensors", read_weights(saved) | frequencies)
    ids = tokens(0, 1, 9)
    np.testing.assert_allclose(models.load(saved)(ids).data, logits("float32", ids), rtol=1e-6)


@both_types
@pytest.mark.parametrize("kind", rotary_settings.SCALINGS)
def test_a_scaled_model_reads_longer_sequences_in_chunks_or_at_once(kind: str, dtype: str, tmp_path: Path) -> None:
    MODELS[dtype].save(tmp_path)
    with pytest.raises(InputError, match=f"more than the model's context of {CONTEXT}"):
        models.load(tmp_path)(tokens(0, 1, CONTEXT + 1))
    model = models.load(tmp_path, rope_scaling=kind, rope_factor=4.0)
    assert model.config.context_length == 4 * CONTEXT
    ids = tokens(1, 2, 4 * CONTEXT)
    whole = model(ids).data
    assert_same(dtype, model(ids[:, :50]).data, whole[:, :50])
    cache = model.new_cache(2)
    parts = [model(ids[:, a:b], cache=cache).data for a, b in ((0, 20), (20, 21), (21, 70), (70, 96))]
    assert_same(dtype, np.concatenate(parts, axis=1), whole)
    short = models.load(tmp_path)(ids[:, :CONTEXT]).data
    assert np.abs(short - whole[:, :CONTEXT]).max() > 0.01 * np.abs(short).max()
    model.save(tmp_path / "scaled")
    assert models.load(tmp_path / "scaled")(ids).data.tobytes() == whole.tobytes()


def test_half_precision_becomes_float32(saved: Path) -> None:
    halves = {name: array.astype(np.float16) for name, array in read_weights(saved).items()}
    save_tensors(saved / "model.safetensors", halves)
    change_config(saved, torch_dtype="float16")
    assert models.load(saved).head().dtype == np.float32


def test_a_config_without_its_settings_is_refused(saved: Path) -> None:
    (saved / "config.json").write_text('{"model_type": "llama"}', encoding="utf-8")
    with pytest.raises(InputError, match=r"config\.json"):
        models.load(saved)


def test_a_block_runs_without_a_cache() -> None:
    block, x = Block(SIZES["nano"]), Tensor(np.ones((3, 96), np.float32))
    assert block(x, nn.Layout.rectangular(1, 3), nn.RotaryAngles(48, 100.0)).shape == (3, 96)
