"""Distillation: what a teacher says of a batch, whoever reads it and in how many parts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from minigrad.adapters import adapt_tokens
from minigrad.adapters.token_rows import AdaptedEmbedding, tables_of
from minigrad.autograd.graph import no_grad
from minigrad.finetuning.distillation import Distillation
from minigrad.ops.distillation import TeacherOutputs
from minigrad.training.settings import RunSettings
from tests.finetuning.conftest import TOK
from tests.finetuning.test_rewards import EVERY, build


def distillation(**changes: Any) -> Distillation:
    numbers: dict[str, Any] = {"batch": 4, "context": 16, "lr": 1.0, "warmup": 1, "threads": 1, **EVERY}
    settings = RunSettings(objective="distill", teacher="runs/big", **numbers | changes)
    text: Any = SimpleNamespace(tokenizer=TOK, train=np.array([0, 7, 8, 9, 5] * 30 + [0]))
    return Distillation(settings, text, build())


def test_the_teacher_reads_every_sequence_of_the_batch_without_learning() -> None:
    lesson = distillation(teacher_share=0.75, teacher_temperature=2.0, teacher_divergence="reverse")
    batch = lesson.batch(seed=1, step=2, batch_size=4)
    plain = lesson.text.batch(seed=1, step=2, batch_size=4)
    assert isinstance(batch.objective, TeacherOutputs)
    np.testing.assert_array_equal(batch.tokens, plain.tokens)
    with no_grad():
        logits = lesson.teacher(batch.tokens, layout=batch.layout).data
    np.testing.assert_allclose(batch.objective.rows @ batch.objective.head.T, logits, rtol=1e-5, atol=1e-5)
    assert batch.objective[2:] == (2.0, 0.75, True)
    assert not any(parameter.requires_grad for parameter in lesson.teacher.parameters())
    assert "KL(student, teacher) at temperature 2 is 0.75 of the loss" in lesson.summary()


def test_a_teacher_with_rows_of_its_own_for_some_tokens_teaches_with_them() -> None:
    lesson = distillation()
    adapt_tokens(lesson.teacher, [7, 8])
    for table in tables_of(lesson.teacher).values():
        assert isinstance(table, AdaptedEmbedding)
        table.token_adapter.delta.data = np.full_like(table.token_adapter.delta.data, 0.5)
    batch = lesson.batch(seed=1, step=2, batch_size=4)
    assert isinstance(batch.objective, TeacherOutputs)
    with no_grad():
        logits = lesson.teacher(batch.tokens, layout=batch.layout).data
    np.testing.assert_allclose(batch.objective.rows @ batch.objective.head.T, logits, rtol=1e-5, atol=1e-5)


def test_the_loss_of_a_batch_is_that_of_its_parts() -> None:
    lesson, student = distillation(), build()
    batch = lesson.batch(seed=0, step=0, batch_size=4)
    parts = batch.parts(3)
    assert len(parts) == 3
    whole, *losses = (
        student.loss(each.tokens, each.targets, layout=each.layout, objective=each.objective)
        for each in (batch, *parts)
    )
    mean = np.average([each.item() for each in losses], weights=[each.num_targets for each in parts])
    assert mean == pytest.approx(whole.item(), rel=1e-5)


def test_another_teacher_has_another_fingerprint() -> None:
    one, other = distillation(), distillation()
    assert one.fingerprint() == other.fingerprint()
    with no_grad():
        other.teacher.parameters()[0][...] = 0.0
    assert one.fingerprint() != other.fingerprint()
