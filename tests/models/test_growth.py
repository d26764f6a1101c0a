"""Growth: the output stays and all new weights receive a gradient; the published recipe keeps neither law."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import models
from minigrad import InputError, no_grad
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import AdamW
from models import growth
from models.vidya_v2 import SIZES, VidyaV2Config

Array = NDArray[Any]

VOCAB = 29
CHAIN = ("2.0", "2.1", "2.2", "2.3")
# In float32 other shapes change the order of sums, and these large random weights amplify the rounding errors.
TOLERANCE = {"float32": 2e-5, "float64": 1e-12}
both_types = pytest.mark.parametrize("dtype", TOLERANCE)


SMALL: dict[str, dict[str, int]] = {
    size: {
        "width": SIZES[size].width // 16,
        "num_heads": SIZES[size].num_heads,
        "num_kv_heads": SIZES[size].num_kv_heads,
        "feed_forward": SIZES[size].feed_forward // 16,
    }
    for size in CHAIN
}
"""The shapes of the sizes with the same heads and a 16th of the widths."""


def build(dtype: str = "float64", **changes: Any) -> LanguageModel:
    """Build a small 2.0 with large weights, norm weights that are not 1, and an eps that has an effect."""
    fields = {"vocab_size": VOCAB, "num_layers": 3, "head_dim": 4, "init_std": 0.4, "norm_eps": 1e-2}
    model = models.build("vidya-v2", "2.0", dtype=dtype, **(fields | SMALL["2.0"] | changes))
    rng = np.random.default_rng(7)
    for parameter in model.parameters():
        if parameter.ndim == 1:
            parameter.data = rng.uniform(0.5, 2.0, parameter.shape)
    return model


def grown(model: LanguageModel, folder: Path, seed: int = 0, **wider: int) -> LanguageModel:
    model.save(folder)
    return models.grow(folder, "2.0", seed, **wider) if wider else models.load(folder)


@pytest.fixture(autouse=True)
def _shallow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the sizes by the small ones."""
    for size in CHAIN:
        monkeypatch.setitem(SIZES, size, VidyaV2Config(num_layers=3, head_dim=4, init_std=0.4, **SMALL[size]))


def tokens(seed: int = 0, batch_size: int = 4, length: int = 20) -> Array:
    return np.random.default_rng(seed).integers(0, VOCAB, (batch_size, length))


def logits(model: LanguageModel) -> Array:
    with no_grad():
        return model(tokens()).data


def assert_same(dtype: str, got: Array, wanted: Array) -> None:
    allowed = TOLERANCE[dtype] * max(1.0, float(np.abs(wanted).max()))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=allowed)


@both_types
@pytest.mark.parametrize("tied_head", [True, False])
def test_the_output_stays_along_the_chain_of_sizes(dtype: str, tied_head: bool, tmp_path: Path) -> None:
    model = build(dtype, tied_head=tied_head)
    wanted = logits(model)
    for index, size in enumerate(CHAIN[1:]):
        model.save(tmp_path / str(index))
        model = models.grow(tmp_path / str(index), size, seed=index)
        assert {name: getattr(model.config, name) for name in growth.WIDTHS} == SMALL[size]
        assert model.config.vocab_size == VOCAB
        assert model.head().dtype == dtype
        assert_same(dtype, logits(model), wanted)
    model.save(tmp_path / "last")
    assert_same(dtype, logits(models.load(tmp_path / "last")), wanted)


@given(
    added=st.tuples(st.integers(0, 9), st.integers(0, 3), st.integers(0, 9)),
    ratio=st.integers(1, 3),
    tied_head=st.booleans(),
    scaling=st.sampled_from([{}, {"rope_scaling": "yarn", "rope_factor": 2.0}]),
    seed=st.integers(0, 99),
)
@settings(max_examples=25)
def test_any_allowed_widening_keeps_the_output(
    tmp_path_factory: pytest.TempPathFactory,
    added: tuple[int, int, int],
    ratio: int,
    tied_head: bool,
    scaling: dict[str, Any],
    seed: int,
) -> None:
    width, groups, feed_forward = added
    small = {"width": 5, "num_heads": 2 * ratio, "num_kv_heads": 2, "feed_forward": 7}
    wide = {
        "width": 5 + width,
        "num_heads": (2 + groups) * ratio,
        "num_kv_heads": 2 + groups,
        "feed_forward": 7 + feed_forward,
    }
    model = build(**small, tied_head=tied_head, **scaling)
    folder = tmp_path_factory.mktemp("run")
    if wide == small:
        model.save(folder)
        with pytest.raises(InputError, match="not wider"):
            models.grow(folder, "2.0", **wide)
    else:
        assert_same("float64", logits(grown(model, folder, seed, **wide)), logits(model))


