"""Supervised fine-tuning: the model learns the answers of conversations."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch, join
from minigrad.errors import InputError
from minigrad.finetuning import teaching
from minigrad.finetuning.conversations import Conversation, conversations_in
from minigrad.finetuning.encoding import EncodedConversation, TaughtForm, encode_conversation, questions_of, reworded
from minigrad.finetuning.epochs import EpochSource
from minigrad.finetuning.tasks import problem, task_of
from minigrad.finetuning.teaching import Lessons, Student
from minigrad.formats.weights import hash_of_arrays
from minigrad.nn.layout import Layout
from minigrad.random import generator
from minigrad.system.units import plural
from minigrad.training.run import Finding
from minigrad.training.settings import RunSettings
from minigrad.typing import Array

_PROBLEMS = 2_000  # of a task


class SupervisedLearning(EpochSource, Lessons):
    """Conversations as the batches of a run; the loss of a step is the mean over the tokens of the answers.

    `reworded` are only asked at the end; `left_out` says which conversations cannot be taught, and why.
    """

    measured = teaching.OF_ANSWERS

    def __init__(
        self,
        conversations: Sequence[EncodedConversation],
        settings: RunSettings,
        form: TaughtForm,
        reworded: Sequence[EncodedConversation] = (),
        left_out: Sequence[str] = (),
    ) -> None:
        super().__init__(np.array([len(each.tokens) - 1 for each in conversations]), settings.context)
        self.conversations, self.form, self.reworded, self.left_out = conversations, form, reworded, left_out
        self.name, self.noise = settings.data, settings.question_noise or 0.0
        self.starts = np.cumsum(self.lengths) - self.lengths
        self.tokens = np.concatenate([np.array(each.tokens[:-1], np.int32) for each in conversations])
        self.targets = np.concatenate([each.targets() for each in conversations])
        self.questions = np.concatenate([each.in_questions() for each in conversations])

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the conversations of one step, a function of the arguments alone."""
        chosen = self.chosen(seed, step, batch_size)
        layout = Layout.packed(self.lengths[chosen])
        places = np.repeat(self.starts[chosen], layout.lengths) + layout.positions
        return join([Batch(self._noised(places, seed, step), self.targets[places], layout)])

    def _noised(self, places: Array, seed: int, step: int) -> Array:
        """Return the tokens in these places; a share `noise` of those in questions is drawn anew from all questions.

        The model then learns the answer to other wordings too (Xie et al. 2017, "Data noising as smoothing in neural
        network language models", arXiv 1703.02573, unigram noising).
        """
        tokens, draw = self.tokens[places], generator(seed, "question noise", step)
        changed = self.questions[places] & (draw.random(len(places)) < self.noise)
        if changed.any():
            tokens[changed] = draw.choice(self.tokens[self.questions], int(changed.sum()))
        return tokens

    def summary(self) -> str:
        """Describe the conversations, in words."""
        learned = int((self.targets != IGNORE).sum())
        return (
            f"{plural(len(self.conversations), 'conversation')} in {self.name}: {int(self.lengths.sum()):,} tokens, "
            f"{learned:,} of them in answers" + "".join(f"; left out: {each}" for each in self.left_out)
        )

    def fingerprint(self) -> str:
        """Return a hash of the tokens and targets."""
        return hash_of_arrays({"tokens": self.tokens, "targets": self.targets, "lengths": self.lengths})

    def measure(self, student: Student) -> dict[str, float]:
        """Measure how many taught questions the model answers, and its validation bits per byte."""
        return teaching.measure_answers(student, questions_of(self.conversations))

    def examine(self, student: Student, before: Mapping[str, float], bits_per_byte: float) -> Finding:
        """Ask the taught questions again, and compare with the answers before the first step."""
        asked, again = questions_of(self.conversations), questions_of(self.reworded)
        return teaching.examine_answers(student, before, bits_per_byte, asked, "taught questions", reworded=again)


def read_supervised(settings: RunSettings, form: TaughtForm) -> SupervisedLearning:
    """Read the conversations of a run.

    Raises InputError, with line and reason, for the first conversation that cannot be taught, without `skip_broken`.
    """
    task, left_out, encoded = task_of(settings.data), list[str](), list[EncodedConversation]()
    for read in conversations_in(settings.data) if task is None else _problems(task):
        try:
            encoded.append(encode_conversation(read(), form, settings.context))
        except InputError as error:
            if not settings.skip_broken:
                raise
            left_out.append(str(error))
    if not encoded:
        raise InputError(f"nothing in {settings.data} can be taught: {'; '.join(left_out)}")
    again = [] if task else [other for each in encoded for other in reworded(each, form, settings.context)]
    return SupervisedLearning(encoded, settings, form, again, left_out)


def _problems(task: str) -> list[Callable[[], Conversation]]:
    """Return solved problems of a task.

    None is kept for the examination of a run with rewards, but many are practised there again.
    """
    problems = (problem(task, 0, "course", number) for number in range(_PROBLEMS))
    pairs = (({"role": "user", "content": q}, {"role": "assistant", "content": a}) for q, a in problems)
    return [functools.partial(Conversation, pair, f"task {task}") for pair in pairs]
