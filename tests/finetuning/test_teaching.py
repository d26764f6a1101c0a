"""The guest that attaches lessons to a run tells their rewards."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from minigrad.finetuning.teaching import Reward, Teaching


@pytest.mark.parametrize(
    ("reward", "values", "said"),
    [
        (None, {}, []),
        (Reward(0.5, differs=True), {"reward": 0.5}, ["reward: 0.50 on average"]),
        (Reward(1.0, differs=False), {"reward": 1.0}, ["reward: 1.00 on average: all answers to a question are"]),
    ],
)
def test_the_reward_of_a_step_is_logged(reward: Reward | None, values: dict[str, float], said: list[str]) -> None:
    lessons: Any = SimpleNamespace(reward=reward)
    run: Any = None
    note = Teaching(lessons).note(run)
    assert note.values == values
    assert all(sentence.startswith(start) for sentence, start in zip(note.sentences, said, strict=True))
