"""Writing: read the text so far, draw the next token, append it, and repeat; many texts at once."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from minigrad.adaptive.context import AdaptiveContext, AdaptiveView
from minigrad.data.tokens.token_files import beginning
from minigrad.errors import InputError
from minigrad.generation.context import Context
from minigrad.generation.continuation import Continuation, DrawingRules, Token
from minigrad.generation.sampling import as_mask
from minigrad.generation.settings import Sampling
from minigrad.generation.speculative import with_draft
from minigrad.nn.language_model import LanguageModel
from minigrad.programs.decoder import Decoder
from minigrad.typing import Array, Tokenizer

_MOST_TOGETHER, _MOST_CACHE_BYTES = 128, 1 << 29  # of texts that are written at once


def write(
    model: LanguageModel, tokenizer: Tokenizer, prompt: str = "", settings: Sampling | None = None, **changes: Any
) -> str:
    """Return `prompt` and its continuation by the model.

    The settings are those of generate.py, with the same defaults; see `Sampling` and `stream`. The text is a function
    of weights, prompt and settings, and ends before a stop string or a special token.
    Raises InputError for an unknown setting or a bad value, and for the tokenizer of another model.

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
    """Return the samples of each prompt; each is a text as `write` returns it.

    >>> import models, tokenizer
    >>> tok = tokenizer.train([], vocab_size=261)
    >>> model = models.build("vidya-v2", "nano", vocab_size=261, num_layers=1)
    >>> texts = write_batch(model, tok, ["to", "be"], samples=3, tokens=5)
    >>> [len(samples) for samples in texts], texts[1][2].startswith("be")
    ([3, 3], True)
    """
    if isinstance(prompts, str):
        raise InputError(f"write_batch takes several texts, not one: give [{prompts[:40]!r}]")
    begun = [document(tokenizer, prompt) for prompt in prompts]
    parts: list[dict[int, list[str]]] = [{} for _ in prompts]
    for token in stream(model, begun, settings, tokenizer=tokenizer, **changes) if begun else ():
        parts[token.prompt].setdefault(token.sample, []).append(token.text)
    return [
        [prompt + "".join(found) for _, found in sorted(samples.items())]
        for prompt, samples in zip(prompts, parts, strict=True)
    ]


def stream(
    model: LanguageModel,
    prompt: Sequence[int] | Sequence[Sequence[int]] | Array,
    settings: Sampling | None = None,
    *,
    tokenizer: Tokenizer | None = None,
    draft: LanguageModel | None = None,
    end_ids: Iterable[int] | None = None,
    first_sample: int | Sequence[int] = 0,
    **changes: Any,
) -> Iterator[Token]:
    """Yield the tokens that continue one prompt or several, as they are drawn; each knows its prompt and its sample.

    `prompt` holds token ids, or is a sequence of prompts. An empty prompt begins like a document of the tokenizer
    (without one, with the model's end of text). `settings` are those of generate.py, with the same defaults; fields can
    be named instead, as in ``stream(model, ids, temperature=0.5, samples=4)``. With a `tokenizer`, each token has its
    text, stop strings end a text, and unused ids are never drawn.

    A text ends with a special token of the tokenizer (without one, with the model's end of text), or with a token of
    `model.end_ids`; if `end_ids` are given, they replace both. This token is its last and adds no text. A text also
    ends with a stop string, or after `settings.tokens`.
    Texts are written together, whatever their lengths. Each is a function of weights, prompt, settings and the number
    of its sample, which begins at `first_sample`, one number or one for each prompt: alone and among others it is the
    same, as far as rounding allows. Texts with the same number share their random draws. A text that outgrows the
    model's context continues from its last half. With `adaptive_context`, how much of a text the model sees follows
    from the text itself (`minigrad.adaptive.context`).
    With `draft`, a smaller model with the same tokenizer, the texts have the same distribution and are written faster,
    one after the other (see `speculative`); with temperature 0 they are the same texts.
    Raises InputError for a setting that is unknown or not allowed, token ids that the model does not know, or a
    tokenizer or draft model that does not fit.

    >>> import models
    >>> model = models.build("vidya-v2", "nano", vocab_size=300, num_layers=1)
    >>> [int(token) for token in stream(model, [5, 6, 7], tokens=4)] == list(stream(model, [5, 6, 7], tokens=4))
    True
    >>> [(token.sample, token.position) for token in stream(model, [], tokens=2, samples=2, ban=[0])]
    [(0, 0), (1, 0), (0, 1), (1, 1)]
    """
    rules = drawing_rules(model, (settings or Sampling()).changed(changes), tokenizer, end_ids)
    prompts = _prompts(prompt, model, tokenizer)
    if draft is not None and draft.config.vocab_size != model.config.vocab_size:
        raise InputError(
            f"the draft model knows {draft.config.vocab_size:,} tokens and the model {model.config.vocab_size:,}: both "
            "must have the same number of rows in their embedding, for the same tokenizer"
        )
    if draft is not None and rules.sampling.adaptive_context:
        raise InputError("a draft proposes tokens for one view of the text: leave out the draft or adaptive_context")
    first = _first_samples(first_sample, len(prompts))
    texts = (
        Continuation(rules, ids, number, first[number] + sample)
        for number, ids in enumerate(prompts)
        for sample in range(rules.sampling.samples)
    )
    if draft is None:
        return _batches(Decoder(model), rules, texts, max(map(len, prompts)))
    decoders = Decoder(model), Decoder(draft)
    one_by_one = (with_draft(*decoders, text, len(text.prompt) + text.left) for text in texts)
    return itertools.chain.from_iterable(one_by_one)


