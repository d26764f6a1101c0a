"""The settings that a run was not given: its learning rate, its evaluations, and so on; `dial` chooses its size."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from minigrad.data import corpus
from minigrad.data.tokens.token_files import beginning
from minigrad.errors import InputError
from minigrad.nn.language_model import LanguageModel
from minigrad.options import assignments
from minigrad.system import hardware
from minigrad.training import optimizers
from minigrad.training.parallel import num_replicas
from minigrad.training.planning import costs
from minigrad.training.settings import MOST, REWARDED, OptimisationSettings, RunSettings, TrainConfig
from minigrad.typing import Tokenizer

CONTEXT, TOKENS_PER_STEP = 256, 2_048
"""The context of a laptop run, and the tokens of a step, unless given or the run is long."""

LONG_RUN = 4_000_000
"""Tokens from which on a run in one process is long: it reads twice `TOKENS_PER_STEP` in a step.

The more text a run reads, the more tokens of a step are of use (Zhang et al. 2024, "How does critical batch size scale
in pre-training?", arXiv 2410.21676). Measured with nano (docs/results_learning.md, "Tokens of a step"): in ten minutes
twice as many ended lower in each of three pairs, and four times as many did not in a single run; after 4 million tokens
no difference is shown.
"""

_MOST_GROWING = 5_000_000
"""The most parameters of a model whose long runs read more in a step: micro's. A nano was measured, no larger model."""

TAUGHT_LEARNING_RATE = {"sft": 1 / 2, "dpo": 1 / 20} | dict.fromkeys(REWARDED, 1 / 10)
"""The peak learning rate of an objective, relative to that of pre-training (benchmarks/teaching.py measures them)."""

ADAPTER_LEARNING_RATE = 10 / 3
"""The peak learning rate of adapters, relative to that of all weights."""

REPLAY = {"sft": 0.75} | dict.fromkeys(("dpo", *REWARDED), 0.25)
"""The share of replayed text in the loss while something is taught (benchmarks/teaching.py measures what it keeps)."""

WITH_SOURCE = f"{corpus.DEFAULT}:0.8,python-source:0.2"
"""The text of a run that would read the default text too often; it is judged on the same documents."""

MOST_PASSES = 4.0
"""The most passes over the default text for which a new model reads it alone.

Up to four passes teach nearly as much as new text (Muennighoff et al. 2023, arXiv 2305.16264). With source code, a nano
gained little in 2.3 passes and more in 4.0 and above (docs/results_learning.md, "Source code beside the
documentation").
"""

_AT_STAKE = 30 * 60.0  # seconds of steps that may be lost, if a run is killed between two checkpoints
_MOST_SHARE = 0.25  # of the FLOPs of a step, that Muon may take

MOST_DROPOUT = 0.3
"""The largest dropout that is chosen."""

QUESTION_NOISE = 0.1
"""The share of changed words in the questions of a book; the answer to a problem of a task depends on each word."""


def choose_optimizer(model: LanguageModel, tokens: int, context: int) -> str:
    """Return the name of the optimizer for steps of `tokens` tokens: Muon, unless it takes too much of a step."""
    extra = optimizers.update_flops_per_token("muon", model, tokens)
    return "muon" if extra < _MOST_SHARE * costs.flops_per_token(model, context) else "adamw"


def choose_precision(asked: TrainConfig, *, gains_by_bfloat16: bool) -> str:
    """Return the precision of a run; `gains_by_bfloat16` says whether every processor multiplies bfloat16 itself.

    BLAS has no such products. A model that learns from its own answers spends its time on writing them, by a program
    that multiplies float32 alone (`minigrad.programs`).
    """
    if asked.precision != "auto":
        return asked.precision
    writes = asked.objective in REWARDED
    return "bfloat16" if gains_by_bfloat16 and asked.matmul != "blas" and not writes else "float32"


def name_text(asked: TrainConfig) -> TrainConfig:
    """Return the settings with the default text, where none is named."""
    return dataclasses.replace(asked, data=corpus.DEFAULT) if asked.data == "auto" else asked


def may_add_source(asked: TrainConfig) -> bool:
    """Whether source code may join the default text of a run: if no text is named, and the model begins anew."""
    return asked.data == "auto" and asked.init is None and asked.teacher is None and asked.held_out is None


def with_source(asked: TrainConfig) -> TrainConfig:
    """Return the settings with source code beside the default text.

    The source code of the same library is longer. What a model learns from it helps with the documentation, if the
    model would otherwise read that too often (`MOST_PASSES`).
    """
    return dataclasses.replace(asked, data=WITH_SOURCE, held_out=corpus.DEFAULT)


def expected_tokens(asked: OptimisationSettings, speed: float, processes: int) -> float:
    """Return the number of tokens of a run, at `speed` tokens per second."""
    if asked.tokens:
        return float(asked.tokens)
    if asked.steps:
        context = asked.context or CONTEXT
        return float(asked.steps * _usual_batch(asked, context, processes) * context * asked.accumulate)
    return 60 * (asked.minutes or 0.0) * speed


def choose_settings(
    asked: TrainConfig, model: LanguageModel, rates: costs.Rates, text_tokens: float, processes: int = 1
) -> RunSettings:
    """Return the settings in which everything that was left open is chosen, for a model, a machine and a text.

    The text has `text_tokens` tokens to train on; a mixture counts as a single text that would be read as often. Unless
    a batch is given, each of the `processes` gets a whole one. Raises InputError if the context is longer than the
    model's.
    """
    context = _context(asked, model)
    batch = _usual_batch(asked, context, processes)
    speed = _speed(asked, model, rates, context, batch, processes)
    if _may_grow(asked, model, processes) and expected_tokens(asked, speed, processes) >= LONG_RUN:
        batch = max(batch, 2 * TOKENS_PER_STEP // context)
    per_step = batch * context * asked.accumulate
    limit_steps = math.ceil(asked.tokens / per_step) if asked.tokens else asked.steps
    if limit_steps and limit_steps > MOST:
        raise InputError(
            f"--tokens {asked.tokens:,} are {limit_steps:,} steps of {per_step:,} tokens, and a run has at most "
            f"{MOST:,}; take fewer tokens, or larger steps"
        )
    optimizer = _optimizer(asked, model, per_step, context)
    speed = _speed(asked, model, rates, context, batch, processes)
    expected = limit_steps or expected_tokens(asked, speed, processes) / per_step
    steps = max(int(expected), 1)
    question_noise = 0.0 if asked.data.startswith("task:") else QUESTION_NOISE
    chosen = {
        "lr": _learning_rate(model, asked.objective or "", optimizer, adapts=asked.adapter_rank is not None),
        "replay": REPLAY.get(asked.objective or ""),
        "question_noise": question_noise if asked.objective == "sft" else None,
        "optimizer": optimizer,
        "weight_decay": optimizers.WEIGHT_DECAY[optimizer],
        "beta2": optimizers.BETA2.get(optimizer),
        "dropout": 0.0 if asked.is_lesson else _dropout(model, steps * per_step, text_tokens),
        "threads": hardware.threads(),
        "warmup": max(1, min(100, steps // 10)),
        "log_every": max(1, min(50, steps // 100)),
        "eval_every": max(1, steps // 8),
        "sample_every": max(1, steps // 4),
        "save_every": max(1, min(steps // 6, int(_AT_STAKE * speed / per_step))),
    }
    given: dict[str, Any] = {field.name: getattr(asked, field.name) for field in dataclasses.fields(asked)}
    given |= {"context": context, "batch": batch, "steps": limit_steps}
    if asked.warmup is not None:
        given["warmup"] = warmup_steps(asked.warmup, steps)
    return RunSettings(**given | {name: value for name, value in chosen.items() if given[name] is None})


def _context(asked: TrainConfig, model: LanguageModel) -> int:
    """Return the tokens of the longest sequence; raises InputError if the settings and the model do not agree on it."""
    limit = model.config.context_length
    context = asked.context or min(CONTEXT, limit)
    if context > limit:
        raise InputError(f"--context {context} is longer than the model's context of {limit}; take at most {limit}")
    lengthened = assignments(asked.set).keys() & {"context_length", "rope_factor"} and not model.learns_positions
    if lengthened and asked.context is None and context < limit:
        raise InputError(
            f"--set {asked.set}: the sequences of the model may have {limit} tokens, and this run would train it on "
            f"{context}: give --context too, of at most {limit}"
        )
    return context


def _usual_batch(asked: OptimisationSettings, context: int, processes: int) -> int:
    """Return the number of sequences of a step: the given one, or the usual tokens of each process."""
    return asked.batch or max(1, TOKENS_PER_STEP // context) * processes


def _may_grow(asked: TrainConfig, model: LanguageModel, processes: int) -> bool:
    """Whether a long run may read more in a step: a small model, unless steps or their size are given, or lessons.

    Several processes read several times as much already.
    """
    is_open = asked.batch is None and asked.steps is None and asked.accumulate == 1 and asked.objective is None
    return is_open and processes == 1 and model.num_parameters() <= _MOST_GROWING


def _optimizer(asked: TrainConfig, model: LanguageModel, per_step: int, context: int) -> str:
    """Return the name of the optimizer: the given one, AdamW for lessons and adapters, or the usual one."""
    usual = "adamw" if asked.is_lesson or asked.adapter_rank else choose_optimizer(model, per_step, context)
    return asked.optimizer or usual


def _speed(
    asked: TrainConfig, model: LanguageModel, rates: costs.Rates, context: int, batch: int, processes: int
) -> float:
    """Return the estimated tokens per second of training, with `batch` sequences in a step."""
    per_step = batch * context * asked.accumulate
    update = optimizers.update_flops_per_token(_optimizer(asked, model, per_step, context), model, per_step)
    return costs.tokens_per_second(model, context, rates, update, num_replicas(model, -(-batch // processes), context))


def warmup_steps(asked: float, steps: int) -> int:
    """Return the steps of a warm-up that is given in steps, or, below 1, as a share of all steps."""
    return max(1, round(asked * steps)) if 0 < asked < 1 else int(asked)


def choose_shape(settings: RunSettings, model: LanguageModel, tokenizer: Tokenizer) -> dict[str, Any]:
    """Return the fields of a model's config that a run sets: those of its tokenizer, its context and its dropout."""
    shape: dict[str, Any] = {"dropout": settings.dropout, "end_of_text_id": tokenizer.end_of_text_id}
    others = {"begin_of_text_id": beginning(tokenizer)[0], "padding_id": tokenizer.padding_id}
    shape |= {name: token for name, token in others.items() if hasattr(model.config, name)}  # not every family has them
    if not settings.init:
        shape["vocab_size"] = tokenizer.vocab_size
    if not model.learns_positions:
        shape["context_length"] = settings.context
    return shape


def _dropout(model: LanguageModel, tokens: int, text_tokens: float) -> float:
    """Return the dropout of a model that reads `tokens` tokens of a text with `text_tokens` different tokens.

    A model learns a text by heart if it has many parameters for each different token, and reads it many times: so
    dropout grows as the square root of the product of both. New text needs none. Fitted to pairs of runs
    (docs/results_learning.md, "Dropout").
    """
    different = max(text_tokens, 1)
    by_heart = model.num_parameters() / different * tokens / different
    return min(round(math.sqrt(by_heart) / 40, 2), MOST_DROPOUT)


def _learning_rate(model: LanguageModel, objective: str, optimizer: str, adapts: bool) -> float:
    """Return a peak learning rate for a model's width: half the rate for twice the width, and less for teaching.

    Adapters, which begin at a product of 0 and change a matrix in few directions, take a larger one.
    A wider layer sums more terms, so the same update of each weight changes its output more (Yang et al. 2022,
    "Tensor programs V", arXiv 2203.03466, table 3). On nano, single runs at 4e-3 and 8e-3 ended within 0.02 bits per
    byte of the default.
    """
    relative = TAUGHT_LEARNING_RATE.get(objective, 1) * optimizers.LEARNING_RATE[optimizer]
    relative *= ADAPTER_LEARNING_RATE if adapts else 1
    return float(f"{0.006 * 96 / model.config.width * relative:.2g}")
