"""The settings of teaching: the objective, the replay of old text, the teacher of a distillation, and adapters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from minigrad.errors import InputError
from minigrad.options import Group, option

OBJECTIVES = ("sft", "reinforce", "best-of-n", "grpo", "dpo", "distill")
"""What a model can be taught by; a model that is distilled may be a new one."""


@dataclass(frozen=True)
class TeachingSettings(Group):
    """What a model is taught, and how."""

    heading: ClassVar[str] = "teaching"

    objective: str | None = option(
        None,
        "teach the model of --init: sft trains on the answers in the conversations of --data; reinforce, best-of-n and "
        "grpo let it answer the questions of a task (--data task:NAME), and reward right answers; dpo prefers chosen "
        "answers to rejected ones; distill trains on the text of --data with a --teacher",
        choices=OBJECTIVES,
        none_means="",
    )
    replay: float | None = option(
        None,
        "share of the loss, and about that of the tokens, from pre-training text, against forgetting",
        at_least=0,
        below=1,
        none_means="0.75 with --objective sft, 0.25 with the other objectives but distill",
    )
    question_noise: float | None = option(
        None,
        "share of the tokens of questions that are replaced by others, so that no single wording is learned",
        at_least=0,
        below=1,
        none_means="0.1 with --objective sft and a file of conversations",
    )
    skip_broken: bool = option(False, "leave out lessons that cannot be taught, and name them")
    replay_text: str | None = option(
        None,
        "text to replay, given like --data; its validation part shows what is forgotten",
        value="TEXT",
        none_means="the text that the run in --init was trained on, or else python-docs",
    )
    teacher: str | None = option(
        None,
        "with --objective distill: a run folder with the same tokenizer, whose distributions are learned",
        value="DIR",
        none_means="",
    )
    teacher_share: float = option(0.5, "share of the teacher in the loss; the text has the rest", at_least=0, at_most=1)
    teacher_temperature: float = option(1.0, "divides the logits of both; above 1 unlikely tokens count more", above=0)
    teacher_divergence: str = option(
        "forward",
        "forward: KL(teacher, student), which covers modes; reverse: KL(student, teacher), which seeks one",
        choices=("forward", "reverse"),
    )

    def check(self) -> None:
        """Raise InputError for a setting without the objective, or the teacher, that it belongs to."""
        if not self.is_lesson:
            for name in ("replay", "question_noise", "replay_text"):
                if getattr(self, name) is not None:
                    raise InputError(
                        f"--{name.replace('_', '-')} is for teaching a trained model: give --objective sft"
                    )
            if self.skip_broken:
                raise InputError("--skip-broken is for a file of conversations: give --objective sft")
        elif self.question_noise is not None and self.objective != "sft":
            raise InputError(
                f"--question-noise is for --objective sft; {self.objective} reads questions as they are: leave it out"
            )
        if (self.objective == "distill") != (self.teacher is not None):
            missing = "--teacher DIR, the model to learn from" if self.teacher is None else "--objective distill"
            given = f"--teacher {self.teacher}" if self.teacher else "--objective distill"
            raise InputError(f"{given} also needs {missing}")
        for name in ("teacher_share", "teacher_temperature", "teacher_divergence"):
            if self.teacher is None and getattr(self, name) != getattr(TeachingSettings, name):
                flag = name.replace("_", "-")
                raise InputError(f"--{flag} is for --objective distill, which needs a --teacher")

    @property
    def is_lesson(self) -> bool:
        """Whether a trained model is taught something in place of a text."""
        return self.objective not in (None, "distill")


@dataclass(frozen=True)
class AdapterSettings(Group):
    """Whether adapters are trained in place of the weights."""

    heading: ClassVar[str] = "adapters"

    adapter_rank: int | None = option(
        None,
        "freeze the model of --init, and train low-rank adapters of its matrices; the run folder holds them alone",
        at_least=1,
        none_means="",
    )