def _first_samples(given: int | Sequence[int], prompts: int) -> Sequence[int]:
    """Return the number of the first sample of each prompt; raises InputError if numbers are missing or below 0."""
    first = [given] * prompts if isinstance(given, int | np.integer) else given
    if len(first) != prompts:
        raise InputError(f"first_sample has {len(first)} numbers for {prompts} prompts")
    if min(first) < 0:
        raise InputError(f"first_sample takes numbers of at least 0, not {min(first)}")
    return first


def document(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the token ids of a document that begins with `text`."""
    return [*beginning(tokenizer), *tokenizer.encode(text)]


def drawing_rules(
    model: LanguageModel, sampling: Sampling, tokenizer: Tokenizer | None, end_ids: Iterable[int] | None
) -> DrawingRules:
    """Return which tokens are never drawn and which end a text; raises InputError if no token can be drawn."""
    size = model.config.vocab_size
    forbidden, special = np.zeros(size, bool), [model.config.end_of_text_id]
    if tokenizer is not None:
        if tokenizer.vocab_size > size:
            raise InputError(
                f"the tokenizer has {tokenizer.vocab_size:,} tokens, but the model knows {size:,}: they do not belong "
                "together"
            )
        forbidden, special = ~as_mask(tokenizer.ids, size), list(tokenizer.specials.values())
    elif sampling.stop:
        raise InputError("a stop string needs a tokenizer, to compare it with the text of the tokens")
    for token in sampling.ban:
        if token >= size:
            raise InputError(f"ban takes ids of tokens, from 0 to {size - 1:,}, not {token:,}")
    forbidden |= as_mask(sampling.ban, size)
    if forbidden.all():
        raise InputError("every token is banned: none is left to draw")
    if not isinstance(end_ids, Iterable | None):
        raise InputError(f"end_ids takes ids of tokens, such as [0, 5], not {end_ids!r}")
    uncounted = as_mask([*special, *model.end_ids], size)
    ends = uncounted if end_ids is None else as_mask(end_ids, size)
    return DrawingRules(sampling, forbidden, ends, uncounted | ends, tokenizer)


def _prompts(given: Any, model: LanguageModel, tokenizer: Tokenizer | None) -> list[list[int]]:
    """Return the prompts as lists; an empty one becomes the beginning of a document."""
    given = list(given) if isinstance(given, Iterator) else given
    arrays = [_array(part) for part in given] if isinstance(given, Iterable) else []
    several = len(arrays) > 0 and all(each.ndim == 1 for each in arrays)
    size, found = model.config.vocab_size, []
    for ids in arrays if several else [_array(given)]:
        if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
            raise InputError("a prompt is a sequence of token ids, or several prompts are a sequence of such sequences")
        if ids.size and (ids.min() < 0 or ids.max() >= size):
            span = f"{ids.min()} to {ids.max()}"
            raise InputError(f"the prompt has token ids from {span}, but the model knows 0 to {size - 1}")
        if not ids.size:
            ids = np.array([model.config.end_of_text_id] if tokenizer is None else document(tokenizer, ""))
        found.append(ids.tolist())
    return found


def _array(given: Any) -> Array:
    """Return an array, without dimensions for lists of different lengths, which cannot be a prompt."""
    try:
        return np.asarray(given)
    except ValueError:
        return np.asarray(None)


def _batches(decoder: Decoder, rules: DrawingRules, texts: Iterator[Continuation], longest: int) -> Iterator[Token]:
    """Yield the tokens of all texts, in batches whose cache fits in memory; the longest prompt has `longest` tokens."""
    model, capacity = decoder.model, longest + rules.sampling.tokens
    bytes_each = model.new_cache(1, min(capacity, model.config.context_length)).num_bytes
    size = max(1, min(_MOST_TOGETHER, _MOST_CACHE_BYTES // bytes_each))
    while batch := list(itertools.islice(texts, size)):
        yield from _together(decoder, batch, capacity)


def _together(decoder: Decoder, texts: list[Continuation], capacity: int) -> Iterator[Token]:
    """Yield one token of each text in turn, until all have ended. Each prompt is read once for all its samples."""
    prompts = {text.number: text.prompt for text in texts}
    rows = [list(prompts).index(text.number) for text in texts]
    adapts, most = texts[0].rules.sampling.adaptive_context, decoder.model.config.context_length
    views = [AdaptiveView(AdaptiveContext.up_to(most), len(ids)) for ids in prompts.values()] if adapts else []
    context = Context(decoder, list(prompts.values()), capacity, views)
    logits = context.logits()[rows, -1]
    context.select(rows)
    while texts:
        drawn = []
        for text, row, limit in zip(texts, logits, context.limits, strict=True):
            drawn.append(text.next(row))
            drawn[-1].context = limit if adapts else None
            yield drawn[-1]
        going = [number for number, token in enumerate(drawn) if not token.ended]
        if not going:
            return
        context.append([int(token) for token in drawn])
        context.select(going)
        texts = [texts[number] for number in going]
        logits = context.logits()[:, -1]
