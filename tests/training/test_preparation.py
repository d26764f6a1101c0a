"""What a continued run says of other processes and fewer threads; the runs of tests/programs test the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from minigrad.system import processors
from minigrad.training.folder.opening import Opening
from minigrad.training.folder.record import Record
from minigrad.training.folder.run_folder import RunFolder
from minigrad.training.preparation import Preparation
from minigrad.training.settings import TrainConfig


@pytest.mark.parametrize(
    ("processes", "threads", "said"),
    [
        (1, 2, ""),
        (1, 4, "this run began with 4 threads, and this computer has 2: sums are added in another order"),
        (3, 4, "this run was trained by 3 processes so far, and is by 1 now: sums are added in another order"),
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
