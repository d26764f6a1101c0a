"""What a continued run says of other processes and fewer threads; the runs of tests/programs test the rest."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from minigrad.kernels.gemm import backend
from minigrad.system import processors
from minigrad.training.folder.opening import Opening
from minigrad.training.folder.record import Record
from minigrad.training.folder.run_folder import RunFolder
from minigrad.training.preparation import Preparation
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
    found = Preparation(Opening(asked, (), folder)).compare_threads()
    assert found.startswith(said)
    assert bool(found) == bool(said)
    assert Preparation(Opening(asked, (), None)).compare_threads() == ""


@pytest.mark.parametrize(
    ("first", "second", "chosen"), [(True, True, "bfloat16"), (True, False, "float32"), (False, True, "float32")]
)
def test_processes_compute_in_bfloat16_only_if_the_processor_of_each_does(
    monkeypatch: pytest.MonkeyPatch, first: bool, second: bool, chosen: str
) -> None:
    processor = threading.local()  # that of the process, which is a thread here

    def choose(room: Room) -> str:
        processor.multiplies_bfloat16 = (first, second)[room.rank]
        return Preparation(Opening(TrainConfig(), (), None, room)).choose_precision()

    monkeypatch.setattr(backend, "multiplies_bfloat16", lambda: processor.multiplies_bfloat16)
    assert together(2, choose) == [chosen] * 2
