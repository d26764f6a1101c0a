"""Texts in one call: a model, its tokenizer, and the beginning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minigrad.errors import InputError
from minigrad.generation.decoding import stream
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.typing import Tokenizer


def write(
    model: LanguageModel, tokenizer: Tokenizer, prompt: str = "", settings: Sampling | None = None, **changes: Any
) -> str:
    """Return `prompt` and the text with which the model continues it.

    The settings are those of generate.py, with the same defaults; see `Sampling` and `stream`. The text is a function
    of weights, prompt and settings. It ends before a stop string, or at a special token.
    Raises InputError for an unknown setting or a value that is not allowed, and for a tokenizer of another model.

        model, tok = models.load("runs/vidya-v2-nano"), tokenizer.load("runs/vidya-v2-nano")
        print(generation.write(model, tok, "The list type", tokens=100))
    """
    settings = (settings or Sampling()).changed(changes)
    if settings.samples > 1:
        raise InputError(f"write returns one text, not {settings.samples}; for several call write_batch")
    return write_batch(model, tokenizer, [prompt], settings)[0][0]


def write_batch(
    model: LanguageModel, tokenizer: Tokenizer, prompts: Sequence[str], settings: Sampling | None = None, **changes: Any
) -> list[list[str]]:
    """Return for each prompt its continued samples, as `write` does for one.

    >>> import models, tokenizer
    >>> tok = tokenizer.train([], vocab_size=261)
    >>> model = models.build("vidya-v2", "nano", vocab_size=261, num_layers=1)
    >>> texts = write_batch(model, tok, ["to", "be"], samples=3, tokens=5)
    >>> [len(samples) for samples in texts], texts[1][2].startswith("be")
    ([3, 3], True)
    """
    begun = [[tokenizer.end_of_text_id, *tokenizer.encode(prompt)] for prompt in prompts]
    parts: list[dict[int, list[str]]] = [{} for _ in prompts]
    for token in stream(model, begun, settings, tokenizer=tokenizer, **changes) if begun else ():
        parts[token.prompt].setdefault(token.sample, []).append(token.text)
    return [
        [prompt + "".join(found) for _, found in sorted(samples.items())]
        for prompt, samples in zip(prompts, parts, strict=True)
    ]
