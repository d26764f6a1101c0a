"""The batches of a course: conversations to learn, and text of the pre-training, so that it is not forgotten.

Reading old text again while something new is learned is called replay or rehearsal (Ratcliff 1990, "Connectionist
models of recognition memory"; Robins 1995, "Catastrophic forgetting, rehearsal and pseudorehearsal"). What is to be
kept is not the text, which the model never knew by heart, but what the model said of it: so a frozen copy of the model
as it began reads the replayed text too, and the loss is the divergence from its probabilities (Buzzega et al. 2020,
"Dark experience for general continual learning", arXiv 2004.07211; Li and Hoiem 2016, "Learning without forgetting").
At the first step this loss and its gradient are zero, where those of the text itself would pull at every weight with
the noise of a few tokens.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from minigrad.autograd.graph import no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.constants import IGNORE
from minigrad.data.batches import Batch, join
from minigrad.data.reading import Source, training_source
from minigrad.data.tokenized import TokenizedCorpus
from minigrad.finetuning import examination
from minigrad.finetuning.conversations import Conversation, read_conversations
from minigrad.finetuning.dealing import Deal
from minigrad.finetuning.lessons import ChatForm, Lesson, encode_lesson, reworded
from minigrad.finetuning.tasks import problem, task_of
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout
from minigrad.random import generator
from minigrad.system.units import plural
from minigrad.training.run import Run
from minigrad.training.settings import RunSettings
from minigrad.training.teaching import Taught
from minigrad.typing import Array, Teaching

_PROBLEMS = 2_000  # of a task


class Course:
    """Conversations to learn as the batches of a run: a share `replay` of each step is text, read by `text`.

    `reworded` are lessons with their questions in other words, which are asked in the end and never taught.
    `teacher` is the frozen model whose probabilities of the replayed text are to be kept; without one the text itself
    is learned.

    Every conversation is read once in an epoch, and none is cut (`Deal`). The loss of a step is ``1 - replay`` times
    the mean over the answers plus `replay` times the mean over the text, whatever the lengths of the two.
    """

    reward = None  # nothing is rewarded: everything that is read is right

    def __init__(
        self,
        lessons: Sequence[Lesson],
        text: Source,
        settings: RunSettings,
        form: ChatForm,
        reworded: Sequence[Lesson] = (),
        teacher: LanguageModel | None = None,
    ) -> None:
        if teacher is not None:
            teacher.freeze().eval()
        self.teacher = teacher
        self.lessons, self.text, self.form, self.reworded = lessons, text, form, reworded
        self.context, self.replay, self.name = settings.context, settings.replay or 0.0, settings.data
        self.noise = settings.question_noise or 0.0
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
        """Return the conversations of one step and the text read with them, a function of the arguments alone."""
        chosen = self._deal(batch_size).chosen(seed, step)
        places = _places(self.starts[chosen], self.lengths[chosen])
        taught = Batch(self._noised(places, seed, step), self.targets[places], Layout.packed(self.lengths[chosen]))
        if not self.replay:
            return join([taught])
        text = self.text.batch(seed=seed, step=step, batch_size=self._replayed(batch_size))
        count = taught.num_targets + text.num_targets
        shares = ((taught, 1 - self.replay), (text, self.replay))
        parts = [_weighted(part, count * share / max(part.num_targets, 1)) for part, share in shares]
        return join(parts if self.teacher is None else [self._told(part, part is parts[1]) for part in parts])

    def _noised(self, places: Array, seed: int, step: int) -> Array:
        """Return the tokens in these places, of which a share `noise` of those of questions are drawn anew.

        They become tokens of any questions, as often as these have them. An answer is then learned for a question in
        which not every word is as expected, and so for other words too (Xie et al. 2017, "Data noising as smoothing in
        neural network language models", arXiv 1703.02573, unigram noising).
        """
        tokens, draw = self.tokens[places], generator(seed, "question noise", step)
        changed = self.questions[places] & (draw.random(len(places)) < self.noise)
        if changed.any():
            tokens[changed] = draw.choice(self.tokens[self.questions], int(changed.sum()))
        return tokens

    def _told(self, part: Batch, is_text: bool) -> Batch:
        """Return a part with what the frozen model says of it: everything of the text, nothing of the answers."""
        assert self.teacher is not None
        head = self.teacher.head().data
        if is_text:
            with no_grad():
                rows = self.teacher.hidden(Tensor(part.tokens), part.layout).data
        else:
            rows = np.zeros((len(part.tokens), head.shape[1]), head.dtype)
        return dataclasses.replace(part, teaching=Teaching(rows, head, share=float(is_text)))

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens, those of the text included, that the steps before `step` read."""
        taught = self._deal(batch_size).tokens_before(seed, step)
        return taught + self.text.tokens_before(step, seed=seed, batch_size=self._replayed(batch_size))

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens that are read while every conversation is read once."""
        return self.tokens_before(self._deal(batch_size).steps_per_epoch, seed=0, batch_size=batch_size)

    def attended_length(self) -> float:
        """Return the length of the sequence of a token, averaged over the tokens."""
        taught = float((self.lengths**2).sum() / self.lengths.sum())
        return (1 - self.replay) * taught + self.replay * self.text.attended_length()

    def describe(self, batch_size: int) -> str:
        """Return what a step reads, in words."""
        count = len(self.lessons) / self._deal(batch_size).steps_per_epoch
        text = f" and {self._replayed(batch_size) * self.context:,} tokens of text" if self.replay else ""
        return f": about {count:.2g} conversations{text}"

    def summary(self) -> str:
        """Return what is taught, in words."""
        learned = int((self.targets != IGNORE).sum())
        return (
            f"{plural(len(self.lessons), 'conversation')} in {self.name}: {int(self.lengths.sum()):,} tokens, "
            f"{learned:,} of them in answers"
        )

    def fingerprint(self) -> str:
        """Return a hash of the tokens, of those that are learned, and of the share of the text."""
        digest = hashlib.blake2b(str(self.replay).encode(), digest_size=16)
        kept = [] if self.teacher is None else self.teacher.state_dict().values()
        for array in (self.tokens, self.targets, self.lengths, *kept):
            digest.update(array.tobytes())
        return digest.hexdigest()

    def begin(self, run: Run) -> None:
        """Note in minigrad.json how many taught questions the model answers, and its held-out bits per byte."""
        if run.world.rank == 0:
            self.form.save(run.folder.path)
        if self.teacher is not None:  # compile the kernel of the loss
            with no_grad():
                few = self._told(self.text.batch(seed=0, step=0, batch_size=1), True)
                run.model.loss(few.tokens, few.targets, layout=few.layout, teaching=few.teaching)
        examination.measure_before(run, self.lessons)

    def examine(self, run: Run) -> Taught:
        """Ask the taught questions again, and compare with what was measured before the first step."""
        return examination.examine(run, self.lessons, "taught answers", self.reworded)

    def _replayed(self, batch_size: int) -> int:
        """Return how many times the context a step reads of the text."""
        return max(1, round(self.replay * batch_size)) if self.replay else 0

    def _deal(self, batch_size: int) -> Deal:
        return Deal(self.lengths, max(1, batch_size - self._replayed(batch_size)) * self.context)


def _weighted(batch: Batch, weight: float) -> Batch:
    return dataclasses.replace(batch, weights=np.full(len(batch.tokens), weight, np.float32))


def _places(starts: Array, lengths: Array) -> Array:
    """Return the rows of sequences that begin at `starts` and have these lengths."""
    return np.repeat(starts, lengths) + Layout.packed(lengths).positions


def read_course(
    settings: RunSettings, form: ChatForm, text: TokenizedCorpus, make_teacher: Callable[[], LanguageModel]
) -> Course:
    """Read the conversations of a run; raises InputError, with line and reason, for the first that cannot be taught.

    `make_teacher` loads the model as it began. With adapters the text itself is replayed: a second copy of a large
    model would take the memory that adapters save.
    """
    ends = set(text.tokenizer.specials.values())
    task = task_of(settings.data)
    conversations = read_conversations(settings.data) if task is None else _conversations_of(task)
    found = [encode_lesson(each, form, ends, settings.context) for each in conversations]
    replayed = training_source(settings.documents, text.train, settings.context)
    asked = [] if task else [again for each in found for again in reworded(each, form, ends, settings.context)]
    teacher = make_teacher() if settings.replay and not settings.adapter_rank else None
    return Course(found, replayed, settings, form, asked, teacher)


def _conversations_of(task: str) -> list[Conversation]:
    """Return solved problems of a task, none of which is practised or examined later."""
    problems = (problem(task, 0, "course", number) for number in range(_PROBLEMS))
    pairs = (({"role": "user", "content": q}, {"role": "assistant", "content": a}) for q, a in problems)
    return [Conversation(pair, f"task {task}") for pair in pairs]
