"""The engine computes in a thread of its own, and a fault of a model does not end it."""

from __future__ import annotations

import queue
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from minigrad import InputError
from minigrad.generation.continuation import Continuation
from minigrad.generation.decoding import drawing_rules
from minigrad.generation.settings import Sampling
from minigrad.serving.engine import _SWITCH, Engine
from minigrad.serving.scheduler import Scheduler, Text
from minigrad.serving.served import Served


def text(scheduler: Scheduler, tokens: int = 3) -> Text:
    rules = drawing_rules(scheduler.model, Sampling(tokens=tokens, temperature=0), None, None)
    return Text(Continuation(rules, [5, 6], 0, 0))


def test_texts_of_two_models_are_written_until_the_engine_stops(make_served: Callable[..., Served]) -> None:
    schedulers = [make_served(name).scheduler for name in "ab"]
    news: queue.SimpleQueue[Any] = queue.SimpleQueue()
    engine = Engine(schedulers, lambda found: [news.put(each) for each in found])
    engine.start()
    texts = [text(scheduler) for scheduler in schedulers]
    for scheduler, each in zip(schedulers, texts, strict=True):
        engine.submit(scheduler, [each])
    found = [news.get(timeout=60) for _ in range(6)]
    engine.stop()
    assert all(sum(other is each for other, _ in found) == 3 for each in texts)
    assert not any(scheduler.num_served for scheduler in schedulers)


def test_no_text_waits_if_one_of_a_request_is_too_long(make_served: Callable[..., Served]) -> None:
    scheduler = make_served(capacity=10).scheduler
    engine = Engine([scheduler], lambda found: None)
    with pytest.raises(InputError):
        engine.submit(scheduler, [text(scheduler, 3), text(scheduler, 30)])
    assert scheduler.num_waiting == 0


def test_a_fault_ends_the_texts_of_its_turn_and_no_others(
    make_served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    scheduler, news = make_served().scheduler, queue.SimpleQueue[Any]()
    engine = Engine([scheduler], lambda found: [news.put(each) for each in found])

    def fail(*_: Any) -> None:
        raise MemoryError("no memory is left")

    with monkeypatch.context() as patch:
        patch.setattr(scheduler.decoder, "step", fail)
        engine.start()
        first, second = text(scheduler), text(scheduler)
        engine.submit(scheduler, [first])
        failed, error = news.get(timeout=60)
        assert failed is first
        assert isinstance(error, MemoryError)
    engine.submit(scheduler, [second])
    assert [news.get(timeout=60)[0] for _ in range(3)] == [second] * 3
    engine.stop()
    assert "no memory is left" in capfd.readouterr().err


def test_a_fault_that_cannot_be_printed_does_not_end_the_thread(
    make_served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler, news = make_served().scheduler, queue.SimpleQueue[Any]()
    engine = Engine([scheduler], lambda found: [news.put(each) for each in found])
    monkeypatch.setattr(sys, "stderr", Mock(write=Mock(side_effect=BrokenPipeError)))
    engine.start()
    with monkeypatch.context() as patch:
        patch.setattr(scheduler.decoder, "step", Mock(side_effect=MemoryError("no memory is left")))
        engine.submit(scheduler, [text(scheduler)])
        assert isinstance(news.get(timeout=10)[1], MemoryError)
    second = text(scheduler)
    engine.submit(scheduler, [second])
    assert [news.get(timeout=60)[0] for _ in range(3)] == [second] * 3
    engine.stop()


def test_the_engine_stops_though_texts_are_not_written_to_their_end(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler, turns, switch, before = Mock(num_waiting=0, num_served=1), list[int](), Mock(), sys.getswitchinterval()
    monkeypatch.setattr(sys, "setswitchinterval", switch)

    def turn() -> list[Any]:
        turns.append(1)
        engine._stopped = True  # as `stop` does, in another thread
        scheduler.num_served = int(len(turns) < 5)
        return []

    scheduler.turn = turn
    engine = Engine([scheduler], lambda found: None)
    engine.start()
    engine.submit(scheduler, [])
    engine._thread.join(timeout=60)
    assert len(turns) == 1
    assert not engine._wake.is_set()  # or it would never wait
    engine.stop()
    assert [call.args for call in switch.call_args_list] == [(_SWITCH,), (before,)]
