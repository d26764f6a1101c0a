"""Replay: text beside lessons of any kind, its share of the loss, and a model that stays what it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad.adapters import adapt
from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.documents import Documents
from minigrad.finetuning.replay import Replay
from minigrad.finetuning.rewards import RewardLearning
from minigrad.finetuning.teaching import Lessons
from minigrad.nn.language_model import LanguageModel
from minigrad.ops.distillation import TeacherOutputs
from tests.finetuning.conftest import TOK
from tests.finetuning.test_rewards import build, practice
from tests.finetuning.test_supervised import CONTEXT, Make, course

TEXT = Documents(np.array([0, 7, 8, 9] * 30 + [0]), CONTEXT)


def beside_text(lessons: Lessons, share: float, teacher: LanguageModel | None = None) -> Replay:
    return Replay(lessons, TEXT, CONTEXT, share, teacher or build())


def is_text(batch: Batch) -> Any:
    """Return which rows are of the text: those of sequences that do not begin with a message."""
    firsts = batch.tokens[batch.layout.offsets[:-1]]
    return np.repeat(firsts != TOK.specials["<|user|>"], batch.layout.lengths)


@settings(max_examples=10)
@given(count=st.integers(1, 12), share=st.sampled_from([0.25, 0.5, 0.75]), size=st.integers(1, 5))
def test_the_tokens_read_are_counted_exactly(count: int, share: float, size: int) -> None:
    from tests.finetuning.conftest import lesson as fixture

    lessons = course(fixture.__wrapped__(), count)  # type: ignore[attr-defined]
    taught, total, read = beside_text(lessons, share), 0, 0
    for step in range(100):
        assert taught.tokens_before(step, seed=0, batch_size=size) == total
        if read == lessons.tokens_per_pass(size):
            assert taught.tokens_per_pass(size) == total
            break
        batch = taught.batch(seed=0, step=step, batch_size=size)
        total, read = total + len(batch.tokens), read + int((~is_text(batch)).sum())
    else:
        pytest.fail("the lessons never end")


@pytest.mark.parametrize("share", [0.25, 0.5])
def test_the_loss_has_the_share_of_the_text_whatever_the_lengths(lesson: Make, share: float) -> None:
    batch = beside_text(course(lesson, 9), share).batch(seed=0, step=0, batch_size=4)
    assert batch.weights is not None
    text, counted = is_text(batch), batch.targets != IGNORE
    assert batch.weights[counted & text].sum() / batch.num_targets == pytest.approx(share, rel=1e-5)
    assert batch.weights[counted].sum() == pytest.approx(batch.num_targets, rel=1e-5)
    assert (batch.targets[text] != IGNORE).all()
    halves = [part.weights for part in batch.parts(2) if part.weights is not None]
    np.testing.assert_array_equal(np.concatenate(halves), batch.weights)


def test_each_step_reads_other_text(lesson: Make) -> None:
    kept = beside_text(course(lesson, 9), 0.5)
    kept.text = text = Documents(np.array([0, *range(5, 200), 0]), CONTEXT)
    for seed, step in ((0, 0), (0, 3), (1, 3)):
        batch, alone = (source.batch(seed=seed, step=step, batch_size=size) for source, size in ((kept, 4), (text, 2)))
        assert sorted(batch.tokens[is_text(batch)]) == sorted(alone.tokens)


def test_what_the_model_said_of_the_text_is_kept_and_the_answers_are_learned(lesson: Make) -> None:
    """A model that learns nothing but a step of replay is not moved: at its beginning it agrees with itself."""
    kept = beside_text(course(lesson, 9), 0.5)
    batch = kept.batch(seed=0, step=0, batch_size=4)
    assert isinstance(batch.objective, TeacherOutputs)
    assert batch.weights is not None
    text = is_text(batch)
    np.testing.assert_array_equal(batch.objective.share, text)
    parts = batch.parts(2)
    shares = [part.objective.share for part in parts if isinstance(part.objective, TeacherOutputs)]
    np.testing.assert_array_equal(np.concatenate(shares), text)

    student = build()
    how = {"layout": batch.layout, "objective": batch.objective}
    student.loss(batch.tokens, batch.targets, weights=text, **how).backward()
    assert all(abs(np.asarray(each.grad)).max() < 1e-6 for each in student.parameters())
    answers = student.loss(batch.tokens, batch.targets, layout=batch.layout, weights=batch.weights * ~text)
    both = student.loss(batch.tokens, batch.targets, weights=batch.weights, **how)
    assert both.item() == pytest.approx(answers.item(), rel=1e-5)  # of the text nothing is to be learned yet
    other = build()
    other.parameters()[0].data[0] += 1
    assert kept.fingerprint() != beside_text(course(lesson, 9), 0.5, other).fingerprint()


def test_the_frozen_weights_beside_adapters_are_in_memory_once(lesson: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    student, teacher, whole = build(), build(), build()
    some = beside_text(course(lesson, 9), 0.5, teacher)
    monkeypatch.setattr(some.lessons, "begin", lambda model: None)
    some.begin(whole)
    assert not any(np.shares_memory(a.data, b.data) for a in teacher.parameters() for b in whole.parameters())
    adapt(student, 2)
    some.begin(student)
    own = student.state_dict()
    assert all(np.shares_memory(each.data, own[name]) for name, each in teacher.named_parameters())


def rewarded(monkeypatch: pytest.MonkeyPatch, *, first: bool) -> RewardLearning:
    """Return a practice in which of all answers the first one alone is right, or none."""
    some = practice("reinforce")
    some.model = build()
    monkeypatch.setattr(some, "_rewards", lambda _, drawn: first * (np.arange(len(drawn.answers)) == 0).astype(float))
    return some


def test_weights_of_rewards_are_kept_beside_the_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of a step is that of the objective and that of the text, each times its share."""
    some, share = rewarded(monkeypatch, first=True), 0.5
    alone = some.batch(seed=0, step=0, batch_size=4)
    batch = beside_text(some, share, build()).batch(seed=0, step=0, batch_size=8)
    assert some.reward is not None
    assert batch.weights is not None
    assert alone.weights is not None
    assert batch.weights.min() < 0
    text = is_text(batch)
    assert sorted(batch.tokens[~text]) == sorted(alone.tokens)
    taught = np.sort(batch.weights[~text]) / batch.num_targets
    np.testing.assert_allclose(taught, (1 - share) * np.sort(alone.weights) / alone.num_targets, rtol=1e-4)
    assert batch.weights[text].sum() / batch.num_targets == pytest.approx(share, rel=1e-5)


