"""A guest of a training run that keeps watch over it, and judges the model at its end.

It checks that the arm sees no later tokens, notes which tokens were read, stops a run whose runner is gone, counts
processor time, and keeps the loss of every document.
"""

from __future__ import annotations

import hashlib
import os
import signal
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import models
from benchmarks.evaluation.causality import ALLOWED, leak
from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.reading import spans
from minigrad.data.tokens.token_files import TokenFile
from minigrad.errors import InputError
from minigrad.evaluate.measures import token_losses
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.module import in_evaluation
from minigrad.random import generator
from minigrad.training.run import Finding, Guest, Run
from minigrad.typing import Array

NOTED = 64
"""The first steps of a run, whose tokens are noted: by these, runs of one seed are recognised."""

_OVERLAP = 0.5


class Judge(Guest):
    """Watches one run of a study. `found` is what it says of the model, once the run is finished."""

    name = "judge"

    def __init__(self, arm: str, lengths: Sequence[int], *, leaks: bool) -> None:
        self.arm, self.lengths, self.leaks = arm, lengths, leaks
        self.runner, self.started = os.getppid(), 0.0
        self.steps, self.order = 0, ""
        self.found: dict[str, Any] = {}

    def clock(self) -> float:
        """Return the seconds of processor time since the first step, without the time that other programs have.

        A program on the other thread of the core, or one that fills the cache, still makes the run slower.
        """
        return time.process_time() - self.started if self.started else 0.0

    def begin(self, run: Run) -> None:
        """Raise InputError if the model sees later tokens, or if a leaky arm sees none."""
        self._check_leak(run, trained=False)

    def before_step(self, run: Run) -> None:
        """Start the clock; stop, as on SIGTERM, if the process that started this one has ended."""
        self.started = self.started or time.process_time()
        if os.getppid() != self.runner:
            os.kill(os.getpid(), signal.SIGTERM)

    def change(self, batch: Batch) -> Batch:
        """Note the tokens of the first steps."""
        if self.steps < NOTED:
            digest = hashlib.blake2b(self.order.encode(), digest_size=8)
            for array in (batch.tokens, batch.targets, batch.layout.offsets):
                digest.update(np.ascontiguousarray(array, np.int64).tobytes())
            self.steps, self.order = self.steps + 1, digest.hexdigest()
        return batch

    def state(self) -> Any:
        """Return what was noted, for a run that continues."""
        return {"steps": self.steps, "order": self.order}

    def restore(self, state: Any) -> None:
        """Restore the notes of an earlier process."""
        self.steps, self.order = int(state["steps"]), str(state["order"])

    def examine(self, run: Run) -> Finding:
        """Judge the trained model on validation text, each document by itself, and by its tasks."""
        self._check_leak(run, trained=True)
        text, documents = run.text, run.settings.documents
        self.found = {
            "order": self.order,
            "copy": copying(run.model),
            "documents": judged(run.model, text.validation, text.byte_lengths, self.lengths, documents),
        }
        return Finding("", {}, f"judged  {self.arm}, on sequences of {', '.join(map(str, self.lengths))} tokens")

    def _check_leak(self, run: Run, *, trained: bool) -> None:
        longest = max(run.settings.context, *self.lengths)
        check_leak(self.arm, leak(longer(run.model, longest), longest, trained=trained), self.leaks)


def check_leak(arm: str, found: float, expected: bool) -> None:
    """Raise InputError if an arm leaks that should not, or the other way round."""
    if found > ALLOWED and not expected:
        raise InputError(
            f"the arm {arm!r} sees later tokens: they change the logits before them by {found:.1g} of the largest. "
            "Its losses would say nothing. Fix the model, or declare the arm as a control with leaks = true"
        )
    if found <= ALLOWED and expected:
        raise InputError(f"the arm {arm!r} is declared with leaks = true, but no logit depends on a later token")


def judged(
    model: LanguageModel, tokens: TokenFile, byte_lengths: Array, lengths: Sequence[int], documents: str
) -> dict[str, list[list[float]]]:
    """Return for each length of the sequences a row for each document of a text.

    A row has the document's bytes, its tokens, their nats, and the number and the nats of the tokens that complete a
    pair of their sequence. Every token is predicted once, from at least half a sequence if its document is long enough.
    """
    found = {}
    for length in lengths:
        read = spans(documents, tokens, length)
        losses = token_losses(longer(model, length), read, byte_lengths, context=length, overlap=_OVERLAP)
        repeated = losses.repeated.astype(float)
        columns = (losses.num_bytes, None, losses.nats, repeated, repeated * losses.nats)
        rows = np.stack([np.bincount(losses.document, each) for each in columns], axis=1)
        found[str(length)] = [[round(float(value), 4) for value in row] for row in rows]
    return found


def longer(model: LanguageModel, length: int) -> LanguageModel:
    """Return the model, or a copy that reads longer sequences than the model was trained on."""
    if length <= model.config.context_length:
        return model
    if model.learns_positions:
        raise InputError(f"a model with learned positions cannot be judged on sequences of {length} tokens")
    copy = models.variant(model, context_length=length, dropout=0.0)
    copy.initialise(0, model.head().dtype)
    copy.load_state_dict(model.state_dict())
    return copy


def copying(model: LanguageModel, sequences: int = 32) -> float:
    """Return the nats per token of the second half of random tokens that are written twice; by chance, ln V.

    Only copying from the context predicts them: no text has these pairs.
    """
    half = min(64, model.config.context_length // 2)
    draw = generator(0, "copying").integers(model.config.vocab_size, size=(sequences, half))
    ids = np.concatenate([draw, draw], axis=1)
    with in_evaluation(model):
        losses = model.losses(ids[:, :-1], ids[:, 1:]).data
    return float(losses[:, half:].mean())
