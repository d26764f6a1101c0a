"""A server that stops lets short replies end, and ends the others with an error that their clients can read."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from minigrad.serving.served import Served
from tests.serving.wire import serving, until

Make = Callable[..., Served]
COMPLETIONS = "/v1/completions"


def test_a_reply_that_is_nearly_done_ends(make_served: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    served, go = make_served(), threading.Event()
    turn = served.scheduler.turn
    monkeypatch.setattr(served.scheduler, "turn", lambda: turn() if go.is_set() else [])
    with serving([served], grace=60) as wire:
        connection = wire.send(COMPLETIONS, {"prompt": "to be", "max_tokens": 3})
        until(lambda: served.scheduler.num_waiting)
        wire.server.should_exit = True
        go.set()
        reply = connection.getresponse()
        assert reply.status == 200
        assert json.loads(reply.read())["usage"]["completion_tokens"] > 0
        connection.close()


@pytest.mark.parametrize("streams", [True, False])
def test_a_server_that_stops_ends_its_replies_with_an_error(
    make_served: Make, monkeypatch: pytest.MonkeyPatch, capfd: Any, streams: bool
) -> None:
    served, go = make_served(), threading.Event()
    turn = served.scheduler.turn
    monkeypatch.setattr(served.scheduler, "turn", lambda: turn() if go.is_set() else [])
    with serving([served]) as wire:
        connection = wire.send(COMPLETIONS, {"prompt": "to be", "stream": streams})
        until(lambda: served.scheduler.num_waiting)
        wire.server.should_exit = True
        reply = connection.getresponse()
        error = json.loads(reply.read().decode().removeprefix("data: "))["error"]
        assert reply.status == (200 if streams else 503)
        assert error["message"] == "the server is stopping"
        connection.close()
    assert capfd.readouterr().err == ""


def test_a_second_signal_ends_the_replies_at_once(
    make_served: Make, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    served = make_served()
    monkeypatch.setattr(served.scheduler, "turn", list)  # nothing is ever written
    with serving([served], grace=60) as wire:
        connection = wire.send(COMPLETIONS, {"prompt": "to be", "stream": True})
        until(lambda: served.scheduler.num_waiting)
        for _ in range(2):
            wire.server.handle_exit(signal.SIGTERM, None)
        reply = connection.getresponse()
        assert json.loads(reply.read().decode().removeprefix("data: "))["error"]["message"] == "the server is stopping"
        connection.close()
    assert capfd.readouterr().err == ""


def test_a_server_that_stops_takes_no_further_texts(make_served: Make) -> None:
    with serving([make_served()]) as wire:
        wire.server._api.end_all()
        refused = wire.call(COMPLETIONS, {"prompt": "to be"})
    assert (refused.status, refused.json["error"]["message"]) == (503, "the server is stopping")
