"""Processes that are threads of this one, in a ring: each can send to the next one only, and counts what it sends.

Each has its own copy of whatever it works on, and reads nothing of the others but what they send. So what is learned
here holds for machines with a wire between them.
"""

import itertools
import queue
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from minigrad.distributed.shares import even_cuts


class Ring:
    """One of the processes. Its meetings are those of `minigrad.distributed.world.World`, made of messages."""

    sharing = 1  # of the processors; one that stands for a machine shares them with nobody

    def __init__(self, rank, inboxes, patience):
        self.rank, self.size, self.patience = rank, len(inboxes), patience
        self._inbox, self._next = inboxes[rank], inboxes[(rank + 1) % self.size]
        self.sent = 0  # bytes of arrays

    def pass_on(self, value):
        """Send a value to the next process and return what the one before has sent."""
        if isinstance(value, np.ndarray):
            self.sent += value.nbytes
            value = value.copy()  # what is written here afterwards is not seen there
        self._next.put(value)
        return self._inbox.get(timeout=self.patience)

    def reduce(self, array, cuts):
        """Replace the own part of a flat array by its sum over all processes (a reduce-scatter).

        A sum begins at the process after its owner. Each process adds its own part to the sum that reaches it.
        """
        pieces = [array[start:stop] for start, stop in itertools.pairwise(cuts)]
        for step in range(1, self.size):
            received = self.pass_on(pieces[(self.rank - step) % self.size])
            pieces[(self.rank - step - 1) % self.size] += received

    def complete(self, array, cuts):
        """Replace every part of a flat array but the own one by that of its owner (an all-gather)."""
        pieces = [array[start:stop] for start, stop in itertools.pairwise(cuts)]
        for step in range(self.size - 1):
            pieces[(self.rank - step - 1) % self.size][...] = self.pass_on(pieces[(self.rank - step) % self.size])

    def add(self, array):
        """Replace an array by the sum over all processes, the same bits in each (an all-reduce)."""
        flat = array.reshape(-1)
        cuts = even_cuts(slice(0, flat.size), self.size)
        self.reduce(flat, cuts)
        self.complete(flat, cuts)

    def collect(self, value):
        """Return the value of every process, in order."""
        found = {self.rank: value}
        for step in range(1, self.size):
            found[(self.rank - step) % self.size] = value = self.pass_on(value)
        return [found[rank] for rank in range(self.size)]

    def share(self, value):
        """Return the value of the first process."""
        return self.collect(value)[0]

    def gather(self, part, cuts):
        """Return the parts of all processes as one flat array in the first process, and None in the others."""
        parts = self.collect(part)
        return np.concatenate(parts) if self.rank == 0 else None


def together(size, work, patience=60.0):
    """Do `work`, a function of a Ring, in as many processes at the same time, and return what each returned.

    One that waits for a message for `patience` seconds raises queue.Empty: whoever should have sent it is gone.
    """
    inboxes = [queue.Queue() for _ in range(size)]
    with ThreadPoolExecutor(size) as threads:
        return list(threads.map(lambda rank: work(Ring(rank, inboxes, patience)), range(size)))
