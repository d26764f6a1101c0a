"""Learning from rewards: the model answers questions, a checker rewards right answers, an objective weights tokens.

One step draws several answers to each of some new questions, rewards the right ones, and returns the answers as
a batch in which every token has the weight that the objective gives it. Answers, rewards and weights are a function of
the weights of the model, the seed and the step, so a run that was stopped continues exactly.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping

import numpy as np

from minigrad.autograd.tensor import Tensor
from minigrad.data.split import digest_of
from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.errors import InputError
from minigrad.evaluate.answers import Question
from minigrad.finetuning import objectives, teaching
from minigrad.finetuning.conversations import Conversation
from minigrad.finetuning.encoding import EncodedConversation, TaughtForm, encode_conversation, questions_of
from minigrad.finetuning.rollouts import Rollouts, answer_log_probabilities, roll_out
from minigrad.finetuning.tasks import EXAMINATION, Problem, is_right, problem
from minigrad.finetuning.teaching import Lessons, Reward, Student
from minigrad.formats.weights import hash_of_arrays
from minigrad.nn.language_model import LanguageModel
from minigrad.training.run import Finding
from minigrad.training.settings import RunSettings
from minigrad.typing import Array

GROUP = 8
"""Answers to each question."""

_BY_REWARDS: dict[str, Callable[..., Tensor]] = {
    "reinforce": objectives.reinforce,
    "best-of-n": objectives.best_of_n,
    "grpo": objectives.grpo,
}
_EXAMINED = 200  # problems, which no step sees
_MEASURED = 100  # problems, from which the room for a question and for an answer is measured
_MARGIN = 2  # tokens that an answer may have beyond the longest right one


class RewardLearning(Lessons):
    """The batches of learning by rewards; `make_reference` loads the frozen model that the learning one began as."""

    form: TaughtForm
    measured = teaching.OF_ANSWERS

    def __init__(
        self,
        settings: RunSettings,
        task: str,
        form: TaughtForm,
        text: TokenizedCorpus,
        make_reference: Callable[[], LanguageModel],
    ) -> None:
        self.settings, self.task, self.form, self.text, self.make_reference = settings, task, form, text, make_reference
        self.ends = set(text.tokenizer.specials.values())
        measured = [self._lesson(problem(task, 0, "measuring", each)) for each in range(_MEASURED)]
        self.most_prompt = max(begin for lesson in measured for begin, _ in lesson.answers)
        self.most_answer = max(end - begin for lesson in measured for begin, end in lesson.answers) + _MARGIN
        self.model: LanguageModel | None = None
        self.read_by_teacher = float(settings.objective == "grpo")

    @property
    def teacher(self) -> LanguageModel | None:
        """The reference of GRPO, which reads every answer too."""
        return self.make_reference() if self.read_by_teacher else None

    def begin(self, model: LanguageModel) -> None:
        """Take the model."""
        self.model = model

    def measure(self, student: Student) -> dict[str, float]:
        """Measure how many problems the model solves before the first step, and its validation bits per byte."""
        return teaching.measure_answers(student, questions_of(self._examined()), self._judge)

    def examine(self, student: Student, before: Mapping[str, float], bits_per_byte: float) -> Finding:
        """Let the model solve problems that no step saw, and compare with its score before the first step."""
        asked = questions_of(self._examined())
        return teaching.examine_answers(student, before, bits_per_byte, asked, "unseen problems", judge=self._judge)

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return answers to the questions of one step, their tokens weighted by the objective.

        Every weight is 0 where all answers to each question are equally good: GRPO alone would still step towards its
        reference.
        """
        assert self.model is not None
        count = self._questions(batch_size)
        problems = [problem(self.task, seed, "practice", step * count + each) for each in range(count)]
        prompts = [self.form.encode([{"role": "user", "content": each.question}]) for each in problems]
        room = self.settings.context + 1 - max(map(len, prompts))  # the last token of an answer is not read
        most = max(1, min(self.most_answer, room))
        rollouts = roll_out(self.model, prompts, group=GROUP, tokens=most, ends=self.ends, seed=seed, step=step)
        rewards = self._rewards(problems, rollouts)
        of_question = rewards.reshape(-1, GROUP)
        self.reward = Reward(float(rewards.mean()), bool(np.ptp(of_question, axis=1).any()))
        if not self.reward.differs:
            return rollouts.batch(np.zeros(len(rollouts.log_probs)))
        return rollouts.batch(objectives.token_weights(self._objective(rollouts, rewards), rollouts.log_probs))

    def _rewards(self, problems: list[Problem], rollouts: Rollouts) -> Array:
        """Return 1 for an answer that is right and has ended, else 0: (answers,)."""
        asked = [each for each in problems for _ in range(GROUP)]
        pairs = zip(asked, rollouts.answers, strict=True)
        return np.array([self._is_right(each, ids) for each, ids in pairs], np.float64)

    def _is_right(self, each: Problem, ids: list[int]) -> bool:
        has_ended = bool(ids) and ids[-1] in self.ends and max(ids) < self.text.tokenizer.vocab_size
        return has_ended and is_right(each, self.text.tokenizer.decode(ids[:-1]))

    def _judge(self, question: Question, ids: list[int]) -> bool:
        """Whether an answer would be rewarded, in whichever tokens it is written."""
        return self._is_right(Problem(question.text, question.answer), ids)

    def _objective(self, rollouts: Rollouts, rewards: Array) -> Callable[[Tensor], Tensor]:
        extra: dict[str, Array] = {}
        if (reference := self.teacher) is not None:
            extra = {"old": rollouts.log_probs, "reference": answer_log_probabilities(reference, rollouts)}
        function = _BY_REWARDS[str(self.settings.objective)]
        return functools.partial(function, offsets=rollouts.offsets, rewards=rewards, group=GROUP, **extra)

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens that the steps before `step` have room for; shorter answers leave some of it."""
        return step * self._questions(batch_size) * GROUP * self._room

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return 0: each step draws questions of its own, without end."""
        return 0

    def attended_length(self) -> float:
        """Return the length of the sequence of a token: a question and its answer."""
        return float(self._room)

    def describe(self, batch_size: int) -> str:
        """Return what a step reads, in words."""
        return f": {self._questions(batch_size)} questions with {GROUP} answers each"

    def summary(self) -> str:
        """Describe the problems, in words."""
        shown = problem(self.task, 0, "measuring", 0)
        return f"{self.task}, as in {shown.question!r}: {shown.answer!r}; an answer has up to {self.most_answer} tokens"

    def fingerprint(self) -> str:
        """Return a hash of the problems that are examined, as tokens, and of the weights of the reference."""
        problems = str((GROUP, self.most_answer, [lesson.tokens for lesson in self._examined()]))
        return digest_of([problems, hash_of_arrays(self.teacher.state_dict() if self.teacher is not None else {})])

    @property
    def _room(self) -> int:
        return self.most_prompt + self.most_answer

    def _questions(self, batch_size: int) -> int:
        return max(1, batch_size * self.settings.context // (GROUP * self._room))

    def _examined(self) -> list[EncodedConversation]:
        return [self._lesson(problem(self.task, 0, EXAMINATION, each)) for each in range(_EXAMINED)]

    def _lesson(self, each: Problem) -> EncodedConversation:
        messages = ({"role": "user", "content": each.question}, {"role": "assistant", "content": each.answer})
        context = self.settings.context
        lesson = encode_conversation(Conversation(messages, f"task {self.task}"), self.form, sys.maxsize)
        if len(lesson.tokens) - 1 > context - _MARGIN:
            raise InputError(
                f"a question of {self.task} with its answer has {len(lesson.tokens)} tokens, and --context is "
                f"{context}: take a --context of at least {len(lesson.tokens) - 1 + _MARGIN}, if the model allows it"
            )
        return lesson
