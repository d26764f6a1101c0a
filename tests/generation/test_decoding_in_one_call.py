"""A text in one call: the prompt comes first, the settings count, and mistakes are named."""

from __future__ import annotations

from typing import Any

import pytest

import models
import tokenizer
from minigrad import InputError, generation

TOKENIZER = tokenizer.train(["the cat sat on the mat " * 50], vocab_size=280)
MODEL = models.build("vidya-v2", "nano", vocab_size=280, num_layers=2, width=24, context_length=32)


def test_the_text_begins_with_the_prompt_and_is_a_function_of_the_seed() -> None:
    first, again, other = (
        generation.write(MODEL, TOKENIZER, "the cat", tokens=20, temperature=1.5, seed=seed) for seed in (1, 1, 2)
    )
    assert first.startswith("the cat")
    assert first == again != other
    assert generation.write(MODEL, TOKENIZER, tokens=3) is not None


def test_the_text_ends_before_the_stop() -> None:
    text = generation.write(MODEL, TOKENIZER, "the", tokens=20, seed=1)
    stop = text[6:8]
    stopped = generation.write(MODEL, TOKENIZER, "the", tokens=20, seed=1, stop=stop)
    assert stopped == "the" + text[3:].split(stop)[0]


def test_a_batch_holds_the_texts_that_write_gives_one_by_one() -> None:
    prompts = ["the cat", "", "on the mat"]
    together = generation.write_batch(MODEL, TOKENIZER, prompts, samples=2, tokens=12, temperature=1.2)
    alone = [generation.write(MODEL, TOKENIZER, prompt, tokens=12, temperature=1.2) for prompt in prompts]
    assert [samples[0] for samples in together] == alone
    assert all(samples[0] != samples[1] for samples in together)
    assert generation.write_batch(MODEL, TOKENIZER, []) == []


def test_settings_come_as_a_whole_or_by_name() -> None:
    settings = generation.Sampling(tokens=9, seed=4)
    whole = generation.write(MODEL, TOKENIZER, "the", settings)
    assert whole == generation.write(MODEL, TOKENIZER, "the", tokens=9, seed=4)
    assert generation.write(MODEL, TOKENIZER, "the", settings, tokens=3) != whole


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temprature": 1.0}, "unknown setting of generation 'temprature'; did you mean 'temperature'"),
        ({"run": "somewhere"}, "unknown setting of generation 'run'"),
        ({"temperature": -1.0}, "temperature takes a finite number of at least 0, not -1"),
        ({"samples": 2}, "write returns one text, not 2; for several call write_batch"),
        ({"tokens": 0}, "tokens takes a whole number of at least 1"),
    ],
)
def test_mistaken_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        generation.write(MODEL, TOKENIZER, "the", **settings)


def test_the_tokenizer_of_another_model_is_refused() -> None:
    small = models.build("vidya-v2", "nano", vocab_size=100, num_layers=1, width=24)
    with pytest.raises(InputError, match="the tokenizer has 280 tokens, but the model knows 100"):
        generation.write(small, TOKENIZER, "the")


def test_the_names_of_the_package_are_imported_when_they_are_used() -> None:
    assert all(callable(getattr(generation, name)) for name in generation.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'writes'"):
        _ = generation.writes
