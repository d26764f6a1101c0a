"""Which workers a run has: replicas in copies of the process, replicas in threads, or a stage of a pipeline."""

from __future__ import annotations

from typing import Any

import pytest

from minigrad.distributed.pipeline import Pipeline
from minigrad.distributed.world import World
from minigrad.system import blas, forks, hardware
from minigrad.training.copies import Copies
from minigrad.training.parallel import Replicas
from minigrad.training.settings import RunSettings
from minigrad.training.workers import fastest, workers_of
from tests.models.tiny import build


def settings(**changes: Any) -> RunSettings:
    """Return the settings of a run of 8 sequences of 64 tokens."""
    every: dict[str, Any] = {"log_every": 1, "eval_every": 1, "save_every": 1, "sample_every": 1, "threads": 2}
    return RunSettings(**every | {"batch": 8, "context": 64, "lr": 0.1, "warmup": 0, "optimizer": "adamw"} | changes)


@pytest.fixture(autouse=True)
def _two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "threads", lambda: 2)
    monkeypatch.setattr(blas, "can_use_one_thread", lambda: True)


@pytest.mark.skipif(not forks.ARE_POSSIBLE, reason="this system cannot copy a process")
def test_a_small_model_has_copies_of_the_process_unless_one_process_must_have_all() -> None:
    model = build("vidya-v2")
    assert type(workers_of(settings(), model)) is Copies
    assert len(workers_of(settings(), model).models) == 2
    for changes in ({"profile": True}, {"objective": "sft"}, {"objective": "distill"}):
        assert type(workers_of(settings(**changes), model)) is Replicas
    assert type(fastest(model, 8, 64)) is Copies


def test_where_a_process_cannot_be_copied_replicas_are_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks, "ARE_POSSIBLE", False)
    assert type(workers_of(settings(), build("vidya-v2"))) is Replicas
    assert type(fastest(build("vidya-v2"), 8, 64)) is Replicas


def test_processes_of_mpiexec_have_threads_or_stages() -> None:
    many = World()
    many.size = 2
    assert type(workers_of(settings(), build("vidya-v2"), many)) is Replicas
    assert type(workers_of(settings(pipeline=True), build("vidya-v2"), many)) is Pipeline
