"""What is asked of MPI, with an MPI of threads; `tests/peers/test_many_processes.py` starts true processes."""

from __future__ import annotations

import itertools
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from minigrad.distributed import mpi
from minigrad.distributed.mpi import Processes
from minigrad.errors import RunError
from tests.distributed.rooms import Room, together


class BrokenError(Exception):
    def Get_error_string(self) -> str:  # noqa: N802
        return "connection\nreset"


class Communicator:
    """The operations of MPI's communicators that are used, between threads."""

    def __init__(self, room: Room) -> None:
        self.room, self.rank, self.size = room, room.rank, room.size
        self.others_leave, self.aborted = True, 0

    def Dup(self) -> Communicator:  # noqa: N802
        return self

    def Allreduce(self, in_place: str, array: Any) -> None:  # noqa: N802
        if array is None:
            raise BrokenError
        self.room.add(array)

    def bcast(self, value: Any) -> Any:
        return self.room.share(value)

    def allgather(self, value: Any) -> list[Any]:
        return self.room.collect(value)

    def Reduce_scatter(self, send: Any, receive: Any, counts: list[int]) -> None:  # noqa: N802
        assert not np.shares_memory(send, receive)  # MPI forbids it
        start = sum(counts[: self.rank])
        receive[...] = sum(self.room.collect(send))[start : start + counts[self.rank]]

    def Allgatherv(self, in_place: str, receive: Any) -> None:  # noqa: N802
        self.room.complete(receive[0], np.cumsum([0, *receive[1]]))

    def Gatherv(self, send: Any, receive: Any) -> None:  # noqa: N802
        found = self.room.collect(send)
        if receive is not None:
            receive[0][...] = np.concatenate(found)

    def Isend(self, array: Any, to: int) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(Wait=self.room.send(array, to))

    def Recv(self, array: Any, source: int) -> None:  # noqa: N802
        self.room.receive(array, source)

    def Ibarrier(self) -> SimpleNamespace:  # noqa: N802
        return SimpleNamespace(Test=lambda: self.others_leave)

    def Abort(self, code: int) -> None:  # noqa: N802
        self.aborted = code


@pytest.fixture(autouse=True)
def _an_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("mpi4py")
    package.MPI = SimpleNamespace(IN_PLACE="in place", Exception=BrokenError)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mpi4py", package)
    monkeypatch.setattr(mpi, "LastWords", lambda: SimpleNamespace(say=print, forget=lambda: print("forgotten")))
    monkeypatch.setattr(mpi, "_PATIENCE", 0.0)


def test_every_operation() -> None:
    def work(room: Room) -> Any:
        world = Processes(Communicator(room))
        assert (world.rank, world.size, world.sharing) == (room.rank, 3, 3)
        cuts = [1, 3, 3, 6]
        array = np.arange(6.0) + 10 * room.rank
        world.reduce(array, cuts)
        own = slice(cuts[room.rank], cuts[room.rank + 1])
        assert array[own].tolist() == (3 * np.arange(6.0) + 30)[own].tolist()
        gathered = world.gather(array[own], cuts)
        world.complete(array, cuts)
        total = np.array([room.rank])
        world.add(total)
        assert (total.item(), world.share(room.rank), world.collect(room.rank)) == (3, 0, [0, 1, 2])
        wait, received = world.send(np.array([1.0, room.rank]), (room.rank + 1) % 3), np.zeros(2)
        world.receive(received, (room.rank - 1) % 3)
        wait()
        assert received.tolist() == [1, (room.rank - 1) % 3]
        return array[1:].tolist(), gathered

    found = together(3, work)
    assert [each[0] for each in found] == [[33, 36, 39, 42, 45]] * 3
    assert found[0][1].tolist() == found[0][0]
    assert found[1][1] is found[2][1] is None


def test_processes_with_the_same_processors_share_them(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = itertools.count()
    monkeypatch.setattr(mpi.processors, "allowed", lambda: {next(turn) // 2})  # two may use 0, one 1
    assert sorted(together(3, lambda room: Processes(Communicator(room)).sharing)) == [1, 2, 2]


def alone() -> tuple[Processes, Communicator]:
    (found,) = together(1, Communicator)
    return Processes(found), found


def test_a_connection_that_breaks_is_a_clear_error() -> None:
    with pytest.raises(RunError, match="processes lost their connection: connection reset; the last checkpoint"):
        alone()[0].add(None)  # type: ignore[arg-type]


def test_a_message_appears_once_if_all_leave_and_with_the_process_if_only_one_does(
    capsys: pytest.CaptureFixture[str],
) -> None:
    world, communicator = alone()
    world.last_word("a sentence")
    world.leave(0, "nothing is said")
    world.leave(2, "train.py: bad input")
    assert capsys.readouterr() == ("a sentence\nforgotten\nforgotten\n", "train.py: bad input\n")
    assert communicator.aborted == 0
    communicator.others_leave = False
    world.leave(143, "train.py: the disk is full")
    said = capsys.readouterr().err
    assert said.startswith("train.py: the disk is full (process 0 of 1, on ")
    assert said.endswith("it ended the other processes)\n")
    assert communicator.aborted == 143


def test_only_the_first_process_speaks_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    def leave(room: Room) -> None:
        world = Processes(Communicator(room))
        world.last_word("")
        world.leave(2, "train.py: bad input")

    together(2, leave)
    assert capsys.readouterr().err == "train.py: bad input\n"
