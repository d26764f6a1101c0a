"""Wiola: its counts, its equations, and that what the paper's text lets leak is closed, and shown where it is kept."""

from __future__ import annotations

import itertools
import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import models
from minigrad import InputError, nn, no_grad
from minigrad.formats.json_files import read_json
from minigrad.nn.language_model import LanguageModel
from models.wiola.attention import block_order
from models.wiola.config import CAUSAL
from tests.models.wiola import reference

Array = NDArray[Any]
VOCAB, CONTEXT = 17, 40
TINY: dict[str, Any] = {
    "vocab_size": VOCAB,
    "num_layers": 6,
    "width": 16,
    "num_heads": 4,
    "num_kv_heads": 2,
    "dsff_narrow": 8,
    "dsff_wide": 12,
    "context_length": CONTEXT,
    "gcla_gate_init": 0.0,  # half of every mixture comes from the layers below
    "init_std": 0.3,
}
COUNTS = {
    "120m": 147_297_804,
    "360m": 318_048_272,
    "700m": 1_068_518_424,
    "1.5b": 2_179_698_716,
    "120m-exact": 120_165_900,
    "360m-exact": 359_991_312,
    "700m-exact": 700_468_248,
    "1.5b-exact": 1_504_415_772,
}
TOLERANCE = {"float32": 1e-5, "float64": 1e-10}


def build(dtype: str = "float64", seed: int = 1, **changes: Any) -> LanguageModel:
    """Build a tiny model with offsets and gains that are not those of the beginning."""
    model = models.build("wiola", seed=seed, dtype=dtype, **(TINY | changes)).eval()
    rng = np.random.default_rng(seed)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data = parameter.data + rng.normal(0, 0.2, parameter.shape)
    return model


def repeated(seed: int, length: int) -> Array:
    """Draw a text (1, length) in which many tokens come twice: such neighbours merge."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.integers(0, VOCAB, length), rng.integers(1, 4, length))[None, :length]


def scores(model: LanguageModel, ids: Array, cache: Any = None) -> Array:
    with no_grad():
        result: Array = model(ids, cache=cache).data
    return result


def merging(dtype: str = "float64", variant: str = "first", threshold: float = 0.8, **changes: Any) -> LanguageModel:
    return build(dtype, atm=variant, atm_threshold=threshold, atm_at_generation=True, **changes)


def assume_rounding_decides_nothing(dtype: str, variant: str, ids: Array) -> None:
    """Leave out texts in which a cosine is so near the threshold that another order of adding could cross it."""
    low, high = (scores(merging(dtype, variant, threshold), ids) for threshold in (0.8 - 1e-4, 0.8 + 1e-4))
    assume((low == high).all())


def ratios(model: Any) -> list[float]:
    found: list[float] = model.measurements()["merge_ratio"]
    return found


@pytest.mark.parametrize("size", COUNTS)
def test_exact_counts(size: str) -> None:
    assert models.count("wiola", size) == COUNTS[size]


def test_the_released_file_has_exactly_these_names_and_shapes() -> None:
    """The size in bytes of the released 360m weights follows from names and shapes alone."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, parameter in sorted(models.skeleton("wiola", "360m").named_parameters()):
        size = 4 * int(np.prod(parameter.shape))
        header[name] = {"dtype": "F32", "shape": list(parameter.shape), "data_offsets": [position, position + size]}
        position += size
    text = json.dumps(header, separators=(",", ":"))
    padded = -(-len(text) // 8) * 8
    assert len(header) - 1 == 291
    assert len(struct.pack("<Q", padded)) + padded + position == 1_272_224_568


@given(seed=st.integers(0, 50), length=st.integers(1, 12), lookback=st.integers(1, 3))
@settings(max_examples=8)
def test_the_model_is_its_equations(seed: int, length: int, lookback: int) -> None:
    model, ids = build(gcla_lookback=lookback), repeated(seed, length)
    wanted, _ = reference.logits(ids[0], model.state_dict(), model.config)
    np.testing.assert_allclose(scores(model, ids)[0], wanted, rtol=0, atol=1e-10 * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize("variant", [*CAUSAL, "paper"])
@given(seed=st.integers(0, 50), length=st.integers(1, 14))
@settings(max_examples=8)
def test_merging_is_its_definition(variant: str, seed: int, length: int) -> None:
    model, ids = build(atm=variant, atm_threshold=0.8), repeated(seed, length)
    model.train()
    wanted, counts = reference.logits(ids[0], model.state_dict(), model.config, variant)
    np.testing.assert_allclose(scores(model, ids)[0], wanted, rtol=0, atol=1e-10 * max(1, np.abs(wanted).max()))
    assert ratios(model) == pytest.approx([1 - count / length for count in counts])


@pytest.mark.parametrize("variant", CAUSAL)
@pytest.mark.parametrize("dtype", TOLERANCE)
@given(seed=st.integers(0, 99), length=st.integers(2, CONTEXT), data=st.data())
@settings(max_examples=12)
def test_merging_sees_no_later_token(variant: str, dtype: str, seed: int, length: int, data: st.DataObject) -> None:
    model, ids = merging(dtype, variant), repeated(seed, length)
    assume_rounding_decides_nothing(dtype, variant, ids)
    whole = scores(model, ids)
    part = data.draw(st.integers(1, length))
    tolerance = TOLERANCE[dtype] * max(1.0, float(np.abs(whole).max()))
    np.testing.assert_allclose(scores(model, ids[:, :part]), whole[:, :part], rtol=0, atol=tolerance)


@pytest.mark.parametrize("variant", CAUSAL)
@pytest.mark.parametrize("dtype", TOLERANCE)
@given(seed=st.integers(0, 99), chunks=st.lists(st.integers(1, 7), min_size=1, max_size=8))
@settings(max_examples=12)
def test_merging_works_while_writing(variant: str, dtype: str, seed: int, chunks: list[int]) -> None:
    model = merging(dtype, variant)
    length = min(sum(chunks), CONTEXT)
    ids = np.concatenate([repeated(seed, length), repeated(seed + 1, length)])
    assume_rounding_decides_nothing(dtype, variant, ids)
    whole = scores(model, ids)
    for sizes in (chunks, [1] * length):
        cache = model.new_cache(2, max_length=CONTEXT)
        cuts = np.cumsum([0, *sizes]).clip(max=length)
        parts = [scores(model, ids[:, a:b], cache) for a, b in itertools.pairwise(cuts) if a < b]
        tolerance = TOLERANCE[dtype] * max(1.0, float(np.abs(whole).max()))
        np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=tolerance)


@pytest.mark.parametrize("variant", CAUSAL)
def test_no_tokens_leave_a_merging_cache_as_it_was(variant: str) -> None:
    model, ids = merging(variant=variant), repeated(1, 9)
    cache = model.new_cache(1, CONTEXT)
    parts = [scores(model, ids[:, a:b], cache) for a, b in ((0, 0), (0, 4), (4, 4), (4, 9))]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), scores(model, ids), rtol=0, atol=1e-10)
    assert scores(model, ids[:, :0]).shape == (1, 0, VOCAB)


