"""A program alone loads no MPI; one of several that cannot connect says why, once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from minigrad.distributed import launch
from minigrad.distributed.world import ALONE, World
from minigrad.errors import RunError


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    for names in launch._VARIABLES:
        for name in names:
            monkeypatch.delenv(name, raising=False)

    def start(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return start


def test_the_launcher_says_which_process_this_is(started: Any) -> None:
    assert launch.started_as() == (0, 1)
    started(SLURM_NTASKS="4")  # in a batch script that srun did not start
    assert launch.started_as() == (0, 1)
    started(PMIX_RANK="3")
    assert launch.started_as() == (3, 4)
    started(OMPI_COMM_WORLD_RANK="1", OMPI_COMM_WORLD_SIZE="3")
    assert launch.started_as() == (1, 3)
    started(PMI_RANK="0", PMI_SIZE="2")
    assert launch.started_as() == (0, 2)


def test_alone_nothing_is_loaded_and_messages_are_printed(
    started: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "mpi4py", raising=False)  # the collecting of other tests may have loaded it
    assert launch.connect() is ALONE
    started(PMI_RANK="0", PMI_SIZE="1")
    assert launch.connect() is ALONE
    assert "mpi4py" not in sys.modules
    assert launch.run_together(lambda tell: tell("train.py: bad") or 2) == 2
    assert capsys.readouterr().err == "train.py: bad\n"


def test_a_missing_mpi_says_how_to_install_it(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    started(PMI_RANK="1", PMI_SIZE="2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(RunError, match=r"mpiexec started 2 processes, which need mpi4py .*.*\[distributed\]"):
        launch.connect()


def test_a_library_that_mpi4py_does_not_find_is_named(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class NoLibrary(ModuleType):
        @property
        def MPI(self) -> Any:  # noqa: N802
            raise RuntimeError("cannot load MPI library\nlibmpi.so.12")

    started(PMI_RANK="1", PMI_SIZE="2")
    monkeypatch.setitem(sys.modules, "mpi4py", NoLibrary("mpi4py"))
    with pytest.raises(RunError, match=r"mpi4py found no MPI \(cannot load MPI library libmpi\.so\.12\)"):
        launch.connect()


@pytest.mark.parametrize("size", [1, 3])
def test_the_mpiexec_of_another_mpi_is_noticed(started: Any, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    package = ModuleType("mpi4py")
    package.MPI = SimpleNamespace(  # type: ignore[attr-defined]
        COMM_WORLD=SimpleNamespace(size=size), Get_library_version=lambda: "MPICH 5\nbuilt"
    )
    started(OMPI_COMM_WORLD_RANK="0", OMPI_COMM_WORLD_SIZE="2")
    monkeypatch.setitem(sys.modules, "mpi4py", package)
    with pytest.raises(RunError, match=rf"started 2 processes, but the MPI of this Python \(MPICH 5\) connects {size}"):
        launch.connect()


def test_processes_connect_once_and_compare_their_versions(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world, compared = World(), list[Any]()
    monkeypatch.setattr(launch, "_processes", None)
    monkeypatch.setattr(launch, "_connect", lambda size: world)
    monkeypatch.setattr(launch, "check_agreement", lambda *given: compared.append(given))
    started(PMI_RANK="1", PMI_SIZE="2")
    assert launch.connect() is launch.connect() is world
    assert compared == [(world, launch._versions())]


def test_processes_that_are_not_connected_say_it_once(started: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        started(PMI_RANK=str(rank), PMI_SIZE="2")
        assert launch.run_together(lambda tell: print("shown") or tell("train.py: bad") or 2) == 2
    assert capsys.readouterr() == ("shown\n", "train.py: bad\n")


def test_connected_processes_leave_together_also_after_a_bug(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[tuple[int, str]] = []
    started(PMI_RANK="1", PMI_SIZE="2")
    monkeypatch.setattr(launch, "_processes", SimpleNamespace(leave=lambda code, message: left.append((code, message))))

    def fail(tell: Any) -> int:
        raise KeyError("a bug")

    assert launch.run_together(lambda tell: 0) == 0
    assert launch.run_together(fail) == 1
    assert left[0] == (0, "")
    assert left[1][0] == 1
    assert left[1][1].endswith("KeyError: 'a bug'\n")


@pytest.mark.parametrize("file", ["train.py", "minigrad/ops/add.py", "models/wiola/layers.py", "tokenizer/chat.py"])
def test_another_step_or_another_layer_is_another_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, file: str
) -> None:
    monkeypatch.setattr(launch, "__file__", str(tmp_path / "minigrad" / "distributed" / "launch.py"))
    (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
    versions = []
    for norm in (1.0, 2.0):
        (tmp_path / file).write_text(f"MAX_GRADIENT_NORM = {norm}", encoding="utf-8")
        versions.append(launch._versions())
    assert versions[0] != versions[1]


def test_the_program_is_a_part_of_what_must_be_equal() -> None:
    versions = launch._versions()
    assert {"the version of numpy", "the version of numba", "the version of Python"} < versions.keys()
    assert len(versions["the program (a hash of its files)"]) == 16
