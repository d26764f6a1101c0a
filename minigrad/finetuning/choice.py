"""From the objective of a run to what it trains on."""

from __future__ import annotations

from collections.abc import Callable

from minigrad.data.tokenized import TokenizedCorpus
from minigrad.errors import InputError
from minigrad.finetuning.course import read_course
from minigrad.finetuning.lessons import ChatForm
from minigrad.finetuning.practice import Practice
from minigrad.finetuning.preferences import Preferences, read_preferences
from minigrad.finetuning.tasks import PREFIX, TASKS, task_of
from minigrad.nn.language_model import LanguageModel
from minigrad.training.settings import RunSettings
from minigrad.training.teaching import Lessons


def lessons_for(
    settings: RunSettings, form: ChatForm, text: TokenizedCorpus, make_reference: Callable[[], LanguageModel]
) -> Lessons:
    """Return what a run with an objective trains on.

    `form` is that of the model's conversations, `text` that of its pre-training; `make_reference` loads the model that
    the run begins with. Raises InputError for data that the objective cannot use.
    """
    if settings.objective == "sft":
        return read_course(settings, form, text)
    if settings.objective == "dpo":
        ends = set(text.tokenizer.specials.values())
        pairs = read_preferences(settings.data, form, ends, settings.context)
        return Preferences(settings, pairs, form, make_reference)
    task = task_of(settings.data)
    if task is None:
        raise InputError(
            f"--objective {settings.objective} learns from rewards, which need a task with a checker: --data "
            f"{PREFIX}{' or '.join(TASKS)}"
        )
    return Practice(settings, task, form, text, make_reference)
