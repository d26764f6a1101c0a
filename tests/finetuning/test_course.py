"""The batches of a course: every conversation once in an epoch, whole, and the share of replayed text in the loss."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad.constants import IGNORE
from minigrad.data.batches import Batch
from minigrad.data.documents import Documents
from minigrad.finetuning.course import Course
from minigrad.finetuning.lessons import Lesson
from minigrad.training.settings import RunSettings
from tests.finetuning.conftest import TOK
from tests.finetuning.test_practice import build
from tokenizer.chat import ChatTemplate

CONTEXT = 16
TEXT = Documents(np.array([0, 7, 8, 9] * 30 + [0]), CONTEXT)

Make = Callable[..., Lesson]


def settings_of(replay: float) -> RunSettings:
    numbers: dict[str, Any] = {"batch": 4, "context": CONTEXT, "lr": 1.0, "warmup": 1, "threads": 1, "replay": replay}
    every = dict.fromkeys(("log_every", "eval_every", "save_every", "sample_every"), 10)
    return RunSettings(data="book.txt", **numbers, **every)


def course(make: Make, count: int, replay: float) -> Course:
    """Return a course of `count` conversations of different lengths, each with its number in it."""
    lessons = [make(chr(97 + number), "x" * (1 + number % 5)) for number in range(count)]
    return Course(lessons, TEXT, settings_of(replay), ChatTemplate(TOK))


def sequences(batch: Batch) -> list[list[int]]:
    return [part.tolist() for part in np.split(batch.tokens, batch.layout.offsets[1:-1])]


@pytest.mark.parametrize("replay", [0.0, 0.5])
def test_an_epoch_reads_every_conversation_once_and_whole(lesson: Make, replay: float) -> None:
    taught = course(lesson, 23, replay)
    wanted = sorted(each.tokens[:-1] for each in taught.lessons)
    read, orders, steps = list[list[int]](), set(), taught._deal(4).steps_per_epoch
    assert steps > 1
    for step in range(2 * steps):
        batch = taught.batch(seed=1, step=step, batch_size=4)
        found = [each for each in sequences(batch) if each[0] == TOK.specials["<|user|>"]]
        read += found
        orders.add(str(found))
        if step + 1 in (steps, 2 * steps):
            assert sorted(read) == wanted
            read.clear()
    assert len(orders) == 2 * steps  # another order in every epoch
    assert taught.describe(4).startswith(f": about {23 / steps:.2g} conversations")


@settings(max_examples=10)
@given(count=st.integers(1, 12), replay=st.sampled_from([0.0, 0.25, 0.5]), size=st.integers(1, 5))
def test_the_tokens_read_are_counted_exactly(count: int, replay: float, size: int) -> None:
    from tests.finetuning.conftest import lesson as fixture

    taught = course(fixture.__wrapped__(), count, replay)  # type: ignore[attr-defined]
    total = 0
    for step in range(7):
        assert taught.tokens_before(step, seed=3, batch_size=size) == total
        total += len(taught.batch(seed=3, step=step, batch_size=size).tokens)


@pytest.mark.parametrize("replay", [0.25, 0.5])
def test_the_loss_has_the_share_of_the_text_whatever_the_lengths(lesson: Make, replay: float) -> None:
    batch = course(lesson, 9, replay).batch(seed=0, step=0, batch_size=4)
    assert batch.weights is not None
    is_text = np.repeat([each[0] != TOK.specials["<|user|>"] for each in sequences(batch)], batch.layout.lengths)
    counted = batch.targets != IGNORE
    share = batch.weights[counted & is_text].sum() / batch.num_targets
    assert share == pytest.approx(replay, rel=1e-5)
    assert batch.weights[counted].sum() == pytest.approx(batch.num_targets, rel=1e-5)
    assert (batch.targets[is_text] != IGNORE).all()
    halves = [part for part in batch.parts(2) if part.weights is not None]
    np.testing.assert_array_equal(np.concatenate([part.weights for part in halves]), batch.weights)  # type: ignore[misc]


def test_what_the_model_said_of_the_text_is_kept_and_the_answers_are_learned(lesson: Make) -> None:
    """A model that learns nothing but a step of replay is not moved: at its beginning it agrees with itself."""
    plain, model = course(lesson, 9, 0.5), build()
    kept = Course(plain.lessons, TEXT, settings_of(0.5), plain.form, teacher=model)
    batch, without = (each.batch(seed=0, step=0, batch_size=4) for each in (kept, plain))
    assert batch.teaching is not None
    np.testing.assert_array_equal(batch.tokens, without.tokens)
    is_text = np.repeat([each[0] != TOK.specials["<|user|>"] for each in sequences(batch)], batch.layout.lengths)
    np.testing.assert_array_equal(batch.teaching.share, is_text)
    parts = batch.parts(2)
    np.testing.assert_array_equal(np.concatenate([part.teaching.share for part in parts if part.teaching]), is_text)

    student = build()
    how = {"layout": batch.layout, "teaching": batch.teaching}
    student.loss(batch.tokens, batch.targets, weights=is_text, **how).backward()
    assert all(abs(np.asarray(each.grad)).max() < 1e-6 for each in student.parameters())
    assert without.weights is not None
    answers = student.loss(batch.tokens, batch.targets, layout=batch.layout, weights=without.weights * ~is_text)
    both = student.loss(batch.tokens, batch.targets, weights=batch.weights, **how)
    assert both.item() == pytest.approx(answers.item(), rel=1e-5)  # of the text nothing is to be learned yet
    assert kept.fingerprint() != plain.fingerprint()


def test_noise_changes_words_of_questions_alone_and_is_a_function_of_the_step(lesson: Make) -> None:
    lessons = [lesson(chr(97 + number) * 4, "xy", "zz", "w") for number in range(12)]
    noisy, plain = (
        Course(lessons, TEXT, replace(settings_of(0.0), question_noise=share), ChatTemplate(TOK))
        for share in (0.5, 0.0)
    )
    batch, again, clean = (each.batch(seed=3, step=1, batch_size=4) for each in (noisy, noisy, plain))
    np.testing.assert_array_equal(batch.tokens, again.tokens)
    np.testing.assert_array_equal(batch.targets, clean.targets)
    changed = batch.tokens != clean.tokens
    assert 0.2 < changed.sum() / (6 * len(clean.layout.lengths)) < 0.7
    spoken = {ord(letter) for letter in "abcdefghijklz"}
    offset = TOK.encode("a")[0] - ord("a")
    assert {int(token) - offset for token in clean.tokens[changed]} <= spoken  # neither special, nor of an answer
    assert {int(token) - offset for token in batch.tokens[changed]} <= spoken


def test_without_replay_only_conversations_are_read_and_nothing_is_weighted(lesson: Make) -> None:
    taught = course(lesson, 5, 0.0)
    batch = taught.batch(seed=0, step=0, batch_size=4)
    assert batch.weights is None
    assert len(sequences(batch)) == 5
    assert "text" not in taught.describe(4)


def test_the_fingerprint_changes_with_what_is_taught(lesson: Make) -> None:
    prints = {course(lesson, count, replay).fingerprint() for count, replay in ((5, 0.5), (6, 0.5), (5, 0.25))}
    assert len(prints) == 3
    assert course(lesson, 5, 0.5).fingerprint() in prints


def test_a_summary_counts_what_is_learned(lesson: Make) -> None:
    taught = Course([lesson("ab", "cde")], TEXT, settings_of(0.0), ChatTemplate(TOK))
    assert taught.summary() == "1 conversation in book.txt: 8 tokens, 4 of them in answers"
    assert taught.tokens_per_pass(4) == 8
    assert taught.attended_length() == 8.0
