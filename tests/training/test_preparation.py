"""What a run chooses before it is planned, and says of other processes; the runs of tests/programs test the rest."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import models
from minigrad.data import mixture
from minigrad.data.corpus import Corpus
from minigrad.kernels.gemm import backend
from minigrad.system import processors
from minigrad.training.folder.opening import Opening
from minigrad.training.folder.record import Record
from minigrad.training.folder.run_folder import RunFolder
from minigrad.training.planning import choices
from minigrad.training.planning.costs import Rates
from minigrad.training.preparation import choose_precision, choose_text, compare_threads
from minigrad.training.settings import TrainConfig
from tests.distributed.rooms import Room, together


@pytest.mark.parametrize(
    ("processes", "threads", "said"),
    [
        (1, 2, ""),
        (1, 4, "this run began with 4 threads, and this computer has 2: sums are added in another order"),
        (3, 4, "this run has been trained by 3 processes so far, and continues with 1: sums are added"),
    ],
)
def test_a_run_says_what_differs_from_its_beginning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, processes: int, threads: int, said: str
) -> None:
    monkeypatch.setattr(processors, "count", lambda: 2)
    asked, folder = TrainConfig(threads=threads), RunFolder(tmp_path, Record(processes=processes))
    found = compare_threads(Opening(asked, (), folder))
    assert found.startswith(said)
    assert bool(found) == bool(said)
    assert compare_threads(Opening(asked, (), None)) == ""


@pytest.mark.parametrize(
    ("first", "second", "chosen"), [(True, True, "bfloat16"), (True, False, "float32"), (False, True, "float32")]
)
def test_processes_compute_in_bfloat16_only_if_the_processor_of_each_does(
    monkeypatch: pytest.MonkeyPatch, first: bool, second: bool, chosen: str
) -> None:
    processor = threading.local()  # that of the process, which is a thread here

    def choose(room: Room) -> str:
        processor.multiplies_bfloat16 = (first, second)[room.rank]
        return choose_precision(Opening(TrainConfig(), (), None, room))

    monkeypatch.setattr(backend, "multiplies_bfloat16", lambda: processor.multiplies_bfloat16)
    assert together(2, choose) == [chosen] * 2


@pytest.mark.parametrize(
    ("asked", "data"),
    [
        (TrainConfig(minutes=0.1), "python-docs"),
        (TrainConfig(minutes=6000.0), choices.WITH_SOURCE),
        (TrainConfig(minutes=6000.0, data="python-docs"), "python-docs"),
    ],
)
def test_a_run_that_would_read_its_text_often_gets_source_code_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], asked: TrainConfig, data: str
) -> None:
    read = []

    def load(name: str, **options: Any) -> Corpus:
        read.append((name, options["held_out"]))
        return Corpus(name, "words", ("word " * 10**5 * len(read),), ("other words",))

    monkeypatch.setattr(mixture, "load", load)
    ladder = {"nano": models.skeleton("vidya-v2", "nano")}
    chosen, text, dial = choose_text(Opening(asked, (), None), asked, ladder, Rates(1e11, 1e9))
    assert (chosen.data, text.name) == (data, data)
    assert dial.text_bytes == text.bytes_as_one
    assert read == [("python-docs", None), (data, "python-docs")][: 1 + ("source" in data)]
    assert ("so a fifth of its tokens come from python-source" in capsys.readouterr().out) == ("source" in data)
