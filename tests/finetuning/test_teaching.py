"""Lessons attach to a run as a guest, which measures the model once, before the first step of the run."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from minigrad.distributed.world import ALONE
from minigrad.errors import InputError
from minigrad.evaluate.answers import Answered
from minigrad.finetuning import teaching
from minigrad.finetuning.teaching import Reward, Student, Teaching


class Recorded:
    """Lessons that record what happens to them."""

    teacher = None
    measured = ("bits_per_byte",)

    def __init__(self, reward: Reward | None = None) -> None:
        self.reward, self.calls, self.form = reward, list[Any](), None

    def begin(self, model: Any) -> None:
        self.calls.append(model)

    def measure(self, student: Student) -> dict[str, float]:
        return {"bits_per_byte": student.bits_per_byte(student.model)}

    def examine(self, student: Student, before: Any, bits_per_byte: float) -> Any:
        return student.model, dict(before), bits_per_byte


def run_of(tmp_path: Path, **changes: Any) -> Any:
    written = list[bool]()
    record = SimpleNamespace(before={})
    folder = SimpleNamespace(record=record, path=tmp_path, write=lambda: written.append(True))
    text = SimpleNamespace(byte_lengths=None, tokenizer=None)
    fields: dict[str, Any] = {
        "model": "model",
        "step": 0,
        "folder": folder,
        "text": text,
        "validation": None,
        "world": ALONE,
    }
    fields |= {"settings": SimpleNamespace(context=8), "score": None}
    return SimpleNamespace(**fields | {"written": written} | changes)


def test_the_model_is_measured_before_the_first_step_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        teaching.losses, "evaluate", lambda *_, context, world: SimpleNamespace(bits_per_byte=context / 4)
    )
    lessons: Any = Recorded()
    run = run_of(tmp_path)
    Teaching(lessons).begin(run)
    assert lessons.calls == ["model"]
    assert run.folder.record.before == {"bits_per_byte": 2.0}
    Teaching(lessons).begin(run)
    assert run.written == [True]


@pytest.mark.parametrize(("step", "before"), [(1, {}), (1, {"recall": 0.5}), (0, {"recall": 0.5})])
def test_a_record_without_the_figures_to_compare_with_is_refused_at_once(
    tmp_path: Path, step: int, before: dict[str, float]
) -> None:
    run = run_of(tmp_path, step=step)
    run.folder.record.before = before
    lessons: Any = Recorded()
    with pytest.raises(InputError, match=r"minigrad\.json is damaged: its `before`.* lacks bits_per_byte; restore"):
        Teaching(lessons).begin(run)
    assert run.written == lessons.calls == []


def test_the_student_is_examined_with_the_last_score(tmp_path: Path) -> None:
    lessons: Any = Recorded()
    run = run_of(tmp_path, score=SimpleNamespace(bits_per_byte=1.5))
    run.folder.record.before["bits_per_byte"] = 2.0
    assert Teaching(lessons).examine(run) == ("model", {"bits_per_byte": 2.0}, 1.5)


@pytest.mark.parametrize(
    ("reward", "values", "said"),
    [
        (None, {}, []),
        (Reward(0.5, differs=True), {"reward": 0.5}, ["reward: 0.50 on average"]),
        (Reward(1.0, differs=False), {"reward": 1.0}, ["reward: 1.00 on average: for every question all answers"]),
    ],
)
def test_the_reward_of_a_step_is_logged(reward: Reward | None, values: dict[str, float], said: list[str]) -> None:
    lessons: Any = SimpleNamespace(reward=reward)
    run: Any = None
    note = Teaching(lessons).note(run)
    assert note.values == values
    assert all(sentence.startswith(start) for sentence, start in zip(note.sentences, said, strict=True))


def test_a_table_shows_forty_answers_and_first_those_that_differ() -> None:
    answered = [
        Answered(f"question {number}", "yes", "yes" if number < 40 else "no", number < 40) for number in range(41)
    ]
    table = teaching._table("What it says", answered)
    assert "40 of 41; different answers come first" in table
    assert table.count("<tr><td>") == 40
    assert table.index("question 40") < table.index("question 0")
    assert "question 39" not in table
