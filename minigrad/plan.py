"""The plan: what is left open gets chosen, and what the run will cost and buy is said before it begins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from minigrad import costs, hardware
from minigrad.corpus import XZ_DICTIONARY
from minigrad.data import TokenFile, windows_per_epoch
from minigrad.errors import InputError
from minigrad.kernels import products
from minigrad.language_model import LanguageModel
from minigrad.parallel import num_replicas
from minigrad.progress import format_bytes, format_count, format_seconds

CONTEXT, TOKENS_PER_STEP = 256, 2_048
"""What a laptop run uses unless told otherwise."""

_TOKENS_PER_PARAMETER = 1.0
"""How many tokens a size should see for each of its parameters before the next larger one is worth its price."""

_XZ_SECONDS_PER_BYTE = 0.7e-6  # measured on 24 MB of Python source
_XZ_SHARE = 0.15  # of the minutes that a comparison with xz may cost


def choose_size(candidates: Mapping[str, LanguageModel], settings: Any, rate: float) -> str:
    """Return the largest of the candidates (in rising order) that the run's time can train well, else the smallest."""
    chosen, context = next(iter(candidates)), settings.context or CONTEXT
    for size, model in candidates.items():
        speed = costs.tokens_per_second(model, context, rate)
        if _expected_tokens(settings, speed) >= _TOKENS_PER_PARAMETER * model.num_parameters():
            chosen = size
    return chosen


