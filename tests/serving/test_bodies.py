"""The bodies of requests are read as OpenAI's clients write them; each mistake is named with its field."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from minigrad.serving.bodies import RefusedError, read_chat, read_completion, read_tokenize

HELLO = [{"role": "user", "content": "Hi"}]


def body(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [
        ("to be", ["to be"]),
        ("", [""]),
        (["to be", "or"], ["to be", "or"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
    ],
)
def test_a_prompt_is_a_text_or_ids_or_several(prompt: Any, prompts: Any) -> None:
    assert read_completion(body(prompt=prompt))[1] == prompts


def test_fields_have_the_defaults_of_openai_and_null_means_them() -> None:
    fields, _ = read_completion(body(prompt="a", temperature=None, seed=None, stop=None, logit_bias=None, user="me"))
    assert (fields.temperature, fields.top_p, fields.n, fields.seed, fields.user) == (1.0, 1.0, 1, None, "me")


def test_stop_is_one_text_or_several() -> None:
    assert read_completion(body(prompt="a", stop="\n"))[0].stop == ("\n",)
    assert read_completion(body(prompt="a", stop=["\n", "b"]))[0].stop == ("\n", "b")
    assert len(read_completion(body(prompt="a", stop=["a"] * 16))[0].stop) == 16


def test_options_of_streams_and_neutral_fields_are_understood() -> None:
    fields, messages = read_chat(
        body(messages=HELLO, stream=True, stream_options={"include_usage": True}, tools=[], logit_bias={}, store=True)
    )
    assert fields.include_usage
    without, _ = read_chat(body(messages=HELLO, stream=True, stream_options={"include_usage": None}))
    assert without.include_usage is False
    assert messages == HELLO


def test_contents_in_parts_become_one_text_and_developers_are_the_system() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    _, messages = read_chat(body(messages=[{"role": "developer", "content": parts, "name": "x"}]))
    assert messages == [{"role": "system", "content": "ab"}]


def test_a_text_or_messages_are_tokenized() -> None:
    assert read_tokenize(body(prompt="a", model="m")) == ("m", "a", [])
    assert read_tokenize(body(messages=HELLO)) == (None, None, HELLO)


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        (b"{", None, "cannot be read as JSON"),
        (b"[" * 100_000, None, "cannot be read as JSON"),
        (b"\xff", None, "cannot be read as JSON"),
        (b"[]", None, "takes an object"),
        (body(), "prompt", "prompt takes a text"),
        (body(prompt=[]), "prompt", "prompt takes a text"),
        (body(prompt=[True]), "prompt", "prompt takes a text"),
        (body(prompt=["a", [1.5]]), "prompt", "prompt takes a text"),
        (body(prompt="\ud800"), "prompt", "surrogate"),
        (body(prompt=["a", "\ud800"]), "prompt", "surrogate"),
        (body(prompt="a", user="\ud800"), "user", "surrogate"),
        (body(prompt="a", stop=["a", "\ud800"]), "stop", "surrogate"),
        (body(prompt="a", temprature=1), "temprature", "did you mean 'temperature'"),
        (body(prompt="a", temperature=3), "temperature", "at most 2, not 3"),
        (body(prompt="a", temperature="1"), "temperature", "not '1'"),
        (b'{"prompt": "a", "temperature": NaN}', "temperature", "finite number"),
        (body(prompt="a", n=0), "n", "at least 1"),
        (body(prompt="a", top_k=-2), "top_k", "at least -1"),
        (body(prompt="a", min_p=-0.1), "min_p", "at least 0"),
        (body(prompt="a", n=True), "n", "at least 1"),
        (body(prompt="a", seed=2**63), "seed", "at most"),
        (body(prompt="a", stop=[""]), "stop", "not empty"),
        (body(prompt="a", stop={"a": 1}), "stop", "stop takes"),
        (body(prompt="a", stop=["a"] * 17), "stop", "at most 16"),
        (body(prompt="a", logprobs=21), "logprobs", "at most 20"),
        (body(prompt="a", best_of=2), "best_of", "does not support"),
        (body(prompt="a", logit_bias={"5": 1}), "logit_bias", "does not support"),
        (body(prompt="a", include_usage=True), "include_usage", "unknown field"),
        (body(prompt="a", stream_options=[]), "stream_options", "include_usage"),
        (body(prompt="a", messages=HELLO), "messages", "unknown field"),
    ],
)
def test_a_wrong_completion_is_refused_with_a_sentence(given: bytes, field: str | None, message: str) -> None:
    with pytest.raises(RefusedError, match=message) as caught:
        read_completion(given)
    assert (caught.value.status, caught.value.field) == (400, field)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "at least one message"),
        ({"messages": []}, "at least one message"),
        ({"messages": ["Hi"]}, r"messages\[0\] takes an object"),
        ({"messages": [{"role": "wizard", "content": "Hi"}]}, r"messages\[0\].role takes one of"),
        ({"messages": [{"role": [], "content": "Hi"}]}, r"messages\[0\].role takes one of"),
        ({"messages": [*HELLO, {"role": "user"}]}, r"messages\[1\].content takes text"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "content takes text"),
        ({"messages": [{**HELLO[0], "tool_calls": [1]}]}, "calls tools"),
        ({"messages": [{"role": "user", "content": "\ud800"}]}, "surrogate"),
        ({"messages": HELLO, "top_logprobs": 2}, "needs logprobs"),
        ({"messages": HELLO, "top_logprobs": 0}, "needs logprobs"),
        ({"messages": HELLO, "logprobs": 1}, "true or false"),
        ({"messages": HELLO, "tools": [{"type": "function"}]}, "does not support tools"),
    ],
)
def test_a_wrong_chat_is_refused_with_a_sentence(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        read_chat(body(**fields))


@pytest.mark.parametrize("fields", [{}, {"prompt": 1}, {"prompt": "a", "messages": HELLO}, {"prompt": "a", "n": 1}])
def test_a_wrong_request_to_tokenize_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        read_tokenize(body(**fields))


@pytest.mark.parametrize("read", [read_tokenize, read_completion])
def test_a_name_with_half_a_character_can_be_refused(read: Callable[[bytes], object]) -> None:
    with pytest.raises(RefusedError) as refused:
        read(b'{"prompt": "a", "\\ud800": 1}')
    assert json.dumps(refused.value.as_dict(), ensure_ascii=False).encode()  # it can be sent


def test_a_refusal_has_the_form_of_openai() -> None:
    assert RefusedError("no", 404, field="model", code="model_not_found").as_dict() == {
        "error": {"message": "no", "type": "invalid_request_error", "param": "model", "code": "model_not_found"}
    }
    assert RefusedError("no", 500).as_dict()["error"]["type"] == "server_error"


def test_what_openai_allows_is_allowed() -> None:
    fields, _ = read_completion(body(prompt="a", seed=-1, top_p=0))
    assert (fields.seed, fields.top_p) == (-1, 0)
