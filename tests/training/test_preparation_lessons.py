"""Which objective trains on what."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import models
import tokenizer
from minigrad import InputError
from minigrad.finetuning.distillation import Distillation
from minigrad.finetuning.preferences import PreferenceLearning
from minigrad.finetuning.replay import Replay
from minigrad.finetuning.rewards import RewardLearning
from minigrad.finetuning.supervised import SupervisedLearning
from minigrad.finetuning.teaching import Lessons
from minigrad.nn.language_model import LanguageModel
from minigrad.training.folder.opening import Opening
from minigrad.training.preparation import distillation_for, lessons_for, plan_run
from minigrad.training.settings import RunSettings, TrainConfig
from tests.finetuning.conftest import TOK
from tests.finetuning.test_rewards import EVERY, build
from tokenizer.chat import ChatTemplate


def chosen(objective: str, data: str, **changes: Any) -> Lessons:
    given = {"context": 64} | changes
    settings = RunSettings(objective=objective, data=data, batch=8, lr=1.0, warmup=1, threads=1, **EVERY, **given)
    text: Any = SimpleNamespace(tokenizer=TOK, train=np.array([0, 7, 8, 9] * 30 + [0]))

    def load(folder: str, **changes: Any) -> Any:
        if not settings.init:
            pytest.fail(f"{folder} is loaded before it is needed")
        return build(**changes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(models, "load", load)
        return lessons_for(settings, ChatTemplate(TOK), text)


def test_conversations_become_a_course_and_a_task_becomes_practice_or_a_course(tmp_path: Path) -> None:
    book = tmp_path / "book.txt"
    book.write_text("Q: a\nA: b\n", encoding="utf-8")
    assert isinstance(chosen("sft", str(book)), SupervisedLearning)
    solved = chosen("sft", "task:arithmetic")
    assert isinstance(solved, SupervisedLearning)
    assert solved.summary().startswith("2,000 conversations in task:arithmetic")
    for objective in ("reinforce", "best-of-n", "grpo"):
        assert isinstance(chosen(objective, "task:arithmetic"), RewardLearning)


PAIR = '{"messages": [{"role": "user", "content": "a"}], "chosen": "b", "rejected": "c"}'


@pytest.mark.parametrize("objective", ["sft", "dpo", "reinforce", "best-of-n", "grpo"])
def test_text_is_replayed_with_the_model_as_it_began(tmp_path: Path, objective: str) -> None:
    (tmp_path / "pairs.jsonl").write_text(PAIR, encoding="utf-8")
    data = str(tmp_path / "pairs.jsonl") if objective == "dpo" else "task:arithmetic"
    how: dict[str, Any] = {"replay": 0.5, "init": "runs/base"}
    some = chosen(objective, data, **how)
    assert isinstance(some, Replay)
    assert isinstance(some.teacher, LanguageModel)
    assert isinstance(chosen(objective, data, **how, adapter_rank=4).teacher, LanguageModel)
    assert not isinstance(chosen(objective, data, **how | {"replay": 0.0}), Replay)


def test_one_frozen_copy_of_the_model_is_the_reference_and_what_is_kept() -> None:
    some = chosen("grpo", "task:arithmetic", replay=0.5, init="runs/base")
    assert isinstance(some, Replay)
    assert isinstance(some.lessons, RewardLearning)
    assert some.lessons.make_reference() is some.teacher


def test_pairs_of_answers_are_read_for_dpo(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    path.write_text(PAIR, encoding="utf-8")
    assert isinstance(chosen("dpo", str(path)), PreferenceLearning)


def test_rewards_need_a_task() -> None:
    with pytest.raises(InputError, match="--objective grpo learns from rewards, which need a task with a checker"):
        chosen("grpo", "book.txt")


def test_a_teacher_must_have_the_tokenizer_of_the_student(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = RunSettings(
        objective="distill", teacher="runs/big", batch=8, context=64, lr=1.0, warmup=1, threads=1, **EVERY
    )
    text: Any = SimpleNamespace(tokenizer=TOK, train=np.array([0, 7, 8, 9] * 30 + [0]))
    other = tokenizer.train(["to be or not to be"], vocab_size=262)
    loaded = []

    def load(folder: str) -> Any:
        loaded.append(folder)
        return build()

    monkeypatch.setattr(models, "load", load)
    monkeypatch.setattr(tokenizer, "load", lambda _: TOK)
    assert isinstance(distillation_for(settings, text), Distillation)
    assert loaded == ["runs/big"]
    monkeypatch.setattr(tokenizer, "load", lambda _: other)
    with pytest.raises(InputError, match=r"another tokenizer than the student.* let the teacher write a text"):
        distillation_for(settings, text)
    monkeypatch.setattr(tokenizer, "load", lambda _: TOK)
    with pytest.raises(InputError, match=r"--teacher runs/big reads at most 2,048 tokens, and --context is 4,000"):
        distillation_for(dataclasses.replace(settings, context=4_000), text)


def test_a_reference_reads_sequences_as_long_as_those_of_the_run() -> None:
    for context, longest in ((64, 2_048), (4_096, 4_096)):
        some = chosen("sft", "task:arithmetic", replay=0.5, init="runs/base", context=context)
        assert isinstance(some, Replay)
        assert some.teacher.config.context_length == longest


@pytest.mark.parametrize(
    ("objective", "data", "message"),
    [("sft", "task:sort", "unknown task 'sort'; did you mean 'sorting'"), ("grpo", "book.txt", "which need a task")],
)
def test_a_task_that_cannot_be_taught_is_refused_before_anything_is_read(objective, data, message) -> None:
    asked = TrainConfig(objective=objective, data=data, init="nowhere")
    with pytest.raises(InputError, match=message):
        plan_run(Opening(asked, (), None))