def _expected_tokens(settings: Any, speed: float) -> float:
    if settings.tokens:
        return float(settings.tokens)
    if settings.steps:
        per_step = (settings.batch or TOKENS_PER_STEP // CONTEXT) * (settings.context or CONTEXT)
        return float(settings.steps * per_step * settings.accumulate)
    return 60 * (settings.minutes or 0.0) * speed


def choose_numbers(settings: Any, model: LanguageModel, rate: float) -> Any:
    """Return the settings with every number that was left open filled in.

    Only whole numbers and the learning rate are chosen, so that the command printed at the end repeats the run.
    Raises InputError if the context is longer than the model's.
    """
    limit = model.config.context_length
    context = settings.context or min(CONTEXT, limit)
    if context > limit:
        raise InputError(f"--context {context} is longer than the model's context of {limit}; take at most {limit}")
    batch = settings.batch or max(1, TOKENS_PER_STEP // context)
    settings = replace(settings, context=context, batch=batch)
    per_step = batch * context * settings.accumulate
    if settings.tokens:
        settings = replace(settings, steps=math.ceil(settings.tokens / per_step))
    expected = settings.steps or _expected_tokens(settings, costs.tokens_per_second(model, context, rate)) / per_step
    steps = max(int(expected), 1)
    chosen = {
        "lr": _learning_rate(model),
        "threads": hardware.threads(),
        "warmup": max(1, min(100, steps // 10)),
        "log_every": max(1, min(50, steps // 100)),
        "eval_every": max(1, steps // 8),
        "sample_every": max(1, steps // 4),
        "save_every": max(1, steps // 6),
    }
    return replace(settings, **{name: value for name, value in chosen.items() if getattr(settings, name) is None})


def _learning_rate(model: LanguageModel) -> float:
    """Return a peak learning rate for a model's width: twice the width, half the rate.

    A wider layer adds up more numbers, so the same step in each of them moves its output further (Yang et al. 2022,
    "Tensor programs V", arXiv 2203.03466, table 3). On nano 4e-3 and 8e-3 were measured to be equally good.
    """
    return float(f"{0.006 * 96 / model.config.width:.2g}")


@dataclass(frozen=True)
class Text:
    """The text of a run as tokens."""

    description: str
    num_documents: int
    train: TokenFile
    held_out: TokenFile
    used: int  # tokens of the vocabulary that stand for something


def check_text(text: Text, context: int) -> None:
    """Raise InputError if there is too little text for one window to train on and one to evaluate."""
    windows_per_epoch(len(text.train), context)
    if len(text.held_out) < context + 1:
        raise InputError(
            f"the held-out text has {len(text.held_out):,} tokens, but one window of --context {context:,} needs "
            f"{context + 1:,}: use a smaller --context or more text"
        )


def check_vocabulary(settings: Any, tokens: int, known: int) -> None:
    """Raise InputError if the tokenizer has more tokens than the model knows."""
    if tokens > known:
        raise InputError(
            f"the tokenizer {settings.tokenizer} has {tokens:,} tokens, but the model in --init {settings.init} "
            f"knows {known:,}: they do not belong together"
        )


def xz_seconds(text: Text) -> float:
    """Estimate how long xz takes: it packs the training text as far as it can look back, then that and the held-out."""
    return _XZ_SECONDS_PER_BYTE * (2 * min(text.train.num_bytes, XZ_DICTIONARY) + text.held_out.num_bytes)


def too_long_for_xz(settings: Any, text: Text) -> str:
    """Return why xz is not asked in a run of so few minutes, or "" if there is time for it.

    The answer depends on the text and the minutes alone, never on how fast this run happens to be.
    """
    budget, needed = 60 * (settings.minutes or math.inf), xz_seconds(text)
    if needed <= _XZ_SHARE * budget:
        return ""
    return f"it would have taken about {format_seconds(needed)} of the {format_seconds(budget)}"


def seconds_after(settings: Any, model: LanguageModel, text: Text, rate: float) -> float:
    """Estimate what follows the last step: scoring all held-out text, asking xz if time allows, sample and report.

    Scoring looks at each token twice (windows overlap by half) and needs a third of a training step's work.
    """
    scoring = 2 * len(text.held_out) / (3 * costs.tokens_per_second(model, settings.context, rate))
    return scoring + (0.0 if too_long_for_xz(settings, text) else xz_seconds(text)) + 4.0


def _memory(settings: Any, model: LanguageModel) -> costs.Memory:
    itemsize = 8 if settings.precision == "float64" else 4
    replicas = num_replicas(model, settings.batch, settings.context)
    return costs.memory(model, settings.batch, settings.context, itemsize, settings.checkpointing, replicas)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def refuse_too_large(settings: Any, model: LanguageModel) -> None:
    """Raise InputError if training needs more memory than this machine can give."""
    needed, available = _memory(settings, model), hardware.available_memory_bytes()
    if available and needed.total > available:
        raise InputError(
            f"training {model.num_parameters():,} parameters needs about {format_bytes(needed.total)} "
            f"({format_bytes(needed.state)} of weights, gradients and moments); {format_bytes(available)} are free. "
            "Take a smaller --size, --batch or --context, or more --accumulate."
        )


def describe(settings: Any, model: LanguageModel, text: Text, rate: float, claim: str = "") -> str:
    """Lay out the plan as two columns: what is trained, on what, for how long, and what that costs.

    `claim` is what the model's source document says of it, if that is something else.
    """
    memory = _memory(settings, model)
    flops = costs.flops_per_token(model, settings.context)
    speed = costs.tokens_per_second(model, settings.context, rate)
    per_step = settings.batch * settings.context * settings.accumulate
    seconds = 0.0 if settings.steps else 60 * settings.minutes
    tokens = settings.steps * per_step if settings.steps else seconds * speed
    vocab, train = model.config.vocab_size, text.train
    vocabulary = f"{vocab:,} tokens, {train.num_bytes / max(len(train), 1):.2f} bytes each"
    if text.used < vocab:
        vocabulary += (
            f"; the text has pairs for {text.used:,} only, the other ids stay unused "
            "(--data python-source would fill more)"
        )
    facts = {
        "model": f"{settings.model} {settings.size}: {model.num_parameters():,} parameters, "
        f"{model.config.num_layers} layers of width {model.config.width}",
        **({"claimed": claim} if claim else {}),
        "text": f"{text.description}: {_counted(text.num_documents, 'document')}, "
        f"{format_bytes(train.num_bytes)} to train on, {format_bytes(text.held_out.num_bytes)} held out",
        "vocabulary": vocabulary,
        "step": f"{settings.batch} x {settings.context} tokens"
        + (f" x {settings.accumulate} parts" if settings.accumulate > 1 else "")
        + f", peak learning rate {settings.lr:g} after {_counted(settings.warmup, 'step')}",
        "memory": f"{format_bytes(memory.total)}: {format_bytes(memory.state)} state, "
        f"{format_bytes(memory.activations)} activations, {format_bytes(memory.program)} program",
        "machine": f"{hardware.describe()}; matrix products in {products.describe()} at {rate / 1e9:,.0f} GFLOP/s",
        "speed": f"{flops / 1e6:,.1f} MFLOP per token, about {format_count(speed)} tokens/s expected",
        "budget": f"{format_seconds(seconds)} in all" if seconds else _counted(settings.steps, "step"),
        "it buys": f"about {format_count(tokens)} tokens, {tokens / max(len(train), 1):.1f} times the text"
        + ("" if seconds else f", in about {format_seconds(tokens / speed)}"),
    }
    width = max(map(len, facts))
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in facts.items())
