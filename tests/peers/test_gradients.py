"""Whole models: the loss and the gradient of every parameter equal PyTorch's for the same weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minigrad.constants import IGNORE
from minigrad.kernels.gemm import backend as products
from minigrad.nn import Layout
from minigrad.nn.language_model import LanguageModel
from minigrad.typing import Array
from tests.models.tiny import VOCAB, build

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]
torch = pytest.importorskip("torch")
families = pytest.importorskip("tests.peers.torch_families")

STRETCHED = {
    "key_shift": False,
    "value_residual": False,
    "rope_theta": 100.0,
    "rope_factor": 2.0,
    "rope_original_context": 12,
}
EXPERTS = {"experts": 3, "experts_per_token": 2, "expert_balance": 0.5}
MERGING = {"atm_threshold": 0.5}

# Every kind of model; the second group chooses by comparing floats: keys, blocks, experts or neighbours.
SMOOTH: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2": ("gpt2", {}),
    "gpt2 with a head of its own": ("gpt2", {"tied_head": False}),
    "gpt2 with rotary positions": ("gpt2", {"rope_theta": 100.0}),
    "vidya-v1": ("vidya-v1", {}),
    "vidya-v2": ("vidya-v2", {"key_shift": False, "value_residual": False}),
    "vidya-v2 with shifted keys": ("vidya-v2", {}),
    **{f"vidya-v2 with {kind}": ("vidya-v2", STRETCHED | {"rope_scaling": kind}) for kind in ("linear", "ntk", "yarn")},
    **{f"vsla {kind}": ("vsla", {"patterns": kind}) for kind in ("full", "local", "pyramid")},
    "wiola": ("wiola", {"atm": "off"}),
    "wiola with interleaved groups": ("wiola", {"atm": "off", "gqa_layout": "interleaved"}),
    "wiola whose summaries leak": ("wiola", {"atm": "off", "gcla_summary": "paper"}),
}
CHOOSING: dict[str, tuple[str, dict[str, Any]]] = {
    "gpt2 with experts": ("gpt2", EXPERTS),
    "vidya-v2 with experts": ("vidya-v2", EXPERTS),
    "vidya-v2 with one expert each": ("vidya-v2", EXPERTS | {"experts_per_token": 1}),
    **{f"vsla {kind}": ("vsla", {"patterns": kind}) for kind in ("sparse", "adaptive", "learned")},
    "vsla with all patterns": ("vsla", {}),
    **{f"wiola {atm}": ("wiola", MERGING | {"atm": atm}) for atm in ("first", "avg_causal", "kv_only", "paper")},
}
CASES = SMOOTH | CHOOSING
LENGTHS = {"packed": (9, 1, 14, 6), "rectangular": (12, 12)}


def drawn(name: str, dtype: str) -> LanguageModel:
    """Build a model whose norms and biases are not the initial ones."""
    family, changes = CASES[name]
    model, rng = build(family, dtype, **changes), np.random.default_rng(7)
    for parameter in model.parameters():
        if parameter.ndim < 2:
            parameter.data = parameter.data + rng.normal(0, 0.3, parameter.shape)
    return model


def texts_of(lengths: tuple[int, ...]) -> list[tuple[Array, Array]]:
    """Draw tokens, some equal to the one before, and their targets, of which some do not count."""
    rng, texts = np.random.default_rng(0), []
    for length in lengths:
        ids = np.repeat(rng.integers(0, VOCAB, length), rng.integers(1, 3, length))[:length]
        texts.append((ids, np.where(rng.random(length) < 0.2, IGNORE, rng.integers(0, VOCAB, length))))
    return texts


def ours(model: LanguageModel, texts: list[tuple[Array, Array]]) -> tuple[float, dict[str, Array]]:
    """Return the loss and the gradients of packed texts, or of a batch of equally long ones."""
    lengths = [len(ids) for ids, _ in texts]
    if len(set(lengths)) == 1:
        loss = model.loss(*(np.stack(each) for each in zip(*texts, strict=True)))
    else:
        ids, targets = (np.concatenate(each) for each in zip(*texts, strict=True))
        loss = model.loss(ids, targets, layout=Layout.packed(lengths))
    model.zero_grad()
    loss.backward()
    return loss.item(), {name: np.array(each.grad) for name, each in model.named_parameters()}


def theirs(
    model: LanguageModel, texts: list[tuple[Array, Array]], dtype: str, autocast: bool = False
) -> tuple[float, dict[str, Array]]:
    """Return what PyTorch computes of the same weights."""
    weights = {
        name: torch.tensor(array, dtype=getattr(torch, dtype), requires_grad=True)
        for name, array in model.state_dict().items()
    }
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        given = [tuple(map(torch.tensor, text)) for text in texts]
        value = families.loss(model.config, weights, given, merges=model.training)
    value.backward()
    # Where PyTorch has no gradient, a parameter takes no part.
    gradients = {n: np.zeros(w.shape) if w.grad is None else w.grad.numpy() for n, w in weights.items()}
    return value.item(), gradients


def check(
    found: tuple[float, dict[str, Array]],
    wanted: tuple[float, dict[str, Array]],
    tolerance: float,
    rounded: dict[str, Array] | None = None,
) -> None:
    """Compare loss and gradients; differences are relative to the largest element of a parameter's gradient.

    A gradient that is the small sum of large terms is less precise than that: there, four times the error of `rounded`,
    what PyTorch computes in the same precision, is allowed too.
    """
    assert found[0] == pytest.approx(wanted[0], rel=tolerance)
    assert found[1].keys() == wanted[1].keys()
    largest = max(np.abs(each).max() for each in wanted[1].values())
    for name, gradient in wanted[1].items():
        allowed = tolerance * max(np.abs(gradient).max(), 1e-3 * largest)
        if rounded is not None:
            allowed = max(allowed, 4 * np.abs(rounded[name] - gradient).max())
        assert np.abs(found[1][name] - gradient).max() <= allowed, name


@pytest.mark.parametrize("recomputed", [False, True])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("name", CASES)
def test_gradients_in_float64(name: str, lengths: str, recomputed: bool) -> None:
    model, texts = drawn(name, "float64"), texts_of(LENGTHS[lengths])
    model.recompute_layers(recomputed)
    check(ours(model, texts), theirs(model, texts, "float64"), 1e-9)


@pytest.mark.parametrize("name", CASES)
def test_gradients_in_float32(name: str) -> None:
    model, texts = drawn(name, "float32"), texts_of(LENGTHS["packed"])
    check(ours(model, texts), theirs(model, texts, "float64"), 1e-4, rounded=theirs(model, texts, "float32")[1])


@pytest.mark.parametrize(
    "name", ["vsla adaptive", *(f"wiola {atm}" for atm in ("first", "avg_causal", "kv_only", "paper"))]
)
def test_the_texts_make_models_choose(name: str) -> None:
    """Some rows see far keys or merge, and some do not, so that both sides of each choice are compared."""
    model = drawn(name, "float64")
    ours(model, texts_of(LENGTHS["packed"]))
    (shares,) = model.measurements().values()
    assert all(0 < share < 1 for share in shares)


@pytest.mark.parametrize(
    ("name", "dtype", "tolerance"),
    [
        ("gpt2", "float64", 1e-9),
        ("gpt2 with a head of its own", "float64", 1e-9),
        # Their Llama computes norms and angles in float32, whatever the dtype.
        ("vidya-v2", "float32", 1e-4),
        ("vidya-v2 with linear", "float32", 1e-4),
        ("vidya-v2 with yarn", "float32", 1e-4),
    ],
)
def test_gradients_in_transformers(name: str, dtype: str, tolerance: float, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    model, texts = drawn(name, dtype), texts_of(LENGTHS["rectangular"])
    model.save(tmp_path)
    other = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=getattr(torch, dtype)).eval()
    other.get_input_embeddings().padding_idx = None  # which would keep the gradient from the row of the padding token
    ids, targets = (torch.tensor(np.stack(each)) for each in zip(*texts, strict=True))
    logits = other(ids).logits
    value = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
    value.backward()
    named = {name.removeprefix(model.published_prefix): each for name, each in other.named_parameters()}
    check(ours(model, texts), (value.item(), {name: each.grad.numpy() for name, each in named.items()}), tolerance)


def distance(found: dict[str, Array], wanted: dict[str, Array]) -> float:
    """Return the length of the difference of two gradients, relative to that of the second."""
    found_all, wanted_all = (np.concatenate([each[name].reshape(-1) for name in wanted]) for each in (found, wanted))
    return float(np.linalg.norm(found_all - wanted_all) / np.linalg.norm(wanted_all))


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_in_bfloat16_are_about_as_exact_as_theirs(name: str) -> None:
    """Compared with float64, their own bfloat16 (torch.autocast) may be at most twice as exact."""
    model, texts = drawn(name, "float32"), texts_of(LENGTHS["packed"])
    wanted_loss, wanted = theirs(model, texts, "float64")
    _, rounded = theirs(model, texts, "float32", autocast=True)
    before = products.in_use()
    products.use(precision="bfloat16")
    try:
        found_loss, found = ours(model, texts)
    finally:
        products.use(*before)
    assert found_loss == pytest.approx(wanted_loss, rel=0.01)
    assert 0 < distance(found, wanted) <= 2 * distance(rounded, wanted)