def test_the_published_sizes_are_a_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    config = models.configure("vidya-v2", "2.0")
    for size in CHAIN[1:]:
        config = growth.widened(config, SIZES[size])
        assert models.count("vidya-v2", size, norm_eps=config.norm_eps) == models.count("vidya-v2", size)
    assert (config.width, config.num_heads, config.num_kv_heads) == (1_280, 21, 7)
    assert config.norm_eps == pytest.approx(1e-5 * 576 / 1_280)


def new_parts(small: LanguageModel, large: LanguageModel) -> dict[str, dict[str, tuple[slice, ...]]]:
    """Return the new parts of each matrix of the larger model: columns, rows, and the corner of both."""
    found = {}
    for (name, old), (_, new) in zip(small.named_parameters(), large.named_parameters(), strict=True):
        if new.ndim == 2:
            (rows, columns), (all_rows, all_columns) = old.shape, new.shape
            blocks = {
                "columns": (slice(rows), slice(columns, None)),
                "rows": (slice(rows, None), slice(columns)),
                "corner": (slice(rows, None), slice(columns, None)),
            }
            empty = {"columns": columns == all_columns, "rows": rows == all_rows}
            empty["corner"] = empty["columns"] or empty["rows"]
            found[name] = {block: where for block, where in blocks.items() if not empty[block]}
    return found


