"""A page that measures time is run while no other page is."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.docs,
    pytest.mark.filterwarnings("default"),
    pytest.mark.skipif(sys.platform == "win32", reason="pages are read one after another there"),
]


def test_who_wants_to_be_alone_waits_and_keeps_others_waiting(tmp_path: Path) -> None:
    import fcntl

    from docs.extensions.measuring import Turns

    first, second, alone, late = (Turns(tmp_path) for _ in range(4))
    order: list[str] = []

    def take(name: str, turns: Turns) -> None:
        turns.take(alone=turns is alone)
        order.append(name)
        turns.give_back()

    def gate_is_free() -> bool:
        with (tmp_path / ".gate").open("wb") as gate:
            try:
                fcntl.flock(gate, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    first.take(alone=False)
    second.take(alone=False)  # two pages at once
    waiting = threading.Thread(target=take, args=("alone", alone))
    waiting.start()
    while gate_is_free():
        pass
    next_page = threading.Thread(target=take, args=("late", late))
    next_page.start()
    first.give_back()
    assert order == []
    second.give_back()
    for thread in (waiting, next_page):
        thread.join()
    assert order == ["alone", "late"]
