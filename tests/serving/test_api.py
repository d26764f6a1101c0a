"""The API over the wire: what OpenAI's clients send and read, and the law of serving for 64 clients at once."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest.mock import Mock

import pytest
from starlette.requests import Request

from minigrad.serving.api import Api, Deadline, Job, _event
from minigrad.serving.replies import ReplyPart
from minigrad.serving.scheduler import Text
from minigrad.serving.served import Served
from tests.serving.wire import Answer, Wire, serving, until

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
HELLO = [{"role": "user", "content": "to be or not"}]
Make = Callable[..., Served]


@pytest.fixture
def wire(make_served: Make) -> Iterator[Wire]:
    with serving([make_served("tiny"), make_served("other", teaches=False)]) as found:
        yield found


def test_models_are_listed_by_name(wire: Wire) -> None:
    listed = wire.call("/v1/models").json
    assert [(each["id"], each["object"]) for each in listed["data"]] == [("tiny", "model"), ("other", "model")]
    assert wire.call("/v1/models/other").json == listed["data"][1]
    assert wire.call("/v1/models/othre").json["error"]["code"] == "model_not_found"


def test_health_tokens_and_metrics(wire: Wire, tok: Any) -> None:
    assert wire.call("/health").json == {"status": "ok"}
    found = wire.call("/tokenize", {"prompt": "to be"}).json
    assert (found["tokens"], found["count"]) == (tok.encode("to be"), len(tok.encode("to be")))
    assert (found["beginning"], found["max_model_len"], found["max_tokens"]) == (1, 256, None)
    assert found["specials"] == sorted(tok.specials)
    assert found["converses"]
    found = wire.call("/tokenize", {"messages": HELLO}).json
    assert (found["tokens"][-1], found["beginning"]) == (tok.specials["<|assistant|>"], 0)
    assert wire.metric("requests_total") == 3


def test_a_stream_has_the_text_of_a_whole_reply(wire: Wire) -> None:
    asked = {"prompt": ["to be", "or not"], "max_tokens": 30, "n": 2, "seed": 3, "logprobs": 2}
    whole = wire.call(COMPLETIONS, asked).json
    texts, tokens = [""] * 4, [list[float]() for _ in range(4)]
    *chunks, last = wire.call(COMPLETIONS, asked | {"stream": True, "stream_options": {"include_usage": True}}).events
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        texts[choice["index"]] += choice["text"]
        tokens[choice["index"]] += choice["logprobs"]["token_logprobs"]
    assert texts == [choice["text"] for choice in whole["choices"]]
    assert tokens == [choice["logprobs"]["token_logprobs"] for choice in whole["choices"]]
    assert last["usage"] == whole["usage"]
    assert all(chunk["usage"] is None for chunk in chunks)


def test_a_chat_streams_its_role_its_text_and_its_reason(wire: Wire) -> None:
    asked = {"messages": HELLO, "max_tokens": 30, "seed": 3, "n": 2, "temperature": 2}
    whole = wire.call(CHAT, asked).json
    roles, texts, reasons = ["", ""], ["", ""], [None, None]
    *chunks, last = wire.call(CHAT, asked | {"stream": True, "stream_options": {"include_usage": True}}).events
    for chunk in chunks:
        (choice,) = chunk["choices"]
        roles[choice["index"]] += choice["delta"].get("role", "")
        texts[choice["index"]] += choice["delta"]["content"]
        reasons[choice["index"]] = choice["finish_reason"] or reasons[choice["index"]]
    assert roles == ["assistant", "assistant"]
    assert last["usage"] == whole["usage"]  # with tokens that complete no character
    assert all(chunk["usage"] is None for chunk in chunks)
    assert not any("usage" in chunk for chunk in wire.call(CHAT, asked | {"stream": True}).events)
    assert texts == [choice["message"]["content"] for choice in whole["choices"]]
    assert reasons == [choice["finish_reason"] for choice in whole["choices"]]


def test_events_hold_no_line_end_of_unicode() -> None:
    event = _event({"text": "a\u2028é\u0085"})
    assert event.isascii()
    assert json.loads(event.removeprefix("data: ")) == {"text": "a\u2028é\u0085"}


def test_a_stop_string_ends_a_text(wire: Wire) -> None:
    asked = {"prompt": "to be", "max_tokens": 40, "seed": 5}
    (whole,) = wire.call(COMPLETIONS, asked).json["choices"]
    stop = whole["text"][10:13]
    (cut,) = wire.call(COMPLETIONS, asked | {"stop": stop}).json["choices"]
    assert cut["text"] == whole["text"][: whole["text"].index(stop)]
    assert cut["finish_reason"] == "stop"


def test_an_echo_scores_the_prompt_as_its_tokens_are_expected(wire: Wire, tok: Any) -> None:
    asked = {"prompt": "to be or not", "max_tokens": 0, "echo": True, "logprobs": 1}
    (choice,) = wire.call(COMPLETIONS, asked).json["choices"]
    assert choice["text"] == "to be or not" == "".join(choice["logprobs"]["tokens"])
    assert all(each < 0 for each in choice["logprobs"]["token_logprobs"])
    (by_ids,) = wire.call(COMPLETIONS, asked | {"prompt": tok.encode("to be or not")}).json["choices"]
    assert by_ids["logprobs"]["token_logprobs"][0] is None
    assert by_ids["text"] == "to be or not"


def test_each_text_echoes_its_own_prompt(wire: Wire) -> None:
    asked = {"prompt": ["to be", "or not"], "n": 2, "max_tokens": 5, "echo": True}
    found = wire.call(COMPLETIONS, asked).json
    assert [choice["text"][:5] for choice in found["choices"]] == ["to be", "to be", "or no", "or no"]
    assert wire.metric("prompt_tokens_total") == found["usage"]["prompt_tokens"]
    assert wire.metric("generated_tokens_total") == found["usage"]["completion_tokens"] > 4
    assert wire.metric("first_token_seconds_count") == 1


def test_users_at_one_address_take_turns(make_served: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    served, clients = make_served(), list[str]()
    texts = served.texts
    monkeypatch.setattr(served, "texts", lambda *given: clients.append(given[2]) or texts(*given))
    with serving([served]) as wire:
        for user in ("a", "b", None, "a"):
            wire.call(COMPLETIONS, {"prompt": "to be", "max_tokens": 1, "user": user})
    assert len(set(clients)) == 3
    assert clients[0] == clients[3]
    assert all(client.startswith("127.0.0.1") for client in clients)


def test_an_echo_of_ids_that_end_inside_a_character_is_the_text_of_all_tokens(wire: Wire, tok: Any) -> None:
    ids = tok.encode_bytes(b"to be \xe2\x82")
    for count in (0, 1, 9):
        asked = {"prompt": ids, "max_tokens": count, "echo": True, "logprobs": 0, "seed": 2, "temperature": 2}
        (choice,) = wire.call(COMPLETIONS, asked).json["choices"]
        pieces = [
            bytes.fromhex(each[6:].replace("\\x", "")) if each.startswith("bytes:") else each.encode()
            for each in choice["logprobs"]["tokens"]
        ]
        assert choice["text"] == b"".join(pieces).decode("utf-8", "replace")


def asked_by(client: int) -> dict[str, Any]:
    prompt = "to be or not to be, " * (client % 9) + "that is the question"[: client % 20]
    sampling = {"temperature": [0, 0.8, 1.3][client % 3], "top_p": [1, 0.9][client % 2], "seed": client}
    return {"prompt": prompt, "max_tokens": 12, "logprobs": 2, "user": str(client % 5), **sampling}


def test_64_clients_at_once_get_the_texts_that_each_gets_alone(make_served: Make) -> None:
    def read(answer: Answer) -> tuple[str, Any]:
        assert answer.status == 200, answer.text
        (choice,) = answer.json["choices"]
        return choice["text"], choice["logprobs"]

    with serving([make_served(count=1)]) as wire:
        alone = [read(wire.call(COMPLETIONS, asked_by(client))) for client in range(64)]
    with serving([make_served(count=40)]) as wire, ThreadPoolExecutor(64) as clients:
        together = clients.map(lambda client: read(wire.call(COMPLETIONS, asked_by(client))), range(64))
        assert list(together) == alone
        assert wire.metric("generated_tokens_total") == sum(len(known["tokens"]) for _, known in alone)


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_goes_away_frees_its_places(
    make_served: Make, monkeypatch: pytest.MonkeyPatch, streams: bool
) -> None:
    served, turns, written = make_served(count=2, capacity=512), threading.Semaphore(0), list[Any]()
    turn = served.scheduler.turn
    served._rules.ends[:] = False  # so that no text ends by itself

    def noted() -> list[Any]:
        news = turn() if turns.acquire(timeout=60) else []
        written.extend(news)
        return news

    monkeypatch.setattr(served.scheduler, "turn", noted)
    with serving([served]) as wire:
        asked = {"prompt": "to be", "max_tokens": 500, "n": 2, "stream": streams, "seed": 1}
        connection = wire.send(COMPLETIONS, asked)
        turns.release(3)
        until(lambda: wire.metric("texts_served") == 2 and wire.metric("texts_waiting") == 0)
        connection.close()

        def is_gone_after_a_turn() -> bool:
            turns.release()
            return wire.metric("texts_served") == 0

        until(is_gone_after_a_turn)
        assert len(written) < 500
        assert not wire.server._api._jobs
        assert streams or 'path="/v1/completions",status="499"' in wire.call("/metrics").text
        turns.release(1000)


def test_texts_beyond_the_queue_are_refused_for_now(make_served: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    served, go, encoded = make_served(count=1), threading.Event(), list[Any]()
    turn, encode = served.scheduler.turn, served.encode
    monkeypatch.setattr(served.scheduler, "turn", lambda: turn() if go.wait(60) else [])
    monkeypatch.setattr(served, "encode", lambda prompt: encoded.append(prompt) or encode(prompt))
    asked = {"prompt": "to be", "max_tokens": 1}
    with serving([served], queue=2) as wire:
        refused = wire.call(COMPLETIONS, asked | {"n": 3})
        assert (refused.status, refused.json["error"]["param"]) == (400, "n")
        assert refused.json["error"]["message"] == "a request may ask for at most 2 texts here, not 3"
        waiting = [wire.send(COMPLETIONS, asked) for _ in range(2)]
        until(lambda: wire.metric("texts_waiting") == 2)
        refused = wire.call(COMPLETIONS, asked)
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert refused.json["error"]["message"] == "2 texts waiting already; try again"
        assert len(encoded) == 2  # not the prompts of the others
        go.set()
        assert [connection.getresponse().status for connection in waiting] == [200, 200]
        for connection in waiting:
            connection.close()
        assert wire.call(COMPLETIONS, asked | {"n": 2}).status == 200


def test_others_may_fill_the_queue_while_a_prompt_is_encoded(
    make_served: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, arrived, may_encode, may_turn = make_served(), list[Any](), threading.Event(), threading.Event()
    turn, encode, encoded = served.scheduler.turn, served.encode, Api._encoded
    monkeypatch.setattr(served.scheduler, "turn", lambda: turn() if may_turn.wait(60) else [])
    monkeypatch.setattr(served, "encode", lambda prompt: encode(prompt) if may_encode.wait(60) else None)
    monkeypatch.setattr(Api, "_encoded", lambda *given: arrived.append(given) or encoded(*given))
    with serving([served], queue=1) as wire:
        connections = [wire.send(COMPLETIONS, {"prompt": "to be", "max_tokens": 1}) for _ in range(2)]
        until(lambda: len(arrived) == 2)
        may_encode.set()
        until(lambda: 'status="429"' in wire.call("/metrics").text)
        may_turn.set()
        assert sorted(connection.getresponse().status for connection in connections) == [200, 429]
        for connection in connections:
            connection.close()


def time_is_up_before(work: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the deadline of each request have passed when this method of the API begins."""
    method = getattr(Api, work)

    def late(api: Api, *given: Any) -> Any:
        (request,) = (each for each in given if isinstance(each, Request))
        request.state.deadline.time = 0.0
        return method(api, *given)

    monkeypatch.setattr(Api, work, late)