def gradients_of(model: LanguageModel) -> dict[str, Array]:
    model.zero_grad()
    ids = tokens(1)
    model.loss(ids[:, :-1], ids[:, 1:]).backward()
    return {name: p.grad.copy() for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("tied_head", [True, False])
def test_all_new_weights_receive_a_gradient(tied_head: bool, tmp_path: Path) -> None:
    small = build(tied_head=tied_head)
    model = grown(small, tmp_path, **SMALL["2.1"])
    blocks = new_parts(small, model)
    state = model.state_dict()
    gradients = gradients_of(model)
    seen, last = np.unique(tokens(1)[:, :-1]), "model.layers.2."
    for name, parts in blocks.items():
        for block, where in parts.items():
            zero = not state[name][where].any()
            assert zero == name.endswith(growth._WRITERS), f"{name} {block}"
            gradient = gradients[name][where]
            if "embed_tokens" in name:
                gradient = gradient[seen]
            # A tied head does not read the new elements yet, so the last layer's weights for them have no gradient yet.
            later = tied_head and name == f"{last}mlp.down_proj.weight" and block != "columns"
            if zero:
                assert (gradient != 0).mean() == (0 if later else 1), f"{name} {block}"
    optimizer = AdamW(model.parameters(), lr=1e-3, weight_decay=0.0)
    gradients_of(model)
    optimizer.step()
    gradients = gradients_of(model)
    for name, parts in blocks.items():
        for block, where in parts.items():
            gradient = gradients[name][where][seen] if "embed_tokens" in name else gradients[name][where]
            assert (gradient != 0).mean() > 0.99, f"{name} {block}"
    for name, gradient in gradients.items():
        if gradient.ndim == 1:
            assert (gradient != 0).all(), name


def widen_as_published(small: LanguageModel, large: LanguageModel) -> None:
    """Widen as Vidya's --expand-from does: zeros, new norm weights 1, new embedding columns drawn from N(0, 0.01)."""
    rng = np.random.default_rng(0)
    for (name, old), (_, new) in zip(small.named_parameters(), large.named_parameters(), strict=True):
        array = np.ones(new.shape) if new.ndim == 1 else np.zeros(new.shape)
        if "embed_tokens" in name:
            array = rng.normal(0, 0.01, new.shape)
        array[tuple(slice(length) for length in old.shape)] = old.data
        new.data = array


def test_the_published_recipe_changes_the_output_and_new_heads_and_units_get_no_gradient() -> None:
    small, large = build(norm_eps=1e-5), build(norm_eps=1e-5, **SMALL["2.1"])
    widen_as_published(small, large)
    before, after = logits(small), logits(large)
    assert np.abs(after - before).max() > 0.1 * np.abs(before).max()
    optimizer = AdamW(large.parameters(), lr=1e-3)
    for _ in range(3):
        gradients = gradients_of(large)
        heads, units = SMALL["2.0"]["num_heads"] * 4, SMALL["2.0"]["feed_forward"]
        groups = SMALL["2.0"]["num_kv_heads"] * 4
        for layer in range(3):
            attention, mlp = (f"model.layers.{layer}.{part}." for part in ("self_attn", "mlp"))
            assert not gradients[attention + "q_proj.weight"][heads:].any()
            assert not gradients[attention + "k_proj.weight"][groups:].any()
            assert not gradients[attention + "v_proj.weight"][groups:].any()
            assert not gradients[attention + "o_proj.weight"][:, heads:].any()
            assert not gradients[mlp + "gate_proj.weight"][units:].any()
            assert not gradients[mlp + "up_proj.weight"][units:].any()
            assert not gradients[mlp + "down_proj.weight"][:, units:].any()
        optimizer.step()


@pytest.mark.parametrize("tied_head", [True, False])
def test_widened_moments_are_those_of_the_grown_model(tied_head: bool, tmp_path: Path) -> None:
    small = build(tied_head=tied_head)
    large = grown(small, tmp_path, **SMALL["2.1"])

    def moments(model: LanguageModel) -> dict[str, Array]:
        optimizer = AdamW(model.parameters(), lr=0.0)
        for seed in range(3):
            ids = tokens(seed)
            optimizer.zero_grad()
            model.loss(ids[:, :-1], ids[:, 1:]).backward()
            optimizer.step()
        names = [name for name, _ in model.named_parameters()]
        pairs = zip(names, optimizer.moments(), strict=True)
        return {f"{name}.{kind}": array for name, pair in pairs for kind, array in zip("mv", pair, strict=True)}

    before, wanted = moments(small), moments(large)
    widened = growth.widen_moments(large, before, small.config.width)
    assert widened.keys() == wanted.keys()
    for name, array in widened.items():
        old = tuple(slice(length) for length in before[name].shape)
        np.testing.assert_allclose(array[old], wanted[name][old], rtol=1e-8, atol=1e-15, err_msg=name)
        rest = array.copy()
        rest[old] = 0
        assert not rest.any(), name


def test_new_weights_are_a_function_of_the_seed(tmp_path: Path) -> None:
    wider = SMALL["2.1"]
    first, same, other = (grown(build(), tmp_path, seed, **wider).state_dict() for seed in (1, 1, 2))
    name = "model.layers.1.mlp.up_proj.weight"
    np.testing.assert_array_equal(first[name], same[name])
    assert (first[name] != other[name])[:, 36:].all()
    assert first[name][:, 36:].std() == pytest.approx(0.4, rel=0.1)


@pytest.mark.parametrize(
    ("size", "wider", "message"),
    [
        ("2.1", {}, "width only: num_layers is 2, but the wanted size has 3"),
        ("2.0", {"num_heads": 12}, "9 query heads to 3 key/value heads, but the wanted size 12 to 3"),
        ("2.0", {"width": 20, "feed_forward": 50}, "narrower: width from 36 to 20, feed_forward from 96 to 50"),
        ("2.0", {}, "not wider"),
        ("2.0", {"rope_theta": 5.0}, "growing changes width, num_heads, num_kv_heads, feed_forward, not rope_theta"),
        ("nano", {}, "num_layers is 3, but the wanted size has 6"),
        ("2.9", {}, "unknown size of vidya-v2 '2.9'"),
    ],
)
def test_models_that_cannot_grow_are_refused(tmp_path: Path, size: str, wider: dict[str, Any], message: str) -> None:
    build(num_layers=2 if size == "2.1" else 3).save(tmp_path)
    with pytest.raises(InputError, match=message):
        models.grow(tmp_path, size, **wider)


def test_widths_need_no_named_size(tmp_path: Path) -> None:
    model = build(num_layers=2)
    model.save(tmp_path)
    for wider in (SMALL["2.1"], {"width": 40}):
        wide = models.grow(tmp_path, **wider)
        assert {name: getattr(wide.config, name) for name in wider} == wider
        assert_same("float64", logits(wide), logits(model))
    with pytest.raises(InputError, match="not wider"):
        models.grow(tmp_path)


def test_other_families_do_not_grow(tmp_path: Path) -> None:
    models.build("wiola", "nano", vocab_size=VOCAB).save(tmp_path)
    with pytest.raises(InputError, match="a model of wiola cannot grow; only vidya-v2 can"):
        models.grow(tmp_path, "micro")


def test_a_grown_model_is_recognised_by_its_new_size() -> None:
    config = models.configure("vidya-v2", "2.0", norm_eps=1e-3)
    for size in CHAIN[1:]:
        config = growth.widened(config, SIZES[size])
        found = models.start_from(config.published(), Path("run/config.json"), None, "auto")
        assert found[:2] == ("vidya-v2", size)


def test_the_fields_that_grow_are_described() -> None:
    wider = models.configure("vidya-v2", "2.1")
    described = growth.describe(models.configure("vidya-v2", "2.0"), wider)
    assert described == "width 36 to 48, num_heads 9 to 12, num_kv_heads 3 to 4, feed_forward 96 to 128"
    assert growth.describe(wider, wider) == ""
