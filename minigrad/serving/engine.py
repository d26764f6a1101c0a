"""The engine: the one thread in which models compute, beside the event loop that talks with clients."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence

from minigrad.serving.scheduler import Event, Scheduler, Text
from minigrad.system.terminal import to_standard_error

News = list[tuple[Text, Event]]

_SWITCH = 0.0005  # seconds; by default ten times as many


class Engine:
    """Gives the scheduler of each model its turns, while one has texts; `deliver` gets the news of each turn.

    `deliver` is called in the thread of the engine.
    """

    def __init__(self, schedulers: Sequence[Scheduler], deliver: Callable[[News], None]) -> None:
        self._schedulers, self._deliver = schedulers, deliver
        self._wake, self._stopped = threading.Event(), False
        self._interval_before = sys.getswitchinterval()
        self._thread = threading.Thread(target=self._run, name="minigrad-engine", daemon=True)

    def start(self) -> None:
        """Start the thread, and let Python threads wait for each other for a shorter time than usual.

        A pass begins when its second thread has the interpreter's lock, which the event loop holds while it sends the
        tokens of the pass before.
        """
        sys.setswitchinterval(_SWITCH)
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the present turn, and let threads wait as long as before."""
        self._stopped = True
        self._wake.set()
        self._thread.join()
        sys.setswitchinterval(self._interval_before)

    def submit(self, scheduler: Scheduler, texts: Sequence[Text]) -> None:
        """Let texts wait for places; raises InputError, and takes none of them, if one could outgrow its place."""
        for text in texts:
            scheduler.check(text)
        for text in texts:
            scheduler.submit(text)
        self._wake.set()

    def _run(self) -> None:
        while not self._stopped:
            self._wake.wait()
            self._wake.clear()
            while not self._stopped and any(each.num_waiting + each.num_served for each in self._schedulers):
                for scheduler in self._schedulers:
                    if news := self._turn(scheduler):
                        self._deliver(news)

    def _turn(self, scheduler: Scheduler) -> News:
        try:
            return scheduler.turn()
        except Exception as error:  # a fault of one model, such as full memory, does not end the server
            to_standard_error(f"[a turn failed: {type(error).__name__}: {error}]")
            return scheduler.fail(error)
