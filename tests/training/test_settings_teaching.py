"""Settings of teaching need their objective, and a distillation its teacher."""

from __future__ import annotations

import pytest

from minigrad.errors import InputError
from minigrad.training.settings import TrainConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TrainConfig(replay=0.5), "--replay is for teaching a trained model: give --objective sft"),
        (TrainConfig(skip_broken=True), "--skip-broken is for a file of conversations: give --objective sft"),
        (
            TrainConfig(objective="grpo", question_noise=0.1),
            "--question-noise is for --objective sft; grpo reads questions as they are: leave it out",
        ),
        (TrainConfig(objective="distill"), "--objective distill also needs --teacher DIR, the model to learn from"),
        (TrainConfig(teacher="a"), "--teacher a also needs --objective distill"),
        (TrainConfig(teacher_share=0.1), "--teacher-share is for --objective distill, which needs a --teacher"),
    ],
)
def test_what_lacks_its_objective_or_its_teacher_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        settings.check()


def test_lessons_are_a_task_or_a_file_and_a_task_needs_an_objective() -> None:
    with pytest.raises(InputError, match=r"--data task:sorting is for teaching: name an --objective"):
        TrainConfig(data="task:sorting").check()
    with pytest.raises(InputError, match=r"download https://example\.com/a\.jsonl first"):
        TrainConfig(data="https://example.com/a.jsonl", objective="sft", init="runs/a").check()
