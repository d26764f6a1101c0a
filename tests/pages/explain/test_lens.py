"""The logit lens ends with the model's own logits."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from minigrad import Tensor, no_grad, ops
from minigrad.pages.explain.lens import Lens, agreement, last_logits, lens_table, logit_lens
from minigrad.pages.explain.tokens import TokenNames
from minigrad.pages.explain.trace import trace


def test_the_last_layer_gives_the_models_logits(model, text):
    found = trace(model, text)
    with no_grad():
        logits = model.eval()([text]).data[0]
    np.testing.assert_allclose(last_logits(model, found), logits, rtol=0, atol=1e-5)
    lens = logit_lens(model, found)
    p = np.exp(logits.astype(np.float64))
    p /= p.sum(axis=1, keepdims=True)
    assert lens.tokens.shape == lens.probabilities.shape == (model.config.num_layers + 1, len(text))
    assert lens.tokens[-1].tolist() == p.argmax(axis=1).tolist()
    np.testing.assert_allclose(lens.probabilities[-1], p.max(axis=1), rtol=1e-4)


def test_an_earlier_layer_gives_what_a_model_of_fewer_layers_would_say(small, text):
    model = small("gpt2")
    lens = logit_lens(model, trace(model, text))
    layers, config = model.h, model.config
    model.h, model.config = layers[:2], replace(config, num_layers=2)
    try:
        with no_grad():
            logits = model.eval()([text]).data[0]
    finally:
        model.h, model.config = layers, config
    assert lens.tokens[2].tolist() == logits.argmax(axis=1).tolist()


def test_the_newest_places_alone(small, text):
    model = small("vidya-v2")
    found = trace(model, text)
    whole, part = logit_lens(model, found), logit_lens(model, found, first=20)
    assert part.tokens.tolist() == whole.tokens[:, 20:].tolist()
    np.testing.assert_allclose(part.probabilities, whole.probabilities[:, 20:], rtol=1e-5)


def test_more_rows_than_are_computed_at_once(small, monkeypatch, text):
    model = small("vidya-v2")
    found = trace(model, text)
    whole = last_logits(model, found)
    monkeypatch.setattr("minigrad.pages.explain.lens._ROWS_AT_ONCE", 4)
    np.testing.assert_allclose(last_logits(model, found), whole, rtol=0, atol=1e-5)
    with no_grad():
        rows = found.after[0](Tensor(found.stream[-1]))
        np.testing.assert_array_equal(ops.linear(rows, model.head()).data, whole)


def test_the_final_answer_is_bold_wherever_a_layer_gives_it(tok):
    a, b, c = tok.encode("abc")
    lens = Lens(np.array([[a, a], [b, a], [b, c]]), np.array([[0.125, 0.5], [0.25, 0.75], [1.0, 0.004]]))
    table = lens_table(lens, [c, c], 40, TokenNames(tok))
    assert re.findall(r"<th scope=col>([^<]+)", table) == ["having read", "embedding", "layer 1", "layer 2"]
    cells = re.findall(r'<td style="--p:([\d.]+)">(.*?)<small>(.*?)</small>', table)
    assert cells == [
        ("0.12", "a", "12%"), ("0.25", "<b>b</b>", "25%"), ("1.00", "<b>b</b>", "100%"),
        ("0.50", "a", "50%"), ("0.75", "a", "75%"), ("0.00", "<b>c</b>", "0.40%"),
    ]  # fmt: skip
    assert re.findall(r"<i>(\d+)</i> c", table) == ["40", "41"]


def test_the_agreement_with_the_last_layer_is_drawn():
    lens = Lens(np.array([[1, 2], [1, 3], [1, 3]]), np.ones((3, 2)))
    assert agreement(lens).count("<circle") == 3
