"""Damaged requests: each gets a text or a 4xx with a sentence, and the server goes on."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

from minigrad.serving.served import Served
from tests.serving.wire import serving

VALID: list[tuple[str, dict[str, Any]]] = [
    ("/v1/completions", {"model": "tiny", "prompt": "to be", "max_tokens": 2, "stop": ["\n"], "echo": True}),
    ("/v1/completions", {"prompt": [[5, 6], [7]], "max_tokens": 1, "n": 2, "stream": True, "logprobs": 1}),
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, "logprobs": True}),
    ("/tokenize", {"prompt": "to be"}),
]
ODD = [
    None,
    True,
    0,
    -1,
    1e308,
    10**30,
    "",
    "a",
    "\x00",
    "\ud800",
    [],
    [None],
    {},
    {"a": []},
    [[]],
    [10**20],
    ["a"] * 40,
]
NAMES = ["temperature", "top_p", "top_k", "n", "seed", "stop", "stream", "messages", "prompt", "model", "max_tokens"]


def places_of(value: Any) -> list[tuple[Any, Any]]:
    """Return every container in a value with each of its keys."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    return [(value, key) for key in keys] + [place for key in keys for place in places_of(value[key])]


def mutated(body: dict[str, Any], draw: random.Random) -> bytes:
    body = json.loads(json.dumps(body))
    for _ in range(draw.randint(1, 2)):
        container, key = draw.choice(places_of(body) or [(body, "prompt")])
        kind = draw.randrange(4)
        if kind == 0:
            body[draw.choice(NAMES)] = copy.deepcopy(draw.choice(ODD))
        elif kind == 1 and isinstance(container, dict):
            container.pop(key, None)
        else:
            container[key] = copy.deepcopy(draw.choice(ODD))
    data = bytearray(json.dumps(body).encode())
    if draw.random() < 0.3:
        place = draw.randrange(len(data))
        data[place : place + draw.randint(0, 3)] = draw.randbytes(draw.randint(0, 3))
    return bytes(data)


def test_damaged_requests_get_a_sentence_each(make_served: Callable[..., Served], capfd: Any) -> None:
    draw, statuses = random.Random(0), list[int]()
    with serving([make_served(capacity=64)]) as wire:
        for _ in range(2000):
            path, body = draw.choice(VALID)
            answer = wire.call(path, mutated(body, draw))
            statuses.append(answer.status)
            assert answer.status == 200 or 400 <= answer.status < 500, answer
            if answer.status != 200:
                assert len(answer.json["error"]["message"].split()) > 3
        assert wire.call("/health").status == 200
        assert wire.metric("texts_served") == wire.metric("texts_waiting") == 0
    assert 1000 < sum(status != 200 for status in statuses) < 2000
    assert capfd.readouterr().err == ""
