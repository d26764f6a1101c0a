"""A text in one call: a model, its tokenizer, and the beginning."""

from __future__ import annotations

import dataclasses
from typing import Any

from minigrad.errors import InputError
from minigrad.generation.sampling import Sampling, generate, unusable_ids
from minigrad.generation.settings import GenerateConfig
from minigrad.nn.language_model import LanguageModel
from minigrad.options import unknown, validate
from minigrad.typing import Tokenizer

_SETTINGS = {"tokens", "stop", "seed", *(field.name for field in dataclasses.fields(Sampling))} - {"forbidden_ids"}


def write(model: LanguageModel, tokenizer: Tokenizer, prompt: str = "", **settings: Any) -> str:
    """Return `prompt` and the text with which the model continues it.

    The settings are those of generate.py, with the same defaults: `tokens`, `temperature`, `top_k`, `top_p`, `min_p`,
    `repetition_penalty`, `frequency_penalty`, `seed`, `stop` (see `GenerateConfig`). The text is a function of weights,
    prompt and settings. It ends before `stop`, or at the end of the text.
    Raises InputError for an unknown setting or a value that is not allowed, and for a tokenizer of another model.

        model, tok = models.load("runs/vidya-v2-nano"), tokenizer.load("runs/vidya-v2-nano")
        print(generation.write(model, tok, "The list type", tokens=100))
    """
    for name in settings.keys() - _SETTINGS:
        raise unknown("setting of write", name, sorted(_SETTINGS))
    config = GenerateConfig(run="", prompt=prompt, **settings)
    validate(config)
    if tokenizer.vocab_size > model.config.vocab_size:
        raise InputError(
            f"the tokenizer has {tokenizer.vocab_size:,} tokens, but the model knows {model.config.vocab_size:,}: they "
            "do not belong together"
        )
    ids = generate(
        model,
        [tokenizer.end_of_text_id, *tokenizer.encode(prompt)],
        count=config.tokens,
        sampling=Sampling.of(config, forbidden_ids=unusable_ids(tokenizer, model.config.vocab_size)),
        seed=config.seed,
        stop_ids=[tokenizer.end_of_text_id],
    )
    text = tokenizer.decode(ids)
    return prompt + (text.split(config.stop)[0] if config.stop else text)