def test_a_step_in_which_nothing_is_learned_reads_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = beside_text(rewarded(monkeypatch, first=False), 0.5, build()).batch(seed=0, step=0, batch_size=8)
    assert not batch.teaches


def test_a_step_is_described_and_the_fingerprint_changes_with_the_share(lesson: Make) -> None:
    lessons = course(lesson, 5)
    some = beside_text(lessons, 0.5)
    assert some.describe(4) == f"{lessons.describe(2)} and {2 * CONTEXT} tokens of text"
    assert some.summary() == lessons.summary()
    assert some.attended_length() == (lessons.attended_length() + TEXT.attended_length()) / 2
    prints = {beside_text(each, share).fingerprint() for each in (lessons, course(lesson, 6)) for share in (0.5, 0.25)}
    assert len(prints) == 4
    assert some.fingerprint() in prints


def test_the_teacher_reads_the_text_and_is_the_reference_of_answers() -> None:
    of_rewards = [beside_text(practice(objective), 0.25).read_by_teacher for objective in ("reinforce", "grpo")]
    assert of_rewards == [0.25, 1.0]


def test_a_step_with_text_alone_has_room_for_a_lesson_too(lesson: Make) -> None:
    batch = beside_text(course(lesson, 5), 0.75).batch(seed=0, step=0, batch_size=1)
    assert 0 < is_text(batch).sum() < len(batch.tokens)


@pytest.mark.parametrize(("size", "parts"), [(2, 2), (3, 3), (4, 4), (8, 8)])
def test_a_step_reads_as_much_as_it_has_room_for(lesson: Make, size: int, parts: int) -> None:
    replay = beside_text(course(lesson, 50), 0.75)
    assert replay._replayed(size) + replay._room(size) == parts
