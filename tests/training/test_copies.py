"""Replicas in copies of the process learn the same bits as replicas in threads."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minigrad import nn
from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch
from minigrad.errors import RunError
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import AdamW
from minigrad.system import forks, processors
from minigrad.training.copies import Copies, shared_array
from minigrad.training.folder import metrics
from minigrad.training.parallel import Replicas
from minigrad.typing import Array
from tests import small_runs
from tests.models.tiny import TINY, VOCAB, build
from train import forward_backward

if not forks.ARE_POSSIBLE:
    pytest.skip("this system cannot copy a process", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("two_threads")
every_family = pytest.mark.parametrize("family", TINY)
BOTH = Replicas, Copies


def texts(seed: int, lengths: list[int]) -> Batch:
    draw, rows = np.random.default_rng(seed), sum(lengths)
    tokens, targets = (draw.integers(0, VOCAB, rows).astype(np.int32) for _ in range(2))
    targets[::5] = IGNORE
    return Batch(tokens, targets, nn.Layout.packed(lengths))


def learned(replicas: type[Replicas], family: str, count: int, **options: Any) -> tuple[list[Any], list[bytes]]:
    """Return losses and measurements of some steps, and the weights after them."""
    model = build(family, "float32", dropout=0.3, **options)
    learners, optimizer, seen = replicas(model, count, 7, parts=2), AdamW(model.parameters()), []
    for step in range(4):
        batch = texts(step, [5, 2, 6, 1, 3, 4][: 6 - step])  # in the end a part has fewer texts than there are replicas
        seen += [learners.accumulate(forward_backward, batch, step), learners.measurements()]
        optimizer.step(1e-2, max_norm=1.0)
        optimizer.zero_grad()
    return seen, [parameter.data.tobytes() for parameter in model.parameters()]


@every_family
def test_copies_learn_the_bits_that_threads_learn(family: str) -> None:
    merging = {"atm": "avg_causal", "atm_threshold": 0.0} if family == "wiola" else {}
    assert learned(Copies, family, 3, **merging) == learned(Replicas, family, 3, **merging)


def test_copies_learn_the_bits_that_threads_learn_at_the_default_size() -> None:
    import models

    draw = np.random.default_rng(0)
    tokens = draw.integers(0, 4096, (4, 257))
    batch = Batch.rectangular(tokens[:, :-1], tokens[:, 1:])
    seen = []
    for replicas in BOTH:
        model = models.for_training("vidya-v2", "nano", dropout=0.1)
        model.initialise(3)
        learners, optimizer = replicas(model, 2, 7), AdamW(model.parameters())
        for step in range(2):
            loss = learners.run(forward_backward, batch, step=step)
            optimizer.step(1e-2)
            optimizer.zero_grad()
        seen.append((loss, [parameter.data.tobytes() for parameter in model.parameters()]))
    assert seen[0] == seen[1]


def test_only_a_shared_array_stays_common_to_copies() -> None:
    def add(number: float) -> None:
        common[:] += number

    common = shared_array(3, "float64")
    copy = forks.Fork(add)
    common[:] = 1
    copy.ask(5)
    copy.answer()
    assert common.tolist() == [6, 6, 6]
    assert shared_array(0, "float32").shape == (0,)


def test_a_step_does_not_search_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[nn.Module] = []
    learners, find = Copies(build("gpt2", dropout=0.5), 2, parts=3), nn.Module.named_modules
    monkeypatch.setattr(nn.Module, "named_modules", lambda self, prefix="": searched.append(self) or find(self, prefix))
    learners.run(forward_backward, texts(0, [4, 4]))
    assert not searched
    for step in range(3):
        learners.accumulate(forward_backward, texts(0, [4] * 6), step)
    assert searched.count(learners.models[0]) == 1  # for figures, which it has none of
    searched.clear()
    learners.measurements()
    assert searched[0] is learners.models[0]
    assert learners.models[1] not in searched  # its twin in the other process was searched


def without_norm(learner: LanguageModel, batch: Batch, weight: Array) -> float:
    """Learn, but let the last norm have no gradient."""
    loss = forward_backward(learner, batch, weight)
    learner.parameters()[-1].discard_grad()
    return loss


@pytest.mark.parametrize("replicas", BOTH)
def test_a_parameter_without_a_gradient_has_none(replicas: type[Replicas]) -> None:
    model = build("vidya-v2", "float32")
    learners = replicas(model, 2)
    for work, has_gradient in ((forward_backward, True), (without_norm, False), (forward_backward, True)):
        learners.run(work, texts(0, [4, 4]))
        assert [parameter.has_gradient for parameter in model.parameters()][-2:] == [True, has_gradient]
        model.zero_grad()


def in_the_second_only(learner: LanguageModel, batch: Batch, weight: Array) -> float:
    """Let only the second half of a batch have a gradient."""
    loss = forward_backward(learner, batch, weight)
    for parameter in learner.parameters() if batch.first_row == 0 else []:
        parameter.discard_grad()
    return loss


def test_a_gradient_of_one_process_alone_counts() -> None:
    model, batch = build("vidya-v2", "float64"), texts(0, [4, 4])
    found = []
    for replicas in BOTH:
        replicas(model, 2).run(in_the_second_only, batch)
        found.append([np.array(parameter.grad) for parameter in model.parameters()])
        model.zero_grad()
    assert all(np.array_equal(*each) for each in zip(*found, strict=True))
    assert sum(np.abs(gradient).sum() for gradient in found[0]) > 0


def fails_here(learner: LanguageModel, batch: Batch, weight: Array) -> float:
    """Fail in the process that has the first row."""
    if batch.first_row == 0:
        raise MemoryError("no room")
    return forward_backward(learner, batch, weight)


def fails_there(learner: LanguageModel, batch: Batch, weight: Array) -> float:
    """Fail in the other process."""
    if batch.first_row > 0:
        raise MemoryError("no room")
    return forward_backward(learner, batch, weight)


@pytest.mark.parametrize("work", [fails_here, fails_there])
def test_after_an_error_of_any_process_the_next_step_is_right(work: Any) -> None:
    model, batch = build("gpt2", "float32"), texts(0, [4, 5])
    learners = Copies(model, 2)
    right = learners.run(forward_backward, batch)
    gradients = [np.array(parameter.grad) for parameter in model.parameters()]
    for _ in range(2):
        with pytest.raises(MemoryError, match="no room"):
            learners.run(work, batch)
        model.zero_grad()
        assert learners.run(forward_backward, batch) == right
        assert all(np.array_equal(*each) for each in zip(gradients, (p.grad for p in model.parameters()), strict=True))


def test_a_killed_copy_ends_the_run_with_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processors, "count", lambda: 2)
    compute, made = Copies.compute, list[Copies]()

    def kill_at_the_fifth(copies: Copies, tasks: Any) -> list[float]:
        made.append(copies)
        if len(made) == 5:
            os.kill(copies._copies[0]._number, signal.SIGKILL)
        return compute(copies, tasks)

    monkeypatch.setattr(Copies, "compute", kill_at_the_fifth)
    text = small_runs.write_text(tmp_path / "words.txt")
    with small_runs.quick_runs(), pytest.raises(RunError, match="a share of each step, has ended"):
        small_runs.run(text, tmp_path / "run", threads=2, batch=8, steps=12)


def test_a_run_counts_the_memory_of_its_copies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processors, "count", lambda: 2)
    monkeypatch.setattr(forks, "memory_bytes_of_all", lambda: 10**15)
    text = small_runs.write_text(tmp_path / "words.txt")
    with small_runs.quick_runs():
        small_runs.run(text, tmp_path / "run", threads=2, batch=8, steps=2)
    assert metrics.read(tmp_path / "run")[-1]["memory_bytes"] > 10**15
