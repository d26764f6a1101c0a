"""Replay: a taught model also reads text of its pre-training, so that it does not forget it.

Reading old text again while something new is learned is called replay or rehearsal (Ratcliff 1990, "Connectionist
models of recognition memory"; Robins 1995, "Catastrophic forgetting, rehearsal and pseudorehearsal"). Replay keeps not
the text, which the model never knew by heart, but the model's predictions of it: so a frozen copy of the model as it
began reads the replayed text too, and the loss is the divergence from its probabilities (Buzzega et al. 2020, "Dark
experience for general continual learning", arXiv 2004.07211; Li and Hoiem 2016, "Learning without forgetting"). At the
first step this loss and its gradient are zero, where those of the text itself would pull at every weight with the noise
of a few tokens.
"""

from __future__ import annotations

import bisect
import dataclasses
import functools
from typing import Any

import numpy as np

from minigrad.data.split import digest_of
from minigrad.data.tokens.batches import Batch, join
from minigrad.data.tokens.source import Source
from minigrad.finetuning.distillation import compile_kernels, with_teacher_outputs
from minigrad.finetuning.teaching import Lessons
from minigrad.formats.weights import hash_of_arrays
from minigrad.nn.language_model import LanguageModel
from minigrad.ops.distillation import TeacherOutputs


class Replay:
    """Any lessons, with text beside them: a share of the loss of each step, and about that share of its tokens.

    The loss of a step is ``1 - share`` times that of the lessons plus `share` times the mean over the text. `teacher`
    is the frozen model whose probabilities of the text are to be kept.
    """

    learns_text = False  # it keeps what the model knows

    def __init__(self, lessons: Lessons, text: Source, context: int, share: float, teacher: LanguageModel):
        self.lessons, self.text, self.context, self.share, self.teacher = lessons, text, context, share, teacher
        self.form, self.reward, self.summary = lessons.form, lessons.reward, lessons.summary
        self.measure, self.measured, self.examine = lessons.measure, lessons.measured, lessons.examine
        self.read_by_teacher = share + (1 - share) * lessons.read_by_teacher  # a reference is the same model
        teacher.freeze().eval()

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the lessons of one step and the text read with them; the lessons alone if they teach nothing."""
        taught = self.lessons.batch(seed=seed, step=step, batch_size=self._room(batch_size))
        self.reward = self.lessons.reward
        if not taught.teaches:
            return taught
        text = self.text.batch(seed=seed, step=step, batch_size=self._replayed(batch_size))
        count = taught.num_targets + text.num_targets
        taught = _weighted(taught, count * (1 - self.share) / max(taught.num_targets, 1))
        text = _weighted(text, count * self.share / max(text.num_targets, 1))
        text = with_teacher_outputs(text, self.teacher)
        outputs: Any = text.objective
        no_rows = np.zeros((len(taught.tokens), outputs.rows.shape[1]), outputs.rows.dtype)
        taught = dataclasses.replace(taught, objective=TeacherOutputs(no_rows, outputs.head, share=0.0))
        return join([taught, text])

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens, those of the text included, that the steps before `step` read."""
        taught = self.lessons.tokens_before(step, seed=seed, batch_size=self._room(batch_size))
        return taught + self.text.tokens_before(step, seed=seed, batch_size=self._replayed(batch_size))

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens that are read while all lessons are read once."""
        room = self._room(batch_size)
        whole = self.lessons.tokens_per_pass(room)
        taught = functools.partial(self.lessons.tokens_before, seed=0, batch_size=room)
        steps = bisect.bisect_left(range(whole), whole, key=taught)  # each reads a token or more
        return self.tokens_before(steps, seed=0, batch_size=batch_size)

    def attended_length(self) -> float:
        """Return the length of the sequence of a token, averaged over the tokens."""
        return (1 - self.share) * self.lessons.attended_length() + self.share * self.text.attended_length()

    def describe(self, batch_size: int) -> str:
        """Return what a step reads, in words."""
        text = f"{self._replayed(batch_size) * self.context:,} tokens of text"
        return f"{self.lessons.describe(self._room(batch_size))} and {text}"

    def fingerprint(self) -> str:
        """Return a hash of the lessons, of the share of the text, and of the weights of the frozen model."""
        return digest_of([self.lessons.fingerprint(), str(self.share), hash_of_arrays(self.teacher.state_dict())])

    def begin(self, model: LanguageModel) -> None:
        """Compile the kernels of the divergence; begin the lessons. Both models share weights that adapters leave."""
        frozen = {name: each for name, each in model.named_parameters() if not each.requires_grad}
        for name, parameter in self.teacher.named_parameters():
            if name in frozen:
                parameter.bind(frozen[name].data)
        few = self.text.batch(seed=0, step=0, batch_size=1)
        compile_kernels(model, with_teacher_outputs(few, self.teacher))
        self.lessons.begin(model)

    def _replayed(self, batch_size: int) -> int:
        """Return how much of the text a step reads, in multiples of the context."""
        return max(1, min(batch_size - 1, round(self.share * batch_size)))

    def _room(self, batch_size: int) -> int:
        """Return how much room for lessons a step has, in multiples of the context."""
        return max(1, batch_size - self._replayed(batch_size))


def _weighted(batch: Batch, weight: float) -> Batch:
    by_row = np.full(len(batch.tokens), weight, np.float32)
    return dataclasses.replace(batch, weights=by_row if batch.weights is None else by_row * batch.weights)
