"""Replicas on several threads learn what one model learns."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import train as train_program
from minigrad import nn
from minigrad.data.tokens.batches import Batch
from minigrad.distributed.world import ALONE, World
from minigrad.kernels import threads
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import AdamW
from minigrad.system import blas, forks, hardware, processors
from minigrad.training.folder import metrics
from minigrad.training.parallel import Replicas, _add_range, copies_pay, num_replicas, replica
from minigrad.training.run import Run
from tests import small_runs
from tests.killed_runs import killed_at
from tests.models.tiny import TINY, VOCAB, build
from train import forward_backward, train

pytestmark = pytest.mark.usefixtures("two_threads")
every_family = pytest.mark.parametrize("family", TINY)


def texts(seed: int, batch: int, length: int) -> Batch:
    ids = np.random.default_rng(seed).integers(0, VOCAB, (batch, length + 1))
    return Batch.rectangular(ids[:, :-1], ids[:, 1:])


@every_family
def test_replicas_learn_the_same_bits_every_time(family: str) -> None:
    batch = texts(0, 4, 6)
    seen = []
    for _ in range(3):
        model = build(family, "float32")
        loss = Replicas(model, 2).run(forward_backward, batch)
        seen.append([loss, *(np.array(parameter.grad).tobytes() for parameter in model.parameters())])
    assert seen[0] == seen[1] == seen[2]


@every_family
def test_a_replica_shares_the_weights_and_nothing_else_that_changes(family: str) -> None:
    model = build(family, "float32")
    twin = replica(model)
    for (name, ours), (same_name, theirs) in zip(model.named_parameters(), twin.named_parameters(), strict=True):
        assert name == same_name
        assert ours is not theirs
        assert np.shares_memory(ours.data, theirs.data)
        assert not np.shares_memory(ours.grad, theirs.grad)
    assert not {id(module) for _, module in model.named_modules()} & {id(module) for _, module in twin.named_modules()}
    twin.eval()
    assert model.training


def test_the_optimizer_moves_every_replica() -> None:
    model = build("vidya-v2", "float32")
    learners, batch = Replicas(model, 2), texts(0, 4, 6)
    optimizer = AdamW(model.parameters())
    losses = []
    for _ in range(30):
        losses.append(learners.run(forward_backward, batch))
        optimizer.step(1e-2)
        optimizer.zero_grad()
    assert losses[-1] < losses[0] / 2


def test_equal_sequences_of_a_batch_and_equal_batches_of_two_steps_have_different_masks() -> None:
    model, batch = build("gpt2", "float64", dropout=0.5), texts(0, 1, 6)
    learners = Replicas(model, 1, seed=7)
    places = [(step, first) for step in range(2) for first in range(2)]
    losses = [learners.run(forward_backward, replace(batch, first_row=6 * first), step=step) for step, first in places]
    assert len(set(losses)) == 4


def test_each_replica_merges_and_the_average_is_reported() -> None:
    model = build("wiola", "float64", atm="first", atm_threshold=0.0)
    learners = Replicas(model, 2)
    learners.run(forward_backward, texts(0, 5, 8))
    each = [part.measurements()["merge_ratio"] for part in learners.models]
    assert np.min(each) > 0
    assert learners.measurements() == {"merge_ratio": np.average(each, axis=0, weights=[24, 16]).tolist()}


@pytest.mark.parametrize(("family", "options"), [("wiola", {"atm_threshold": 0.0}), ("vidya-v2", {"experts": 4})])
def test_the_parts_of_a_step_are_averaged_in_what_is_reported(family: str, options: dict[str, Any]) -> None:
    batch, found = texts(0, 7, 8), []
    for count, parts in ((1, 1), (1, 3), (2, 3)):
        learners = Replicas(build(family, "float64", **options), count, parts=parts)
        for step in range(2):
            learners.accumulate(forward_backward, batch, step)
        found.append(learners.measurements())
    for each in found[1:]:
        assert each.keys() == found[0].keys()
        for name, values in each.items():
            assert values == pytest.approx(found[0][name], rel=1e-12)


def test_the_number_of_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("vidya-v2", "float32")
    width = model.config.width
    monkeypatch.setattr(hardware, "threads", lambda: 2)
    assert num_replicas(model, 2, 2 * width) == 2
    assert num_replicas(model, 2, 2 * width - 1) == 1  # too little work for a thread
    assert num_replicas(model, 3, 4 * width) == 2  # one thread has two sequences, the other one
    assert num_replicas(model, 1, 9 * width) == 1  # a sequence is not divided
    monkeypatch.setattr(hardware, "threads", lambda: 6)
    assert num_replicas(model, 4, 9 * width) == 4
    monkeypatch.setattr(hardware, "threads", lambda: 2)
    monkeypatch.setattr(blas, "can_use_one_thread", lambda: False)
    assert num_replicas(model, 2, 2 * width) == 1
    monkeypatch.undo()
    monkeypatch.setattr(hardware, "threads", lambda: 1)
    assert num_replicas(model, 2, 2 * width) == 1


def test_copies_pay_for_small_models_of_a_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model, many = build("vidya-v2"), World()
    many.size = 2
    monkeypatch.setattr(forks, "ARE_POSSIBLE", True)
    assert copies_pay(model, ALONE)
    assert not copies_pay(model, many)
    with monkeypatch.context() as patch:
        patch.setattr(LanguageModel, "num_parameters", lambda _: 8_000_001)
        assert not copies_pay(model, ALONE)
    monkeypatch.setattr(forks, "ARE_POSSIBLE", False)
    assert not copies_pay(model, ALONE)


def test_a_step_does_not_search_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    learners, batch = Replicas(build("gpt2", dropout=0.5), 2), texts(0, 2, 4)
    searched: list[nn.Module] = []
    monkeypatch.setattr(nn.Module, "named_modules", lambda module, prefix="": searched.append(module) or [])
    learners.run(forward_backward, batch)
    assert not searched


def test_kernels_inside_parallel_tasks_use_no_further_threads() -> None:
    where: dict[int, set[int]] = {0: set(), 1: set()}
    started = threading.Barrier(2, timeout=60)

    def task(number: int) -> None:
        started.wait()
        threads.over_rows(lambda start, stop: where[number].add(threading.get_ident()), 100, 10**9)

    threads.run_tasks(task, 2)
    assert [len(found) for found in where.values()] == [1, 1]
    assert where[0] != where[1]
    seen = set()
    threads.over_rows(lambda start, stop: seen.add((start, stop)), 100, 10**9)
    assert len(seen) > 1  # afterwards the caller has threads again


def test_a_run_of_replicas_that_was_stopped_continues_exactly(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(processors, "count", lambda: 2)
    text = small_runs.write_text(tmp_path / "words.txt")
    large = {"threads": 2, "batch": 8, "steps": 12, "dropout": 0.2, "accumulate": 2}
    take_step = train_program.take_step

    def take_on_two(run: Run) -> tuple[float, float]:
        assert len(run.workers.models) == 2
        return take_step(run)

    monkeypatch.setattr(train_program, "take_step", take_on_two)
    with small_runs.quick_runs():
        small_runs.run(text, tmp_path / "whole", **large)
        killed_at(monkeypatch, 8, small_runs.settings(text, tmp_path / "killed", **large))
        train(small_runs.TrainConfig(resume=str(tmp_path / "killed")))
    assert small_runs.outcome(tmp_path / "killed") == small_runs.outcome(tmp_path / "whole")


def test_a_run_that_continues_on_fewer_cores_says_what_that_changes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processors, "count", lambda: 2)
    text = small_runs.write_text(tmp_path / "words.txt")
    large: dict[str, Any] = {"threads": 2, "batch": 8, "steps": 12, "dropout": 0.2, "precision": "float64"}

    with small_runs.quick_runs():
        small_runs.run(text, tmp_path / "whole", **large)
        killed_at(monkeypatch, 8, small_runs.settings(text, tmp_path / "killed", **large))
        assert "this run began with" not in capsys.readouterr().out
        with monkeypatch.context() as patch:
            patch.setattr(processors, "count", lambda: 1)
            train(small_runs.TrainConfig(resume=str(tmp_path / "killed")))
    assert "this run began with 2 threads, and this computer has 1: sums are added in another order" in (
        capsys.readouterr().out
    )
    whole, killed = (metrics.read(tmp_path / name) for name in ("whole", "killed"))
    # The same text and the same dropout, so only rounding differs.
    np.testing.assert_allclose([line["loss"] for line in killed], [line["loss"] for line in whole], rtol=1e-10)


def test_a_profile_changes_nothing_and_names_the_replica_it_measures(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(processors, "count", lambda: 2)
    text = small_runs.write_text(tmp_path / "words.txt")
    operations = []
    with small_runs.quick_runs():
        for name, changes in (
            ("plain", {}),
            ("profiled", {"profile": True}),
            ("alone", {"profile": True, "threads": 1}),
        ):
            settings = {"threads": 2, "batch": 8, "steps": 3, "dropout": 0.2} | changes
            small_runs.run(text, tmp_path / name, **settings)
            printed = capsys.readouterr().out
            assert ("one of 2 threads, each with its part of the sequences" in printed) == (name == "profiled")
            operations += [line.split(";")[0] for line in printed.splitlines() if line.startswith("products: ")]
    assert small_runs.outcome(tmp_path / "profiled") == small_runs.outcome(tmp_path / "plain")
    assert operations[0] == operations[1]  # all threads' products are counted


def test_a_process_without_a_sequence_measures_nothing() -> None:
    """Of two processes, one has no part of a batch of a single sequence, and may write its log before any other."""
    model = build("vidya-v2", "float32")
    assert Replicas(model, 1, 0).measurements() == {}


@pytest.mark.usefixtures("_restore_pool")
def test_threads_share_a_sum_of_gradients(shared_loops: list[int]) -> None:
    for count in (1, 2, 3):
        threads.set_threads(count)
        total = np.zeros(100, np.float32)
        threads.over_rows(partial(_add_range, total, np.ones(100, np.float32)), 100, 1)
        assert (total == 1).all()
    assert {2, 3} <= {*shared_loops}