@pytest.mark.parametrize("work", ["_encoded", "_job"])
def test_a_request_that_takes_too_long_is_ended(make_served: Make, monkeypatch: pytest.MonkeyPatch, work: str) -> None:
    served, go = make_served(), threading.Event()
    turn, encode = served.scheduler.turn, served.encode
    monkeypatch.setattr(served.scheduler, "turn", lambda: turn() if go.wait(60) else [])
    monkeypatch.setattr(served, "encode", lambda text: encode(text) if work == "_job" or go.wait(60) else None)
    time_is_up_before(work, monkeypatch)
    with serving([served], seconds=90) as wire:
        late = wire.call(COMPLETIONS, {"prompt": "to be"})
        assert (late.status, late.json["error"]["code"]) == (504, "timeout")
        assert late.json["error"]["message"] == "the request did not end within 90 s"
        streamed = wire.call(COMPLETIONS, {"prompt": "to be", "stream": True})
        assert json.loads(streamed.text.removeprefix("data: "))["error"]["code"] == "timeout"
        go.set()


def test_a_body_that_takes_too_long_is_refused(make_served: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    time_is_up_before("_body", monkeypatch)
    with serving([make_served()], seconds=90) as wire:
        late = wire.call(COMPLETIONS, b"{", Content_Length="100")
        assert late.status == 408
        assert late.json["error"]["message"] == "the request did not arrive within 90 s"


def test_the_time_of_a_request_begins_before_its_prompt_is_encoded(
    make_served: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, times = make_served(), list[float]()
    encode, job = served.encode, Api._job
    monkeypatch.setattr(served, "encode", lambda text: times.append(time.monotonic()) or encode(text))

    def noted(api: Api, *given: Any) -> Job:
        made = job(api, *given)
        times.append(made._deadline.time - made._deadline.seconds)
        return made

    monkeypatch.setattr(Api, "_job", noted)
    with serving([served]) as wire:
        assert wire.call(COMPLETIONS, {"prompt": "to be", "max_tokens": 1}).status == 200
    encoded, begun = times
    assert begun < encoded


def test_a_fault_of_the_model_is_a_reply(make_served: Make, monkeypatch: pytest.MonkeyPatch, capfd: Any) -> None:
    served = make_served()

    def fail() -> None:
        raise RuntimeError("a fault")

    with serving([served]) as wire:
        with monkeypatch.context() as patch:
            patch.setattr(served.scheduler, "_write", fail)
            assert wire.call(COMPLETIONS, {"prompt": "to be"}).status == 500
        assert wire.call(COMPLETIONS, {"prompt": "to be"}).status == 200
        monkeypatch.setattr(served, "encode", Mock(side_effect=RuntimeError("one more")))
        assert wire.call(COMPLETIONS, {"prompt": "to be"}).status == 500
    printed = capfd.readouterr().err
    assert "a fault" in printed
    assert "one more" in printed


def test_texts_of_one_request_may_end_at_once() -> None:
    async def parts() -> list[ReplyPart]:
        texts = [Mock(Text), Mock(Text)]
        job = Job(texts, Deadline(9))
        for text in texts:
            job.receive(text, None)
        return [part async for part in job.parts()]

    assert asyncio.run(parts()) == [ReplyPart(0, ended="length"), ReplyPart(1, ended="length")]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]:8000"])
def test_local_names_are_answered(make_served: Make, host: str) -> None:
    with serving([make_served()]) as wire:
        assert wire.call("/health", Host=host).status == 200


@pytest.mark.parametrize(("host", "status"), [("localhost", 403), ("LOCALHOST", 403), ("127.1", 403), ("0.0.0.0", 200)])
def test_a_server_for_this_machine_alone_is_called_by_its_own_names_alone(
    make_served: Make, host: str, status: int
) -> None:
    with serving([make_served()], host=host) as wire:
        assert wire.call("/health", Host=f"{host}:{wire.port}").status == 200
        assert wire.call("/health", Host="example.com").status == status


@pytest.mark.parametrize(
    ("path", "body", "headers", "status"),
    [
        ("/nowhere", None, {}, 404),
        (COMPLETIONS, None, {}, 405),
        (COMPLETIONS, {"prompt": "a"}, {"Content_Type": "text/plain"}, 415),
        (COMPLETIONS, {"prompt": "a" * 5000}, {}, 413),
        (COMPLETIONS, {"prompt": "a", "model": "nix"}, {}, 404),
        (COMPLETIONS, {"prompt": "to be " * 300}, {}, 400),
        (CHAT, {"messages": HELLO, "model": "other"}, {}, 400),
        ("/health", None, {"Host": "example.com"}, 403),
        ("/health", None, {"Host": "a{b.example:80"}, 403),  # the framework cannot parse it
        ("/health", None, {"Host": "::1"}, 403),
    ],
)
def test_what_cannot_be_served_is_refused_with_a_sentence(
    make_served: Make, path: str, body: Any, headers: dict[str, str], status: int
) -> None:
    with serving([make_served(), make_served("other", teaches=False)], body_kilobytes=4) as wire:
        answer = wire.call(path, body, **headers)
        counted = wire.call("/metrics").text
    assert answer.status == status
    assert len(answer.json["error"]["message"].split()) > 3
    name = path if path != "/nowhere" and status != 405 else "other"
    assert f'requests_total{{path="{name}",status="{status}"}} 1' in counted


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/chat/completions", {"messages": HELLO}, "did you mean '/v1/chat/completions'?"),
        (COMPLETIONS, None, "/v1/completions takes POST, not GET"),
        (COMPLETIONS, {"prompt": "a", "x" * 3_000: 1}, "unknown field 'xxx"),
        (COMPLETIONS, b'{"seed": ' + b"1" * 4_500 + b"}", "it holds a whole number of more than 4,300 digits"),
        (COMPLETIONS, b"[" * 100_000, "it is nested deeper than"),
        (COMPLETIONS, {"prompt": ["a"] * 65}, "at most 64 texts here, not 65"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_is_short(make_served: Make, path: str, body: Any, sentence: str) -> None:
    with serving([make_served()], queue=64) as wire:
        answer = wire.call(path, body)
    error = answer.json["error"]
    assert sentence in error["message"]
    assert error["param"] != "n"
    assert len(json.dumps(error)) < 1_000


def test_no_text_is_longer_than_the_server_allows(make_served: Make) -> None:
    with serving([make_served()], max_tokens=5) as wire:
        asked = {"prompt": "to be", "seed": 5}
        assert wire.call(COMPLETIONS, asked).json["usage"]["completion_tokens"] == 5
        refused = wire.call(COMPLETIONS, asked | {"max_tokens": 6})
    assert (refused.status, refused.json["error"]["param"]) == (400, "max_tokens")


def test_a_request_has_as_many_bytes_as_are_allowed_and_no_more(make_served: Make) -> None:
    with serving([make_served()], body_kilobytes=4) as wire:
        body = json.dumps({"prompt": "to be", "max_tokens": 1}).encode().ljust(4096)
        assert [wire.call(COMPLETIONS, each).status for each in (body, body + b" ")] == [200, 413]


def test_a_path_that_takes_another_method_names_it(make_served: Make) -> None:
    with serving([make_served()]) as wire:
        assert wire.call(COMPLETIONS).headers["allow"] == "POST"


def test_a_fault_that_cannot_be_printed_is_answered(make_served: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    served = make_served()
    monkeypatch.setattr(served, "encode", Mock(side_effect=MemoryError))
    with serving([served]) as wire:
        monkeypatch.setattr(sys, "stderr", Mock(write=Mock(side_effect=BrokenPipeError)))
        answer = wire.call(COMPLETIONS, {"prompt": "to be"})
    assert answer.status == 500
    assert answer.json["error"]["message"] == "the server failed; its output has the reason"


def test_a_key_opens_everything_and_health_is_open(make_served: Make) -> None:
    with serving([make_served()], api_key="open sesame") as wire:
        assert wire.call("/health").status == 200
        for path in ("/v1/models", "/v1/models/tiny", "/metrics"):
            assert wire.call(path).json["error"]["code"] == "invalid_api_key"
        for path in ("/tokenize", COMPLETIONS, CHAT):
            assert wire.call(path, {"prompt": "to be"}).status == 401
        assert wire.call("/v1/models", Authorization="Bearer sesame").status == 401
        for scheme in ("Bearer", "bearer", "Bearer "):  # its name may be written in any case (RFC 9110, 11.1)
            assert wire.call("/v1/models", Authorization=f"{scheme} open sesame").status == 200
        assert wire.call("/v1/models", Authorization="Basic open sesame").status == 401


def test_other_web_sites_may_call_only_if_they_are_allowed(make_served: Make) -> None:
    for allowed, expected in (((), None), (("https://a.example",), "https://a.example")):
        with serving([make_served()], allow_origin=allowed) as wire:
            answer = wire.call("/v1/models", Origin="https://a.example")
            assert answer.headers.get("access-control-allow-origin") == expected