@pytest.mark.parametrize("variant", CAUSAL)
def test_a_merging_cache_stores_fewer_keys_than_tokens(variant: str) -> None:
    model, ids = merging(variant=variant), repeated(3, CONTEXT)
    cache = model.new_cache(1, CONTEXT)
    scores(model, ids, cache)
    assert min(ratios(model)) > 0.1
    assert (cache.filled[[0, 1, 4, 5]] == CONTEXT).all()
    assert (cache.filled[2:4] < CONTEXT).all()


def leak(model: LanguageModel, ids: Array) -> float:
    """Return how far a change of the last token moves the scores before it."""
    changed = ids.copy()
    changed[0, -1] = (changed[0, -1] + 1) % VOCAB
    return float(np.abs(scores(model, ids)[:, :-1] - scores(model, changed)[:, :-1]).max())


def test_the_papers_summary_leaks_and_the_prefix_does_not() -> None:
    ids = repeated(0, 20)
    assert leak(build(gcla_summary="paper"), ids) > 1e-3
    assert leak(build(), ids) == 0


def test_the_papers_merging_leaks_and_the_causal_variants_do_not() -> None:
    leaks = {}
    for variant in (*CAUSAL, "paper"):
        model = build(atm=variant, atm_threshold=0.8)
        model.train()
        texts = [repeated(seed, 12) for seed in range(12)]
        scores(model, np.concatenate(texts))
        assert min(ratios(model)) > 0
        leaks[variant] = max(leak(model, ids) for ids in texts)
    assert leaks.pop("paper") > 1e-3
    # Not 0: other tokens may merge after a change, and BLAS rounds a row by how many rows there are beside it.
    assert max(leaks.values()) < 1e-13


def test_summaries_carry_far_without_losing_bits() -> None:
    """A counter of 8 bits would stop at 256 tokens."""
    model = build("float32", context_length=400)
    ids = np.random.default_rng(0).integers(0, VOCAB, (1, 400))
    whole, cache = scores(model, ids), model.new_cache(1, 400)
    parts = [scores(model, ids[:, t : t + 1], cache) for t in range(400)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=1e-5 * np.abs(whole).max())


