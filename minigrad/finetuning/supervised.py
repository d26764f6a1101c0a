"""The batches of a course: conversations to learn, each of them once in an epoch, and none of them cut."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence

import numpy as np

from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch, join
from minigrad.errors import InputError
from minigrad.finetuning import outcome
from minigrad.finetuning.conversations import Conversation, forgiving, read_conversations
from minigrad.finetuning.encoding import ChatForm, EncodedConversation, encode_conversation, questions_of, reworded
from minigrad.finetuning.epochs import Epochs
from minigrad.finetuning.tasks import problem, task_of
from minigrad.nn.layout import Layout
from minigrad.random import generator
from minigrad.system.units import plural
from minigrad.training.run import Finding, Run
from minigrad.training.settings import RunSettings
from minigrad.typing import Array

_PROBLEMS = 2_000  # of a task


class SupervisedLearning:
    """Conversations to learn as the batches of a run; the loss of a step is the mean over the tokens of the answers.

    `reworded` are lessons with their questions in other words, which are asked in the end and never taught; `left_out`
    says which conversations cannot be taught, and why.
    """

    reward = None  # nothing is rewarded: everything that is read is right
    teacher = None

    def __init__(
        self,
        lessons: Sequence[EncodedConversation],
        settings: RunSettings,
        form: ChatForm,
        reworded: Sequence[EncodedConversation] = (),
        left_out: Sequence[str] = (),
    ) -> None:
        self.lessons, self.form, self.reworded, self.left_out = lessons, form, reworded, left_out
        self.context, self.name, self.noise = settings.context, settings.data, settings.question_noise or 0.0
        self.lengths = np.array([len(lesson.tokens) - 1 for lesson in lessons])
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.tokens = np.concatenate([np.array(lesson.tokens[:-1], np.int32) for lesson in lessons])
        self.targets = np.concatenate([lesson.targets() for lesson in lessons])
        asked = zip(self.starts, lessons, strict=True)
        self.questions = np.zeros(len(self.tokens), bool)
        self.questions[
            [start + place for start, each in asked for place in each.questions if place < len(each.tokens) - 1]
        ] = True

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the conversations of one step, a function of the arguments alone."""
        chosen = self._deal(batch_size).chosen(seed, step)
        places = _places(self.starts[chosen], self.lengths[chosen])
        return join(
            [Batch(self._noised(places, seed, step), self.targets[places], Layout.packed(self.lengths[chosen]))]
        )

    def _noised(self, places: Array, seed: int, step: int) -> Array:
        """Return the tokens in these places, with a share `noise` of the questions' tokens drawn anew.

        They become tokens of any questions, as often as these have them. An answer is then learned for a question in
        which not every word is as expected, and so for other words too (Xie et al. 2017, "Data noising as smoothing in
        neural network language models", arXiv 1703.02573, unigram noising).
        """
        tokens, draw = self.tokens[places], generator(seed, "question noise", step)
        changed = self.questions[places] & (draw.random(len(places)) < self.noise)
        if changed.any():
            tokens[changed] = draw.choice(self.tokens[self.questions], int(changed.sum()))
        return tokens

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens that the steps before `step` read."""
        return self._deal(batch_size).tokens_before(seed, step)

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens of all conversations."""
        return int(self.lengths.sum())

    def attended_length(self) -> float:
        """Return the length of the sequence of a token, averaged over the tokens."""
        return float((self.lengths**2).sum() / self.lengths.sum())

    def describe(self, batch_size: int) -> str:
        """Return what a step reads, in words."""
        return f": about {len(self.lessons) / self._deal(batch_size).steps_per_epoch:.2g} conversations"

    def summary(self) -> str:
        """Describe the data, in words."""
        learned = int((self.targets != IGNORE).sum())
        return (
            f"{plural(len(self.lessons), 'conversation')} in {self.name}: {int(self.lengths.sum()):,} tokens, "
            f"{learned:,} of them in answers" + "".join(f"; left out: {each}" for each in self.left_out)
        )

    def fingerprint(self) -> str:
        """Return a hash of the tokens, and of the mask of learned tokens."""
        digest = hashlib.blake2b(digest_size=16)
        for array in (self.tokens, self.targets, self.lengths):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def begin(self, run: Run) -> None:
        """Note in minigrad.json how many taught questions the model answers, and its validation bits per byte."""
        if run.world.rank == 0:
            self.form.save(run.folder.path)
        outcome.measure_before(run, questions_of(self.lessons))

    def examine(self, run: Run) -> Finding:
        """Ask the taught questions again, and compare with the measurement before the first step."""
        return outcome.examine(run, questions_of(self.lessons), "taught answers", questions_of(self.reworded))

    def _deal(self, batch_size: int) -> Epochs:
        return Epochs(self.lengths, batch_size * self.context)


def _places(starts: Array, lengths: Array) -> Array:
    """Return the rows of sequences that begin at `starts` and have these lengths."""
    return np.repeat(starts, lengths) + Layout.packed(lengths).positions


def read_supervised(settings: RunSettings, form: ChatForm, ends: Collection[int]) -> SupervisedLearning:
    """Read the conversations of a run; raises InputError, with line and reason, for the first that cannot be taught.
    With `skip_broken`, such conversations are left out, and named in the plan.

    `ends` are the ids of the special tokens; one of them ends every answer.
    """
    task = task_of(settings.data)
    left_out: list[str] | None = [] if settings.skip_broken else None
    conversations = read_conversations(settings.data, left_out) if task is None else _conversations_of(task)
    found = list[EncodedConversation]()
    for each in conversations:
        with forgiving(left_out):
            found.append(encode_conversation(each, form, ends, settings.context))
    if not found:
        raise InputError(f"nothing in {settings.data} can be taught: {'; '.join(left_out or ())}")
    asked = [] if task else [again for each in found for again in reworded(each, form, ends, settings.context)]
    return SupervisedLearning(found, settings, form, asked, left_out or ())


def _conversations_of(task: str) -> list[Conversation]:
    """Return solved problems of a task that are neither practised nor examined later."""
    problems = (problem(task, 0, "course", number) for number in range(_PROBLEMS))
    pairs = (({"role": "user", "content": q}, {"role": "assistant", "content": a}) for q, a in problems)
    return [Conversation(pair, f"task {task}") for pair in pairs]
