"""Preferences: pairs of answers to a question, one chosen and one rejected, from which DPO learns.

    {"messages": [{"role": "user", "content": "Hi!"}], "chosen": "Hello.", "rejected": "What?"}      a line of a .jsonl

Every tenth question is held out, with all its pairs, to measure learning on questions that no step saw.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from minigrad.data.split import digest_of
from minigrad.data.tokens.batches import Batch
from minigrad.errors import InputError
from minigrad.finetuning import objectives, teaching
from minigrad.finetuning.conversations import Conversation, Message, json_objects, messages_in
from minigrad.finetuning.encoding import TaughtForm, encode_conversation
from minigrad.finetuning.epochs import EpochSource
from minigrad.finetuning.rollouts import Rollouts, answer_log_probabilities
from minigrad.finetuning.teaching import Lessons, Student
from minigrad.formats.weights import hash_of_arrays
from minigrad.nn.language_model import LanguageModel
from minigrad.system.units import plural
from minigrad.training.run import Finding
from minigrad.training.settings import RunSettings
from minigrad.typing import Array

_EVERY = 10  # the tenth question is held out, with all its pairs
_TOGETHER = 32  # pairs whose log-probabilities are computed at once


class Pair(NamedTuple):
    """The tokens of a prompt, of its chosen answer and of its rejected one, each with its end token."""

    prompt: list[int]
    chosen: list[int]
    rejected: list[int]

    @property
    def length(self) -> int:
        """The number of tokens of both sequences."""
        return 2 * len(self.prompt) + len(self.chosen) + len(self.rejected) - 2


def read_preferences(path: str | Path, form: TaughtForm, context: int) -> list[Pair]:
    """Return the pairs in a file of JSON lines.

    Raises InputError for a line that is not a pair, two equal answers, or an answer that exceeds the context.
    """
    pairs = []
    for place, record in json_objects(Path(path)):
        answers = [record.get(name) for name in ("chosen", "rejected")]
        if not all(isinstance(each, str) and each.strip() for each in answers):
            raise InputError(f'{place} lacks one of the answers: expected texts in the fields "chosen" and "rejected"')
        if answers[0] == answers[1]:
            raise InputError(f"{place}: the chosen answer and the rejected one are the same: nothing can be learned")
        asked = messages_in(record, place)
        found = []
        for answer in answers:
            messages: tuple[Message, ...] = (*asked, {"role": "assistant", "content": str(answer)})
            lesson = encode_conversation(Conversation(messages, place).checked(), form, context)
            found.append((lesson.tokens, lesson.answers[-1]))
        (chosen, (begin, end)), (rejected, (_, other_end)) = found
        pairs.append(Pair(chosen[:begin], chosen[begin:end], rejected[begin:other_end]))
    if not pairs:
        raise InputError(f"{path} holds no pair of answers")
    return pairs


class PreferenceLearning(EpochSource, Lessons):
    """The batches of learning from preferences; `make_reference` loads the model that the learning one began as.

    The log-probabilities of the reference are computed once, before the first step of a process; then it is kept only
    if text is replayed, whose probabilities it gives.
    """

    unit = "pairs of answers"
    least = 2  # both answers of a pair belong to one step, and each may be as long as the context

    def __init__(
        self,
        settings: RunSettings,
        pairs: Sequence[Pair],
        form: TaughtForm,
        make_reference: Callable[[], LanguageModel],
    ) -> None:
        self.settings, self.form, self.make_reference = settings, form, make_reference
        questions = list(dict.fromkeys(tuple(pair.prompt) for pair in pairs))
        held_out = set(questions[_EVERY - 1 :: _EVERY])
        self.held_out = [pair for pair in pairs if tuple(pair.prompt) in held_out]
        self.pairs = [pair for pair in pairs if tuple(pair.prompt) not in held_out]
        super().__init__(np.array([pair.length for pair in self.pairs]), settings.context)
        self.model: LanguageModel | None = None
        self.reference: list[Array] = []  # of each pair, the log-probabilities of the tokens of both answers
        self.held_out_reference: list[Array] = []

    def begin(self, model: LanguageModel) -> None:
        """Take the model, and compute the log-probabilities of its reference."""
        self.model, reference = model, self.make_reference()
        self.reference = _log_probs_of(reference, self.pairs)
        self.held_out_reference = _log_probs_of(reference, self.held_out)
        del self.make_reference  # it keeps the model that it made

    def measure(self, student: Student) -> dict[str, float]:
        """Measure the bits per byte of the validation text before the first step."""
        return teaching.measure(student)

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the pairs of one step, their tokens weighted by DPO."""
        assert self.model is not None
        chosen = self.chosen(seed, step, batch_size)
        rollouts = _as_rollouts([self.pairs[number] for number in chosen])
        now = answer_log_probabilities(self.model, rollouts)
        reference = np.concatenate([self.reference[number] for number in chosen])
        dpo = functools.partial(objectives.dpo, offsets=rollouts.offsets, reference=reference, chosen=objectives.CHOSEN)
        return rollouts.batch(objectives.token_weights(dpo, now))

    def examine(self, student: Student, before: Mapping[str, float], bits_per_byte: float) -> Finding:
        """Compare the held-out pairs and the loss on the text with their values before the first step."""
        pairs, reference = self.held_out or self.pairs, self.held_out_reference or self.reference
        raised = [
            [part.sum() for part in np.split(now - known, [len(pair.chosen)])]
            for pair, now, known in zip(pairs, _log_probs_of(student.model, pairs), reference, strict=True)
        ]
        chosen, rejected = np.array(raised).T
        share, margin = float((chosen > rejected).mean()), float((chosen - rejected).mean())
        which = "held-out pairs" if self.held_out else "learned pairs"
        learned = (
            f"In {100 * share:.0f}% of {len(pairs):,} {which} the chosen answer gained on the rejected one; the mean "
            f"gain over all of them is {margin:.2f} nats: chosen answers changed by {chosen.mean():+.2f}, rejected "
            f"ones by {rejected.mean():+.2f} nats."
        )
        figures = {"preferred": share, "margin": margin, "chosen": float(chosen.mean())}
        return teaching.finding(learned, figures, before["bits_per_byte"], bits_per_byte)

    def attended_length(self) -> float:
        """Return the length of the sequence of a token, averaged over the tokens: about half of its pair."""
        return super().attended_length() / 2

    def summary(self) -> str:
        """Describe the data, in words."""
        none = f"; with fewer than {_EVERY} different questions none is held out"
        held_out = f", {len(self.held_out):,} more are held out" if self.held_out else none
        return f"{plural(len(self.pairs), 'pair')} of answers in {self.settings.data}{held_out}"

    def fingerprint(self) -> str:
        """Return a hash of all pairs, as tokens, and of the weights of the reference."""
        return digest_of([str((self.pairs, self.held_out)), hash_of_arrays(self.make_reference().state_dict())])


def _as_rollouts(pairs: Sequence[Pair]) -> Rollouts:
    """Return both answers of each pair, the chosen one first."""
    prompts = [pair.prompt for pair in pairs for _ in range(2)]
    return Rollouts(prompts, [answer for pair in pairs for answer in (pair.chosen, pair.rejected)], np.zeros(0))


def _log_probs_of(model: LanguageModel, pairs: Sequence[Pair]) -> list[Array]:
    """Return for each pair the log-probabilities of the tokens of both answers, one after the other."""
    found: list[Array] = []
    for first in range(0, len(pairs), _TOGETHER):
        rollouts = _as_rollouts(pairs[first : first + _TOGETHER])
        log_probs = answer_log_probabilities(model, rollouts)
        found += np.split(log_probs, rollouts.offsets[2:-1:2])
    return found
