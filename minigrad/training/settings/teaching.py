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
        "teach the model of --init instead: sft lets it learn the answers in the conversations of --data; reinforce, "
        "best-of-n and grpo let it answer the questions of a task (--data task:NAME) and learn from which are right; "
        "dpo raises chosen answers above rejected ones; distill trains on the text of --data with a --teacher",
        choices=OBJECTIVES,
        none_means="",
    )
    replay: float | None = option(
        None,
        "share of the loss, and about that share of the tokens, that is text of the pre-training, against forgetting",
        at_least=0,
        below=1,
        none_means="0.75 with --objective sft, 0.25 with the other objectives but distill",
    )
    question_noise: float | None = option(
        None,
        "share of the tokens of questions that are replaced by others, to learn an answer and not one wording",
        at_least=0,
        below=1,
        none_means="0.1 with --objective sft and a file of conversations",
    )
    skip_broken: bool = option(False, "leave out lessons that cannot be taught, and name them")
    replay_text: str | None = option(
        None,
        "text that is replayed, given like --data; its validation part measures forgetting",
        value="TEXT",
        none_means="the text that the run in --init was trained on, or else python-docs",
    )
    teacher: str | None = option(
        None,
        "with --objective distill: a run folder with the same tokenizer, whose probabilities of tokens are learned",
        value="DIR",
        none_means="",
    )
    teacher_share: float = option(
        0.5, "share of the teacher in the loss; the rest is that of the text", at_least=0, at_most=1
    )
    teacher_temperature: float = option(
        1.0, "divides the logits of both; a higher one shows more of the unlikely tokens", above=0
    )
    teacher_divergence: str = option(
        "forward",
        "forward: KL(teacher, student), which covers the teacher's modes; reverse: KL(student, teacher), which seeks "
        "one",
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
        "freeze the model of --init, and train two thin matrices of this rank beside each of its matrices; the run "
        "folder holds these alone",
        at_least=1,
        none_means="",
    )
