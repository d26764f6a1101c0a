"""The scripts of the page: one after the other; and the sampler among them keeps the tokens that Python's keeps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad.generation.sampling import distribution
from minigrad.generation.settings import Sampling
from minigrad.pages.model_page.scripts import DRAWING, ENGINE, FOLDER, WRITING, joined


def test_every_script_is_known_and_none_can_end_its_tag() -> None:
    names = {*ENGINE, *WRITING, *DRAWING, "view", "chat", "start"}
    assert {path.stem for path in FOLDER.glob("*.js")} == names
    assert "</script" not in joined(*names)
    assert len(joined(*ENGINE).splitlines()) <= 600


SETTINGS = [
    {"temperature": 1.0, "top_p": None},
    {"temperature": 0.0},
    {"temperature": 0.7, "top_p": 0.9},
    {"temperature": 1.3, "top_k": 7, "top_p": None},
    {"temperature": 0.8, "top_k": 40, "top_p": 0.5, "min_p": 0.02},
    {"temperature": 2.0, "min_p": 0.3, "top_p": None},
]


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_distribution_is_that_of_python(run: Any, settings: dict[str, Any]) -> None:
    sampling = Sampling(**settings)
    draws = np.random.default_rng(0)
    rows = np.round(draws.normal(size=(20, 300)) * 3, 1).astype(np.float32)  # some are equal
    forbidden = np.arange(300) % 7 == 3
    found = run(
        """
        const { settings, allowed } = given;
        return given.rows.map((row) => Array.from(distribution(Float32Array.from(row), settings, allowed)));
        """,
        rows=rows.tolist(),
        allowed=(~forbidden).tolist(),
        settings={
            "temperature": sampling.temperature,
            "topK": sampling.top_k or 0,
            "topP": sampling.top_p or 1,
            "minP": sampling.min_p or 0,
        },
    )
    for row, probabilities in zip(rows, found, strict=True):
        expected = distribution(row, sampling, forbidden=forbidden)
        np.testing.assert_allclose(probabilities, expected, atol=1e-9)


def test_draws_follow_the_distribution_and_the_seed(run: Any) -> None:
    found = run(
        """
        const counts = (seed) => {
          const found = [0, 0, 0];
          for (let position = 0; position < 20000; position++) found[draw([0.2, 0, 0.8], uniform(seed, position))]++;
          return found;
        };
        return [counts(0), counts(1), counts(0), draw([0.5, 0.5, 0], 0.99999999999)];
        """
    )
    first, second, again, last = found
    assert first == again != second
    assert abs(first[0] / 20_000 - 0.2) < 0.01
    assert first[1] == 0
    assert last == 1


def test_tokens_that_may_not_be_drawn_take_no_place_of_others(run: Any) -> None:
    """At a low temperature fewer than k tokens have a chance that a float can hold."""
    code = """
        const allowed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9].map((id) => id < 6);
        const logits = Float32Array.from([50, 0, 0, 0, 0, 0, 60, 60, 60, 60]);
        return Array.from(distribution(logits, { temperature: 0.05, topK: 4, topP: 1, minP: 0 }, allowed));
    """
    assert run(code) == [1] + [0] * 9


def test_the_logits_are_those_of_the_text_however_it_is_edited(run: Any) -> None:
    """Edits may come faster than the machine reads: each may find the text of the one before unread."""
    code = """
        class Machine {
          constructor(context) {
            Object.assign(this, { context, length: 0, tokens: [] });
          }
          cut(length) {
            this.length = Math.min(this.length, length);
          }
          read(token) {
            this.tokens = [...this.tokens.slice(0, this.length++), token];
            return logitsOf(this.tokens);
          }
        }
        const logitsOf = (tokens) => {
          const hash = tokens.reduce((sum, token) => (sum * 31 + token) % 10007, 7);
          return [hash % 13, hash % 17, hash % 19, hash % 23];
        };
        let drawn = 0;
        const below = (count) => Math.floor(count * uniform(0, drawn++));
        const wrong = [];
        for (let trial = 0; trial < 500; trial++) {
          const reader = new Reader(new Machine(1 + below(12)));
          reader.replace([0]);
          for (let act = 0; act < 40; act++) {
            const what = below(4);
            const kept = reader.ids.slice(0, 1 + below(reader.ids.length));
            if (what < 2) reader.replace([...kept, ...Array.from({ length: below(4) }, () => below(4))]);
            else if (what === 2 && reader.isBehind) reader.next();
            else if (what === 3 && !reader.isBehind) reader.add(below(4));
            if (below(2)) continue;
            while (reader.isBehind) reader.next();
            const expected = logitsOf(reader.ids.slice(reader.start));
            if (String(reader.logits) !== String(expected)) wrong.push([trial, act]);
          }
        }
        return wrong;
    """
    assert run(code) == []


def test_a_text_is_written_on_from_the_tokens_that_its_link_reads(run: Any) -> None:
    """A text that outgrew the context was read from its last half; a page that opens its link reads a whole context."""
    code = """
        class Machine {
          constructor(context) { Object.assign(this, { context, length: 0 }); }
          cut(length) { this.length = Math.min(this.length, length); }
          read(token) { this.length++; return [token, 0]; }
        }
        const finish = (reader) => { while (reader.isBehind) reader.next(); };
        const grown = new Reader(new Machine(16)), opened = new Reader(new Machine(16));
        grown.replace([1]);
        finish(grown);
        for (let n = 0; n < 22; n++) { grown.add(n % 3); finish(grown); }
        const before = grown.start, view = { reader: grown, place: null, tokensOf: (text) => [...text].map(Number) };
        const $ = () => ({ value: grown.ids.join("") });
        View.prototype.readShown.call(view);
        opened.replace(grown.ids);
        return [before, grown.start, opened.start, grown.isBehind];
    """
    assert run(joined("view") + code) == [9, 7, 7, True]


def test_undo_brings_back_what_was_written_before_a_text_was_typed_on(run: Any) -> None:
    code = """
        const view = { undone: [], isTyping: false, reader: { ids: [] } };
        const remember = (ids, isTyping) => { view.reader.ids = ids; View.prototype.remember.call(view, isTyping); };
        remember([1], false);       // Continue
        remember([1, 2, 3], true);  // a letter is deleted
        remember([1, 2], true);     // and another one
        remember([1], false);       // Continue
        remember([1, 4], true);
        return view.undone;
    """
    assert run(joined("view") + code) == [[1], [1, 2, 3], [1], [1, 4]]
