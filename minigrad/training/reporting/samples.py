"""The samples of a run: what the model writes as training goes on, always after the same prompt."""

from __future__ import annotations

import itertools

from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.generation.decoding import stream
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel

_TOKENS = 80


def write(model: LanguageModel, text: TokenizedCorpus, *, seed: int, step: int) -> str:
    """Generate a continuation of the beginning of the first validation document; return both as one text.

    The prompt is the same in every sample, and the draws are a function of seed and step.
    """
    tok, prompt = text.tokenizer, prompt_of(text)
    settings = Sampling(tokens=min(_TOKENS, model.config.context_length), seed=seed)
    written = stream(model, prompt, settings, tokenizer=tok, first_sample=step)
    return tok.decode([*prompt[1:], *(token for token in written if token.ended != "end")])


def prompt_of(text: TokenizedCorpus) -> list[int]:
    """Return the beginning of the first validation document: no more than 8 tokens, and not beyond its end."""
    end, first = text.tokenizer.end_of_text_id, [int(token) for token in text.validation.tokens[1:9]]
    return [end, *itertools.takewhile(lambda token: token != end, first)]
