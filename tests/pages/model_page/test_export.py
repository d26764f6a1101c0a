"""The engine of the page computes the logits of Python's, for every family and every format of weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import models
from minigrad import InputError
from minigrad.generation import stream
from minigrad.nn.language_model import LanguageModel
from minigrad.pages.explain import attention_weights, logit_lens, trace
from minigrad.pages.explain.attention import ATTENTIONS
from minigrad.pages.model_page import export as module
from minigrad.pages.model_page.export import NAMES, export
from minigrad.pages.model_page.scripts import ENGINE, joined
from minigrad.programs.decoder import Decoder
from minigrad.quantised import quantise
from tests.models.tiny import WITH_PROGRAM, build, tokens
from tests.programs.own_family import Own, OwnConfig

READ = """
const machine = new Machine(given.table, file, given.plain);
return given.ids.map((id) => Array.from(machine.read(id)));
"""


def logits_of(model: LanguageModel, ids: Any) -> Any:
    cache, decoder = model.new_cache(1, len(ids)), Decoder(model)
    return np.array([decoder.step([token], cache)[0] for token in ids])


def formed(family: str, format: str) -> LanguageModel:
    model = build(family).eval()
    if format != "float32":
        quantise(model, format)
    return model


@pytest.mark.parametrize("family", WITH_PROGRAM)
@pytest.mark.parametrize("format", ["float32", "float16", "bfloat16", "int8", "int4"])
def test_the_page_computes_the_logits_of_python(run: Any, family: str, format: str) -> None:
    model, ids = formed(family, format), tokens(0, 1, 24)[0].tolist()
    table, file = export(model)
    expected = logits_of(model, ids)
    found = run(READ, file, table=table, ids=ids, plain=format == "float32")
    assert np.abs(np.array(found) - expected).max() <= 3e-5 * np.abs(expected).max()


OTHERS = {
    "yarn": lambda: build("vidya-v2", rope_scaling="yarn", rope_factor=4.0),
    "heads of a width that four does not divide": lambda: build("vidya-v2", key_shift=True, head_dim=10),
    "a head of its own": lambda: build("gpt2", tied_head=False),
    "a family of one's own": lambda: Own(OwnConfig()),
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_page_knows_no_family(run: Any, name: str) -> None:
    model, ids = OTHERS[name]().eval(), tokens(1, 1, 20)[0].tolist()
    table, file = export(model)
    expected = logits_of(model, ids)
    found = run(READ, file, table=table, ids=ids, plain=False)
    assert np.abs(np.array(found) - expected).max() <= 3e-5 * np.abs(expected).max()


@pytest.mark.parametrize("family", list(models.FAMILIES))
@pytest.mark.parametrize("format", ["float16", "int8"])
def test_a_page_of_a_nano_writes_what_python_writes(run: Any, family: str, format: str) -> None:
    model = models.build(family, "nano", vocab_size=300, context_length=128, seed=2)
    quantise(model, format)
    table, file = export(model)
    expected = [int(token) for token in stream(model, [5, 6, 7], temperature=0, tokens=200, end_ids=[])]
    found = run(
        """
        const reader = new Reader(new Machine(given.table, file)), all = Array(300).fill(true);
        reader.replace([5, 6, 7]);
        while (reader.ids.length < 203) {
          while (reader.isBehind) reader.next();
          reader.add(mostLikely(reader.logits, all));
        }
        return reader.ids.slice(3);
        """,
        file,
        table=table,
    )
    assert found == expected  # more than a context, so the last part is read again


@pytest.mark.parametrize("family", WITH_PROGRAM)
def test_a_text_that_changes_is_read_from_the_change_on(run: Any, family: str) -> None:
    model = build(family).eval()
    table, file = export(model)
    texts = [[1, 2, 3, 4, 5, 6, 7, 8], [1, 2, 3, 9, 9, 5], [1, 2, 3, 9, 9, 5, 1, 1, 1, 1, 1], [1, 2], [3, 2, 1]]
    found = run(
        """
        const reader = new Reader(new Machine(given.table, file));
        return given.texts.map((ids) => {
          reader.replace(ids);
          let count = 0;
          for (; reader.isBehind; count++) reader.next();
          return [count, Array.from(reader.logits), Array.from(reader.surprises, (each) => each ?? null)];
        });
        """,
        file,
        table=table,
        texts=texts,
    )
    for ids, (_, logits, surprises) in zip(texts, found, strict=True):
        expected = logits_of(model, ids)
        np.testing.assert_allclose(logits, expected[-1], atol=3e-5 * np.abs(expected).max())
        wide = expected.astype(np.float64)
        bits = [np.log2(np.exp(row - row[token]).sum()) for row, token in zip(wide, ids[1:], strict=False)]
        assert surprises[0] is None
        np.testing.assert_allclose(surprises[1:], bits, atol=1e-3)
    assert [count for count, _, _ in found] == [8, 4, 5, 1, 3]


@pytest.mark.parametrize("family", WITH_PROGRAM)
def test_a_look_inside_shows_what_the_pages_of_python_show(run: Any, family: str) -> None:
    model, ids = build(family).eval(), tokens(3, 1, 20)[0].tolist()
    table, file = export(model)
    looks = run(
        """
        const reader = new Reader(new Machine(given.table, file));
        reader.replace(given.ids);
        while (reader.isBehind) reader.next();
        return given.ids.map((_, place) => {
          const { logits, layers, attention } = reader.look(place), plain = (each) => Array.from(each);
          return { logits: plain(logits), layers: layers.map(plain), heads: attention.map((each) => each.map(plain)) };
        });
        """,
        file,
        table=table,
        ids=ids,
    )
    expected, found = logits_of(model, ids), trace(model, ids, ATTENTIONS)
    np.testing.assert_allclose([look["logits"] for look in looks], expected, atol=3e-5 * np.abs(expected).max())
    layers = np.array([look["layers"] for look in looks])  # (n, layers + 1, V)
    lens = logit_lens(model, found)
    np.testing.assert_array_equal(layers.argmax(axis=2).T, lens.tokens)
    shares = np.exp(layers - layers.max(axis=2, keepdims=True))
    np.testing.assert_allclose((1 / shares.sum(axis=2)).T, lens.probabilities, atol=1e-4)
    for layer in range(model.config.num_layers):
        weights = attention_weights(next(each for each in found.operations if each.layer == layer))
        for place, look in enumerate(looks):
            np.testing.assert_allclose(look["heads"][layer], weights[place][:, : place + 1], atol=1e-4)


def test_a_model_without_a_program_is_refused() -> None:
    with pytest.raises(InputError, match=r"this model has none: write with generate\.py"):
        export(build("vsla-learned"))


def test_what_is_too_large_for_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("vidya-v2")
    monkeypatch.setattr(module, "_MOST_STORED", 12 * module._bytes_of_a_token(module.program_of(model)))
    assert export(model)[0]["context"] == 12
    monkeypatch.setattr(module, "MOST_BYTES", 1_000)
    with pytest.raises(InputError, match="try --quantize int4"):
        export(model)


def test_every_step_has_a_name_in_the_engine() -> None:
    engine = joined(*ENGINE)
    assert all(f"\n  {name}" in engine for name in NAMES.values())
