"""GPT-2: parameter counts, published names, and the model's equations in plain NumPy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import models
from minigrad import InputError
from minigrad.formats.gguf.network import read_network
from minigrad.formats.json_files import read_json
from minigrad.formats.safetensors import save_tensors
from tests.models.tiny import CONTEXT, VOCAB, build, tokens

Array = NDArray[Any]

COUNTS = {"300m": 355_871_744, "124m": 124_439_808, "medium": 354_823_168, "large": 774_030_080}


@pytest.mark.parametrize("size", COUNTS)
def test_exact_counts(size: str) -> None:
    assert models.count("gpt2", size) == COUNTS[size]


def test_names_and_shapes_of_the_published_checkpoints() -> None:
    shapes = {name: parameter.shape for name, parameter in models.skeleton("gpt2", "124m").named_parameters()}
    layer = {
        "ln_1.weight": (768,),
        "ln_1.bias": (768,),
        "attn.c_attn.weight": (768, 2_304),
        "attn.c_attn.bias": (2_304,),
        "attn.c_proj.weight": (768, 768),
        "attn.c_proj.bias": (768,),
        "ln_2.weight": (768,),
        "ln_2.bias": (768,),
        "mlp.c_fc.weight": (768, 3_072),
        "mlp.c_fc.bias": (3_072,),
        "mlp.c_proj.weight": (3_072, 768),
        "mlp.c_proj.bias": (768,),
    }
    wanted = {"wte.weight": (50_257, 768), "wpe.weight": (1_024, 768), "ln_f.weight": (768,), "ln_f.bias": (768,)}
    wanted |= {f"h.{n}.{name}": shape for n in range(12) for name, shape in layer.items()}
    assert shapes == wanted


def norm(x: Array, weight: Array, bias: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias


def rotated(x: Array, theta: float | None) -> Array:
    """Rotate the pairs (j, j + D/2) of a head (T, D) by p theta^(-2j/D); without theta, not at all."""
    if theta is None:
        return x
    half = x.shape[1] // 2
    angles = np.outer(np.arange(len(x)), theta ** (-np.arange(half) / half))
    turned = (x[:, :half] + 1j * x[:, half:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=1)


def reference(ids: Array, w: dict[str, Array], num_layers: int, num_heads: int, theta: float | None = None) -> Array:
    x = w["wte.weight"][ids] + (w["wpe.weight"][: len(ids)] if theta is None else 0)
    size = x.shape[1] // num_heads
    for n in range(num_layers):
        p = {name.removeprefix(f"h.{n}."): array for name, array in w.items() if name.startswith(f"h.{n}.")}
        normed = norm(x, p["ln_1.weight"], p["ln_1.bias"])
        q, k, v = np.split(normed @ p["attn.c_attn.weight"] + p["attn.c_attn.bias"], 3, axis=1)
        heads = []
        for h in range(num_heads):
            part = slice(h * size, (h + 1) * size)
            products = rotated(q[:, part], theta) @ rotated(k[:, part], theta).T
            scores = np.where(np.tri(len(ids)) > 0, products / math.sqrt(size), -np.inf)
            e = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(e / e.sum(-1, keepdims=True) @ v[:, part])
        x = x + np.concatenate(heads, axis=1) @ p["attn.c_proj.weight"] + p["attn.c_proj.bias"]
        hidden = norm(x, p["ln_2.weight"], p["ln_2.bias"]) @ p["mlp.c_fc.weight"] + p["mlp.c_fc.bias"]
        activated = hidden / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))
        x = x + activated @ p["mlp.c_proj.weight"] + p["mlp.c_proj.bias"]
    return norm(x, w["ln_f.weight"], w["ln_f.bias"]) @ w["wte.weight"].T


@pytest.mark.parametrize("theta", [None, 50.0])
def test_the_model_is_its_equations(theta: float | None) -> None:
    model, ids = build("gpt2", "float64", rope_theta=theta).eval(), tokens(0, 1, CONTEXT)
    rng = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data = parameter.data + rng.normal(0, 0.1, parameter.shape)  # initial biases are zero
    wanted = reference(ids[0], model.state_dict(), 2, 3, theta)
    np.testing.assert_allclose(model(ids).data[0], wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())


def test_matrices_into_the_residual_stream_have_a_smaller_initial_std() -> None:
    state = models.build("gpt2", "nano").state_dict()
    assert state["h.0.attn.c_attn.weight"].std() == pytest.approx(0.0506, rel=0.05)
    for name in ("attn", "mlp"):
        assert state[f"h.0.{name}.c_proj.weight"].std() == pytest.approx(0.0506 / math.sqrt(12), rel=0.05)


def test_dropout_acts_on_attention_probabilities() -> None:
    model: Any = build("gpt2", dropout=0.5).train()
    for module in (model.drop, *(m for b in model.h for m in (b.attn.resid_dropout, b.mlp.dropout))):
        module.probability = 0.0
    ids = tokens(0, 1, 8)
    assert (model(ids).data != model.eval()(ids).data).any()


def test_an_old_weight_file_is_read(tmp_path: Path) -> None:
    """It has names with a prefix, causal masks among the weights, and a copy of the tied head."""
    model = build("gpt2")
    model.save(tmp_path)
    weights = {f"transformer.{name}": array for name, array in model.state_dict().items()}
    masks = {f"transformer.h.{n}.attn.{kind}": np.ones((1, 1, 4, 4), np.float32) for n in (0, 1) for kind in ("bias",)}
    masks |= {f"transformer.h.{n}.attn.masked_bias": np.array(-1e4, np.float32) for n in (0, 1)}
    head = {"lm_head.weight": model.head().data.copy()}
    save_tensors(tmp_path / "model.safetensors", weights | masks | head)
    ids = tokens(0, 1, 5)
    assert models.load(tmp_path).eval()(ids).data.tobytes() == model.eval()(ids).data.tobytes()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"activation_function": "relu"}, "activation_function = 'relu'; this family needs 'gelu_new'"),
        ({"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx = True"),
        ({"n_positions": 7}, "wpe.weight is .*should be"),
        ({"n_layer": 3}, "missing: h.2"),
        ({"vocab_size": "many"}, "describes no gpt2 that can be built here: vocab_size"),
    ],
)
def test_a_folder_of_another_variant_is_refused(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    build("gpt2").save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        models.load(tmp_path)


def test_rotary_positions_replace_the_table_and_no_other_program_takes_the_model_for_a_gpt2(tmp_path: Path) -> None:
    fewer = models.count("gpt2", "300m") - models.count("gpt2", "300m", rope_theta=10_000.0)
    assert fewer == 2_048 * 1_024
    model = build("gpt2-rotary")
    model.save(tmp_path)
    values = read_json(tmp_path / "config.json")
    assert (values["model_type"], values["architectures"]) == ("gpt2-rotary", ["GPT2RotaryForCausalLM"])
    longer = models.load(tmp_path, context_length=2 * CONTEXT)
    assert longer(tokens(0, 1, 2 * CONTEXT)).shape[1] == 2 * CONTEXT
    with pytest.raises(InputError, match=r"of model_type 'gpt2-rotary', which llama\.cpp cannot run"):
        read_network(tmp_path)
    with pytest.raises(InputError, match="width / num_heads must be even with a rope_theta; it is 3"):
        build("gpt2", num_heads=4, rope_theta=50.0)


def test_shapes_that_cannot_be_built_are_refused() -> None:
    with pytest.raises(InputError, match=r"width \(90\) must be a multiple of num_heads \(4\)"):
        models.build("gpt2", "nano", num_heads=4)
    with pytest.raises(InputError, match="num_layers takes a whole number of at least 1 and at most 10,000, not 0"):
        models.build("gpt2", "nano", num_layers=0)
    assert models.configure("gpt2").vocab_size > VOCAB
