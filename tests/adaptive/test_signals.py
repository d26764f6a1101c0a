"""What a longer view tells, measured and against a plain computation."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from minigrad import no_grad
from minigrad.adaptive import signals
from minigrad.adaptive.signals import measure
from minigrad.autograd import observers
from minigrad.nn import Layout
from minigrad.nn.language_model import LanguageModel
from minigrad.ops.attention import relative_entropy, relative_entropy_formula
from minigrad.ops.softmax import log_softmax_formula
from minigrad.quantised import quantise
from tests.models import tiny
from tests.models.wiola import tiny as wiola


def packed(*lengths: int) -> tuple[np.ndarray, np.ndarray, Layout]:
    ids = tiny.tokens(0, 1, sum(lengths) + 1)[0]
    return ids[:-1], ids[1:], Layout.packed(lengths)


def plainly(model: LanguageModel, ids: np.ndarray, targets: np.ndarray, hidden: int) -> tuple[float, float]:
    """Return loss and entropy of the targets after the first `hidden` tokens, summed."""
    with no_grad():
        log_p = log_softmax_formula(model([ids]).data[0].astype(np.float64))[-len(targets) + hidden :]
    wanted = targets[hidden:]
    return -log_p[np.arange(len(wanted)), wanted].sum(), -(np.exp(log_p) * log_p).sum()


@pytest.mark.parametrize("family", tiny.TINY)
@pytest.mark.parametrize("chunk", [4, signals._CHUNK])
def test_every_family_is_measured_on_the_second_halves_of_the_long_sequences(
    monkeypatch: pytest.MonkeyPatch, family: str, chunk: int
) -> None:
    monkeypatch.setattr(signals, "_CHUNK", chunk)
    model = tiny.build(family, dropout=0.5)
    ids, targets, layout = packed(5, 12, 4, 9)
    found = measure(model, ids, targets, layout, view=12)
    assert found is not None
    assert model.training
    model.eval()
    whole, half = np.zeros(2), np.zeros(2)
    for first, length in ((5, 12), (21, 9)):  # 5 and 4 tokens are less than half of the view
        sequence, wanted, hidden = ids[first : first + length], targets[first : first + length], length // 2
        whole += plainly(model, sequence, wanted, hidden)
        half += plainly(model, sequence[hidden:], wanted[hidden:], 0)
    assert found.tokens == 6 + 5
    assert found.perplexity == pytest.approx(math.exp(whole[0] / 11), rel=1e-4)
    assert found.entropy == pytest.approx(whole[1] / 11, rel=1e-4)
    assert found.need == pytest.approx((1 - whole / half).mean(), abs=1e-4)
    assert 0 < found.diversity < 1
    assert not observers.active


def test_diversity_is_the_relative_entropy_of_attention() -> None:
    seen = []
    model = tiny.build("gpt2").eval()
    attend = type(model.h[0].attn).forward

    def note(self, x, *more):
        with no_grad():
            qkv = self.c_attn(x).data.reshape(len(x), 3, self.num_heads, -1)
        options = {"offsets": np.array([0, len(x)]), "key_ranges": np.array([[0, len(x)]])}
        seen.append(relative_entropy_formula(*qkv[:, :2].swapaxes(0, 1), **options, first_visible=[0] * len(x)))
        return attend(self, x, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(model.h[0].attn), "forward", note)
        found = measure(model, *packed(8), view=8)
    assert found is not None
    assert len(seen) == 4  # two layers, the whole and the nearer half
    whole, half = (np.mean([each[-3:] for each in layers]) for layers in (seen[:2], seen[2:]))  # not of the fifth token
    assert found.diversity == pytest.approx(whole, rel=1e-4)
    assert found.diversity_gain == pytest.approx(whole - half, abs=1e-5)


@pytest.mark.parametrize(("second_half", "merges"), [([3] * 6, True), ([1, 2, 4, 5, 6, 7], False)])
def test_the_gain_in_diversity_is_that_of_layers_whose_rows_are_tokens_in_both_passes(
    monkeypatch: pytest.MonkeyPatch, second_half: list[int], merges: bool
) -> None:
    model, seen = wiola.merging("float32", threshold=0.99), list[np.ndarray]()
    monkeypatch.setattr(signals, "relative_entropy", lambda *a, **b: seen.append(relative_entropy(*a, **b)) or seen[-1])
    ids = np.array([3] * 6 + second_half)
    found = measure(model, ids, ids, Layout.packed([12]), view=12)
    assert found is not None
    layers, merging = model.config.num_layers, model.config.merging_layers
    assert 0 < len(merging) < layers
    whole, half = ([each for each in seen if len(each) == rows] for rows in (12, 6))
    assert len(whole) == layers - len(merging)
    assert len(half) == (len(whole) if merges else layers)
    assert len(seen) == len(whole) + len(half)
    plain = half if merges else [each for number, each in enumerate(half) if number not in merging]
    before, after = (np.mean([each[-5:] for each in layers]) for layers in (whole, plain))
    assert found.diversity == pytest.approx(before, rel=1e-4)
    assert found.diversity_gain == pytest.approx(before - after, abs=1e-5)


@pytest.mark.parametrize("length", [4, 5, 8, 20])
def test_attention_to_all_keys_alike_gains_nothing_from_more_of_them(length: int) -> None:
    model = tiny.build("gpt2")
    for name, parameter in model.named_parameters():
        if "c_attn" in name:
            parameter.data[...] = 0
    found = measure(model, *packed(length, length), view=length)
    assert found is not None
    assert found.diversity == pytest.approx(1, abs=1e-6)
    assert found.diversity_gain == pytest.approx(0, abs=1e-6)


def test_a_half_of_one_token_shows_no_attention() -> None:
    found = measure(tiny.build("vidya-v2"), *packed(2), view=2)
    assert found is not None
    assert math.isnan(found.diversity)
    assert math.isnan(found.diversity_gain)


def test_a_model_that_ignores_the_past_needs_none() -> None:
    model = tiny.build("vidya-v2")
    for name, parameter in model.named_parameters():
        if "o_proj" in name:
            parameter.data[...] = 0
    found = measure(model, *packed(20), view=20)
    assert found is not None
    assert found.need == pytest.approx(0, abs=1e-6)


def test_of_many_sequences_the_first_are_read_and_of_short_ones_none() -> None:
    model = tiny.build("vidya-v2")
    found = measure(model, *packed(*[20] * 60), view=20)
    assert found is not None
    assert found.tokens == 51 * 10  # 1,020 tokens are read whole
    ids, targets, _ = packed(*[20] * 60)
    alone = measure(model, ids[:1_020], targets[:1_020], Layout.packed([20] * 51), view=20)
    assert alone is not None
    np.testing.assert_allclose(found, alone, atol=1e-6)
    assert measure(model, *packed(10, 3, 0), view=20) is None
    assert measure(model, *packed(1, 1), view=1) is None


def test_quantised_weights_are_measured_as_those_that_they_were_made_of() -> None:
    model = tiny.build("vidya-v2").eval()
    exact = measure(model, *packed(20), view=20)
    quantise(model, "float16")
    rounded = measure(model, *packed(20), view=20)
    assert exact is not None
    assert rounded is not None
    np.testing.assert_allclose(rounded, exact, atol=0.02)


def test_what_another_thread_computes_is_not_measured() -> None:
    model = tiny.build("vidya-v2").eval()
    ids = tiny.tokens(0, 1, 9)[0]
    alone = measure(model, ids[:-1], ids[1:], Layout.packed([8]), 8)

    def beside(name: str) -> None:
        if name == "attention" and threading.current_thread() is threading.main_thread():
            other = threading.Thread(target=lambda: model(ids[None]))
            other.start()
            other.join()

    class Starting(observers.Observer):
        @contextlib.contextmanager
        def forward(self, name: str, arrays: Any, options: Any) -> Iterator[Any]:
            beside(name)
            yield lambda result: result

    with observers.watch(Starting()):
        assert measure(model, ids[:-1], ids[1:], Layout.packed([8]), 8) == alone
