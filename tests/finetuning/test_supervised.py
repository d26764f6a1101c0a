"""The batches of a course: every conversation once in an epoch, whole, and noise in the questions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad.data.tokens.batches import Batch
from minigrad.finetuning.conversations import Conversation
from minigrad.finetuning.encoding import EncodedConversation, encode_conversation
from minigrad.finetuning.supervised import SupervisedLearning
from minigrad.training.settings import RunSettings
from tests.finetuning.conftest import TOK
from tests.finetuning.test_encoding import CHATML
from tokenizer.chat import ChatTemplate

CONTEXT = 16

Make = Callable[..., EncodedConversation]


def settings_of(noise: float = 0.0) -> RunSettings:
    numbers: dict[str, Any] = {"batch": 4, "context": CONTEXT, "lr": 1.0, "warmup": 1, "threads": 1}
    every = dict.fromkeys(("log_every", "eval_every", "save_every", "sample_every"), 10)
    return RunSettings(data="book.txt", question_noise=noise, **numbers, **every)


def course(make: Make, count: int) -> SupervisedLearning:
    """Return a course of `count` conversations of different lengths, each with its number in it."""
    lessons = [make(chr(97 + number), "x" * (1 + number % 5)) for number in range(count)]
    return SupervisedLearning(lessons, settings_of(), ChatTemplate(TOK))


def sequences(batch: Batch) -> list[list[int]]:
    return [part.tolist() for part in np.split(batch.tokens, batch.layout.offsets[1:-1])]


def test_an_epoch_reads_every_conversation_once_and_whole(lesson: Make) -> None:
    taught = course(lesson, 23)
    wanted = sorted(each.tokens[:-1] for each in taught.conversations)
    read, orders, steps = list[list[int]](), set(), taught.steps_per_epoch(4)
    assert steps > 1
    for step in range(2 * steps):
        batch = taught.batch(seed=1, step=step, batch_size=4)
        found = sequences(batch)
        assert batch.weights is None
        read += found
        orders.add(str(found))
        if step + 1 in (steps, 2 * steps):
            assert sorted(read) == wanted
            read.clear()
    assert len(orders) == 2 * steps  # another order in every epoch
    assert taught.describe(4).startswith(f": about {23 / steps:.2g} conversations")


@settings(max_examples=10)
@given(count=st.integers(1, 12), size=st.integers(1, 5))
def test_the_tokens_read_are_counted_exactly(count: int, size: int) -> None:
    from tests.finetuning.conftest import lesson as fixture

    taught = course(fixture.__wrapped__(), count)  # type: ignore[attr-defined]
    total = 0
    for step in range(7):
        assert taught.tokens_before(step, seed=3, batch_size=size) == total
        total += len(taught.batch(seed=3, step=step, batch_size=size).tokens)


def test_noise_changes_words_of_questions_alone_and_is_a_function_of_the_step(lesson: Make) -> None:
    lessons = [lesson(chr(97 + number) * 4, "xy", "zz", "w") for number in range(12)]
    noisy, plain = (SupervisedLearning(lessons, settings_of(share), ChatTemplate(TOK)) for share in (0.5, 0.0))
    batch, again, clean = (each.batch(seed=3, step=1, batch_size=4) for each in (noisy, noisy, plain))
    np.testing.assert_array_equal(batch.tokens, again.tokens)
    np.testing.assert_array_equal(batch.targets, clean.targets)
    changed = batch.tokens != clean.tokens
    assert 0.2 < changed.sum() / (6 * len(clean.layout.lengths)) < 0.7
    spoken = {ord(letter) for letter in "abcdefghijklz"}
    offset = TOK.encode("a")[0] - ord("a")
    assert {int(token) - offset for token in clean.tokens[changed]} <= spoken  # neither special, nor of an answer
    assert {int(token) - offset for token in batch.tokens[changed]} <= spoken


def test_noise_leaves_the_form_of_a_foreign_template_and_the_system_message_as_they_are() -> None:
    pytest.importorskip("jinja2")
    form = ChatTemplate(TOK, CHATML)
    roles, contents = ("system", "user", "assistant"), ("Be kind.", "Why?", "So.")
    messages = tuple({"role": role, "content": each} for role, each in zip(roles, contents, strict=True))
    lesson = encode_conversation(Conversation(messages, "book.txt, line 1"), form, 64)
    noisy = SupervisedLearning([lesson], settings_of(1.0), form)
    assert TOK.decode(noisy.tokens[noisy.questions].tolist()) == "Why?"
    changed = [noisy.batch(seed=0, step=step, batch_size=4).tokens != noisy.tokens for step in range(9)]
    np.testing.assert_array_equal(np.any(changed, axis=0), noisy.questions)


def test_the_fingerprint_changes_with_what_is_taught(lesson: Make) -> None:
    assert course(lesson, 5).fingerprint() == course(lesson, 5).fingerprint() != course(lesson, 6).fingerprint()


def test_a_summary_counts_what_is_learned(lesson: Make) -> None:
    taught = SupervisedLearning([lesson("ab", "cde")], settings_of(), ChatTemplate(TOK))
    assert taught.summary() == "1 conversation in book.txt: 8 tokens, 4 of them in answers"
    assert taught.tokens_per_pass(4) == 8
    assert taught.attended_length() == 8.0
