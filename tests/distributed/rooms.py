"""Processes that are threads of this one: each has a room, and they meet at a table to which each brings a value."""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

Result = TypeVar("Result")
Array = np.ndarray[Any, Any]


class Meeting:
    """Rooms for as many processes; sums are taken in their order."""

    def __init__(self, size: int) -> None:
        self.table: list[Any] = [None] * size
        self.barrier = threading.Barrier(size, timeout=60)
        self.messages = {(a, b): queue.Queue[Any]() for a in range(size) for b in range(size)}
        self.rooms = [Room(self, rank) for rank in range(size)]

    def bring(self, rank: int, value: Any) -> list[Any]:
        self.table[rank] = copy.deepcopy(value)
        self.barrier.wait()
        found = copy.deepcopy(self.table)
        self.barrier.wait()
        return found


class Room:
    """One of the processes, as `minigrad.distributed.world.World` describes them."""

    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank, self.size, self.sharing = meeting, rank, len(meeting.table), 1
        self.words: list[str] = []

    def last_word(self, sentence: str) -> None:
        self.words.append(sentence)

    def add(self, array: Array) -> None:
        array[...] = sum(self.meeting.bring(self.rank, array))

    def share(self, value: Any) -> Any:
        return self.meeting.bring(self.rank, value)[0]

    def collect(self, value: Any) -> list[Any]:
        return self.meeting.bring(self.rank, value)

    def reduce(self, array: Array, cuts: Sequence[int]) -> None:
        whole = sum(self.meeting.bring(self.rank, array))
        for rank in range(self.size):
            own = slice(cuts[rank], cuts[rank + 1])
            array[own] = whole[own] if rank == self.rank else np.nan  # lost

    def complete(self, array: Array, cuts: Sequence[int]) -> None:
        for rank, theirs in enumerate(self.meeting.bring(self.rank, array)):
            array[cuts[rank] : cuts[rank + 1]] = theirs[cuts[rank] : cuts[rank + 1]]

    def gather(self, part: Array, cuts: Sequence[int]) -> Array | None:
        parts = self.meeting.bring(self.rank, part)
        assert [len(part) for part in parts] == np.diff(cuts).tolist()
        return np.concatenate(parts) if self.rank == 0 else None

    def send(self, array: Array, to: int) -> Callable[[], object]:
        self.meeting.messages[self.rank, to].put(array.copy())
        return lambda: None

    def receive(self, array: Array, source: int) -> None:
        array[...] = self.meeting.messages[source, self.rank].get(timeout=60)


def together(size: int, work: Callable[[Room], Result]) -> list[Result]:
    """Do `work` in as many processes and return the results; raise the error of the first that fails."""
    meeting, found, errors = Meeting(size), {}, {}

    def do(room: Room) -> None:
        try:
            found[room.rank] = work(room)
        except BaseException as error:
            errors[room.rank] = error
            meeting.barrier.abort()

    threads = [threading.Thread(target=do, args=[room]) for room in meeting.rooms]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for error in sorted(errors.values(), key=lambda each: isinstance(each, threading.BrokenBarrierError)):
        raise error
    return [found[rank] for rank in range(size)]
