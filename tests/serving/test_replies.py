"""Replies have the form that OpenAI's clients read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from minigrad.generation.continuation import Token
from minigrad.serving.bodies import read_chat, read_completion
from minigrad.serving.replies import Echo, Reply, ReplyPart
from minigrad.serving.scheduler import Scored
from tests.tokenizer import byte_fallback
from tokenizer import Tokenizer


def token(number: int, text: str = "", ended: str = "", log_probability: float | None = None) -> Token:
    made = Token(number)
    made.text, made.ended, made.log_probability = text, ended, log_probability
    made.alternatives = () if log_probability is None else ((number, log_probability),)
    return made


def completion(tok: Tokenizer, **fields: Any) -> Reply:
    body, _ = read_completion(json.dumps({"prompt": "a"} | fields).encode())
    return Reply("tiny", tok, body, [[1, 2, 3]])


def part_of(*tokens: Token | Scored | None) -> ReplyPart:
    part = ReplyPart(0)
    for each in tokens:
        part.add(each)
    return part


def test_a_whole_completion(tok: Tokenizer) -> None:
    reply = completion(tok).whole([part_of(token(5, "to"), token(6, " be", "end"))])
    assert reply["choices"] == [{"index": 0, "text": "to be", "logprobs": None, "finish_reason": "stop"}]
    assert reply["usage"] == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    assert (reply["object"], reply["model"]) == ("text_completion", "tiny")
    assert reply["id"] != completion(tok).whole([])["id"]


def test_a_chat_in_chunks(tok: Tokenizer) -> None:
    body, _ = read_chat(json.dumps({"messages": [{"role": "user", "content": "a"}], "stream": True}).encode())
    reply = Reply("tiny", tok, body, [[1]])
    opening = reply.opening(0)
    first, last = (reply.chunk(part_of(each)) for each in (token(5, "to"), token(6, " be", "length")))
    assert opening["choices"][0]["delta"]["role"] == "assistant"
    assert first["choices"][0] == {"index": 0, "logprobs": None, "finish_reason": None, "delta": {"content": "to"}}
    assert [each["choices"][0]["finish_reason"] for each in (opening, last)] == [None, "length"]
    assert (opening["id"], opening["object"]) == (first["id"], "chat.completion.chunk")
    assert reply.last()["usage"]["total_tokens"] == 3


def test_a_chat_with_log_probabilities(tok: Tokenizer) -> None:
    fields = {"messages": [{"role": "user", "content": "a"}], "logprobs": True, "top_logprobs": 1}
    reply = Reply("tiny", tok, read_chat(json.dumps(fields).encode())[0], [[1]])
    (letter,), (other,) = tok.encode("x"), tok.encode("y")
    drawn = token(letter, "x", "stop", -0.5)
    drawn.alternatives = ((other, -0.25),)
    (choice,) = reply.whole([part_of(drawn)])["choices"]
    expected = {"token": "x", "logprob": -0.5, "bytes": [120]}
    expected["top_logprobs"] = [{"token": "y", "logprob": -0.25, "bytes": [121]}]
    assert choice["logprobs"]["content"] == [expected]
    assert choice["message"] == {"role": "assistant", "content": "x", "refusal": None}


def test_log_probabilities_of_a_completion_continue_across_chunks(tok: Tokenizer) -> None:
    reply, (letter,), euro = completion(tok, logprobs=1, stream=True), tok.encode("x"), tok.encode("¥")[0]
    assert reply.last()["object"] == "text_completion"  # in chunks, too
    first, second = (
        reply.chunk(part)["choices"][0]["logprobs"]
        for part in (part_of(token(letter, "x", "", -1.0)), part_of(token(euro, "", "", -2.0)))
    )
    assert first == {"tokens": ["x"], "token_logprobs": [-1.0], "top_logprobs": [{"x": -1.0}], "text_offset": [0]}
    assert second["text_offset"] == [1]
    assert second["tokens"] == ["bytes:\\xc2"]  # the first half of a character
    third, fourth = (
        reply.chunk(part_of(token(each, "", "", -1.0)))["choices"][0]["logprobs"]
        for each in (tok.encode("¥")[1], letter)
    )
    assert (third["text_offset"], fourth["text_offset"]) == ([1], [2])  # the text so far is x¥


def test_the_offset_of_a_token_counts_the_character_that_broken_bytes_become(tok: Tokenizer) -> None:
    reply, (letter,), (lead, rest) = completion(tok, logprobs=1, stream=True), tok.encode("x"), tok.encode("¥")
    found = [
        reply.chunk(part_of(token(each, "", "", -1.0)))["choices"][0]["logprobs"]["text_offset"]
        for each in (lead, letter, lead, lead, rest, letter)
    ]
    assert found == [[0], [1], [2], [3], [3], [4]]  # of the text \ufffd x \ufffd ¥ x


@pytest.mark.parametrize("echoes", [False, True])
@pytest.mark.parametrize(("written", "text", "offsets"), [(b"\x82\xacx", "€x", [0, 0, 1]), (b"x", "\ufffdx", [1])])
def test_a_character_that_begins_in_a_prompt_of_ids_is_counted_once(
    tok: Tokenizer, echoes: bool, written: bytes, text: str, offsets: list[int]
) -> None:
    prompt, ids = tok.encode_bytes(b"a\xe2"), tok.encode_bytes(written)
    body, _ = read_completion(json.dumps({"prompt": prompt, "logprobs": 0, "echo": echoes}).encode())
    reply, parts = Reply("tiny", tok, body, [prompt]), [token(each, "", "", -1.0) for each in ids]
    parts[-1].text = text
    if not echoes:
        found = reply.whole([part_of(*parts)])["choices"][0]["logprobs"]
        assert found["text_offset"] == offsets
        return
    reply.echo(0, Echo(reply.prompt_text(prompt, goes_on=True), prompt[0], 0))
    (choice,) = reply.whole([part_of(Scored(prompt[1], -1.0, ()), *parts)])["choices"]
    assert choice["text"] == "a" + text == tok.decode([*prompt, *ids])
    assert choice["logprobs"]["text_offset"] == [0, 1, *(1 + each for each in offsets)]


def test_each_text_continues_the_last_character_of_its_own_prompt(tok: Tokenizer) -> None:
    prompts, (letter,) = [tok.encode_bytes(b"a\xe2"), tok.encode("a")], tok.encode("x")
    body, _ = read_completion(json.dumps({"prompt": prompts, "logprobs": 0, "n": 2}).encode())
    parts = [ReplyPart(index, tokens=[token(letter, "x", "length", -1.0)]) for index in range(4)]
    choices = Reply("tiny", tok, body, prompts).whole(parts)["choices"]
    assert [each["logprobs"]["text_offset"] for each in choices] == [[1], [1], [0], [0]]  # \ufffdx and x


def test_a_prompt_of_ids_that_does_not_go_on_shows_its_incomplete_character(tok: Tokenizer) -> None:
    prompt, reply = tok.encode_bytes(b"a\xe2\x82"), completion(tok)
    assert [reply.prompt_text(prompt, goes_on=goes_on) for goes_on in (True, False)] == ["a", "a\ufffd"]


def test_log_probabilities_without_others_are_wanted_too(tok: Tokenizer) -> None:
    assert [completion(tok, logprobs=count).has_logprobs for count in (None, 0, 2)] == [False, True, True]


def test_rows_of_the_model_beyond_the_tokens_have_no_text(tok: Tokenizer) -> None:
    (letter,) = tok.encode("x")
    drawn = token(letter, "x", "", -1.0)
    drawn.alternatives = ((tok.vocab_size, -0.5), (tok.vocab_size + 1, -0.7))
    found = completion(tok, logprobs=1).whole([part_of(drawn)])["choices"][0]["logprobs"]
    assert found["top_logprobs"] == [{"": -0.5, "x": -1.0}]  # of several with one text, the most likely


def test_an_echo_shows_the_prompt_and_its_scores(tok: Tokenizer) -> None:
    (letter,), scored = tok.encode("x"), Scored(9, -3.0, ())
    for hidden, expected in ((1, [-3.0, -1.0]), (0, [None, -3.0, -1.0])):
        reply = completion(tok, logprobs=0, echo=True)
        reply.echo(0, Echo("prompt ", letter, hidden))
        whole = reply.whole([part_of(scored, token(letter, "x", "length", -1.0))])
        (choice,) = whole["choices"]
        assert choice["text"] == "prompt x"
        assert choice["logprobs"]["token_logprobs"] == expected
        assert whole["usage"]["completion_tokens"] == 1


@pytest.mark.parametrize(("prompt", "offsets"), [("to be", [0, 2]), (" to be", [0, 1, 3]), ("é", [0])])
def test_the_space_that_byte_fallback_adds_is_no_part_of_an_echo(prompt: str, offsets: list[int]) -> None:
    tok = Tokenizer(byte_fallback.vocabulary())
    ids, reply = tok.encode(prompt), completion(tok, logprobs=0, echo=True)
    reply.echo(0, Echo(prompt, ids[0], 0))
    (choice,) = reply.whole([part_of(*(Scored(each, -1.0, ()) for each in ids[1:]), None)])["choices"]
    assert choice["text"] == prompt == reply.prompt_text(ids, goes_on=False)
    assert choice["logprobs"]["text_offset"] == offsets


def test_a_prompt_alone_ends_by_its_length(tok: Tokenizer) -> None:
    (choice,) = completion(tok).whole([part_of(Scored(9, -3.0, ()), None)])["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("", "length")
