"""From the objective of a run to its training data."""

from __future__ import annotations

import functools
from collections.abc import Callable

from minigrad.data.tokens.reading import training_source
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.errors import InputError
from minigrad.finetuning.distillation import Distillation
from minigrad.finetuning.encoding import ChatForm
from minigrad.finetuning.preferences import PreferenceLearning, read_preferences
from minigrad.finetuning.replay import Replay
from minigrad.finetuning.rewards import RewardLearning
from minigrad.finetuning.supervised import read_supervised
from minigrad.finetuning.tasks import PREFIX, TASKS, task_of
from minigrad.finetuning.teaching import Lessons
from minigrad.nn.language_model import LanguageModel
from minigrad.training.settings import RunSettings
from minigrad.typing import Tokenizer


def lessons_for(
    settings: RunSettings,
    form: ChatForm,
    text: TokenizedCorpus,
    load_model: Callable[[str], LanguageModel],
    load_tokenizer: Callable[[str], Tokenizer],
) -> Lessons:
    """Return what a run with an objective trains on.

    `form` is the form of the model's conversations, `text` the text of its pre-training; the last two arguments load a
    model and a tokenizer from a folder.
    Raises InputError for data or a teacher that the objective cannot use.
    """

    @functools.cache  # one copy is enough for all who ask
    def make_reference() -> LanguageModel:
        try:
            return load_model(settings.init or "")
        except InputError as error:
            raise InputError(
                f"--objective {settings.objective} compares what is learned with the model in {settings.init}, as it "
                f"was before, also when a run continues: {error}"
            ) from error

    if settings.teacher is not None:
        if load_tokenizer(settings.teacher).fingerprint() != text.tokenizer.fingerprint():
            raise InputError(
                f"--teacher {settings.teacher} has another tokenizer than the student, so its probabilities are of "
                "other tokens, and cannot be compared; take a student without --tokenizer and --init, which gets that "
                "of the teacher, or let the teacher write a text and give it as --data (docs/teaching.md)"
            )
        return Distillation(settings, text, load_model(settings.teacher))
    lessons = _taught(settings, form, text, make_reference)
    if not settings.replay:
        return lessons
    replayed = training_source(settings.documents, text.train, settings.context)
    return Replay(lessons, replayed, settings.context, settings.replay, make_reference())


def _taught(
    settings: RunSettings, form: ChatForm, text: TokenizedCorpus, make_reference: Callable[[], LanguageModel]
) -> Lessons:
    """Return the data that teaches a trained model."""
    ends = set(text.tokenizer.specials.values())
    if settings.objective == "sft":
        return read_supervised(settings, form, ends)
    if settings.objective == "dpo":
        pairs = read_preferences(settings.data, form, ends, settings.context)
        return PreferenceLearning(settings, pairs, form, make_reference)
    task = task_of(settings.data)
    if task is None:
        raise InputError(
            f"--objective {settings.objective} learns from rewards, which need a task with a checker: --data "
            f"{PREFIX}{' or '.join(TASKS)}"
        )
    return RewardLearning(settings, task, form, text, make_reference)