def test_texts_of_different_lengths_do_not_touch_each_other() -> None:
    for variant in ("off", *CAUSAL):
        model = merging(variant=variant) if variant != "off" else build()
        texts = [repeated(seed, length)[0] for seed, length in ((0, 5), (1, 1), (2, 13))]
        offsets = np.cumsum([0, *map(len, texts)])
        layout = nn.Layout(offsets, np.concatenate([np.arange(len(text)) for text in texts]))
        together = model.hidden(np.concatenate(texts), layout).data
        for text, start, stop in zip(texts, offsets[:-1], offsets[1:], strict=True):
            alone = model.hidden(text, nn.Layout.rectangular(1, len(text))).data
            np.testing.assert_allclose(together[start:stop], alone, rtol=0, atol=1e-10)


def test_interleaved_heads_are_the_same_model_in_another_order() -> None:
    block, interleaved = build(), build(gqa_layout="interleaved")
    order = block_order(4, 2)
    columns = (order[:, None] * 4 + np.arange(4)).reshape(-1)  # heads of size 4
    weights = {}
    for name, array in interleaved.state_dict().items():
        if name.endswith(("q_proj.weight", "gate_proj.weight")):
            array = array[columns]
        elif name.endswith("o_proj.weight"):
            array = array[:, columns]
        weights[name] = array
    block.load_state_dict(weights)
    ids = repeated(4, 12)
    np.testing.assert_allclose(scores(block, ids), scores(interleaved, ids), rtol=0, atol=1e-12)
    block.load_state_dict(interleaved.state_dict())
    assert np.abs(scores(block, ids) - scores(interleaved, ids)).max() > 1e-2


def test_the_first_layer_ignores_the_blend_and_the_second_its_context_keys() -> None:
    model, ids = build(), repeated(5, 10)
    before = scores(model, ids)
    parameters = dict(model.named_parameters())
    for name, changes in (
        ("model.layers.0.attn.blend_logit", False),
        ("model.layers.0.attn.k_ctx_proj.weight", False),
        ("model.layers.1.attn.k_ctx_proj.weight", False),
        ("model.layers.1.attn.v_ctx_proj.weight", True),
        ("model.layers.2.attn.k_ctx_proj.weight", True),
    ):
        kept = parameters[name].data.copy()
        parameters[name].data = kept + 1
        assert (np.abs(scores(model, ids) - before).max() > 1e-9) == changes, name
        parameters[name].data = kept


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_heads": 3}, r"width \(80\) must be a multiple of num_heads \(3\)"),
        ({"num_heads": 4, "num_kv_heads": 3}, r"num_heads \(4\) must be a multiple of num_kv_heads \(3\)"),
        ({"width": 12, "num_heads": 4}, "must be even, because positions rotate pairs; it is 3"),
        ({"gcla_lookback": 0}, "gcla_lookback takes a whole number of at least 1, not 0"),
        ({"atm_threshold": 1.5}, "atm_threshold takes a finite number of at least -1 and at most 1, not 1.5"),
        ({"atm": "averag"}, "atm takes one of off, first, avg_causal, kv_only, paper"),
        ({"atm": "paper", "atm_at_generation": True}, "atm_at_generation needs atm to be one of first"),
        ({"gqa_layout": "blocks"}, "gqa_layout takes one of block, interleaved"),
        ({"gcla_summary": "mean"}, "gcla_summary takes one of prefix, paper"),
    ],
)
def test_shapes_that_cannot_be_built(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        models.build("wiola", "nano", **fields)


def test_the_papers_summary_cannot_write() -> None:
    model = build(gcla_summary="paper")
    with pytest.raises(InputError, match="cannot generate"):
        model(repeated(0, 4), cache=model.new_cache(1, 8))


def test_the_released_config_is_read(tmp_path: Path) -> None:
    """The released file lacks tie_word_embeddings and knows nothing of our own fields."""
    build("float32").save(tmp_path)
    config = read_json(tmp_path / "config.json")
    for key in ("tie_word_embeddings", "atm_variant", "atm_at_generation", "gcla_summary", "gqa_layout"):
        del config[key]
    (tmp_path / "config.json").write_text(json.dumps(config))
    loaded = models.load(tmp_path)
    assert (loaded.config.tied_head, loaded.config.atm, loaded.config.gqa_layout) == (True, "first", "block")
