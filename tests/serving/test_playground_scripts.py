"""The scripts of the playground in Node.js: they read what a server streams, and leave out messages that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minigrad.pages.model_page.scripts import DRAWING, joined
from minigrad.serving.playground import FOLDER
from minigrad.serving.served import Served
from tests.javascript import run
from tests.serving.wire import serving

__all__ = ["run"]

PAGE = """
const address = "http://127.0.0.1:", fetched = globalThis.fetch, lock = { hidden: true };
let port = 0;
globalThis.document = { getElementById: (id) => lock };
// The reply comes a byte at a time, as a network may cut it anywhere.
globalThis.fetch = async (path, request) => {
  const reply = await fetched(`${address}${port}${path}`, request);
  if (!reply.ok) return reply;
  const bytes = new Uint8Array(await reply.arrayBuffer());
  const body = new ReadableStream({
    start(stream) {
      for (const byte of bytes) stream.enqueue(Uint8Array.of(byte));
      stream.close();
    },
  });
  return new Response(body);
};
"""
SCRIPTS = f"{PAGE}{joined('signs', *DRAWING)}\n{joined('server', 'column', folder=FOLDER)}\n"


def test_tokens_of_a_stream_are_the_text_that_the_api_writes(run: Any, make_served: Callable[..., Served]) -> None:
    asked = {"prompt": "to 3 €", "max_tokens": 20, "temperature": 1.0, "seed": 1, "echo": True}
    with serving([make_served()]) as wire:
        wanted = wire.call("/v1/completions", asked | {"logprobs": 3}).json["choices"][0]
        found = run(
            """
            port = given.port;
            const server = new Server(), signal = new AbortController().signal, tokens = [];
            let text = "", ended = "";
            for await (const part of server.complete({ model: "tiny", ...given.asked }, signal)) {
              tokens.push(...part.tokens);
              [text, ended] = [text + part.text, part.ended];
            }
            const bytes = tokens.flatMap((token) => token.bytes), rivals = tokens.map((token) => token.rivals.length);
            return { names: await server.models(), text, ended, bytes, pieces: piecesOf(tokens), rivals };
            """,
            scripts=SCRIPTS,
            port=wire.port,
            asked=asked,
        )
    assert found["names"] == ["tiny"]
    assert found["text"] == wanted["text"]
    assert found["ended"] == wanted["finish_reason"] == "length"
    assert bytes(found["bytes"]).decode(errors="replace").rstrip("\ufffd") == wanted["text"].rstrip("\ufffd")
    assert len(found["pieces"]) == len(wanted["logprobs"]["tokens"]) > 20
    assert "€" in "".join(found["pieces"])
    assert set(found["rivals"]) <= {10, 11}  # with the token itself, where it is not among the ten


def test_a_character_of_several_tokens_appears_with_its_last_byte(run: Any) -> None:
    body = """
        const tokens = given.tokens.map((token) => ({ bytes: bytesOf(token) }));
        return [piecesOf(tokens), spacesOf("  a "), tokens.map((token) => token.bytes.length)];
    """
    tokens = ["to", r"bytes:\xe2\x82", r"bytes:\xac", "a\r\n", r"bytes:\xe2", "\ufeff"]
    found = run(body, scripts=SCRIPTS, tokens=tokens)
    assert found == [["to", "", "€", "a\n", "", "\ufffd\ufeff"], 2, [2, 2, 1, 3, 1, 3]]


@pytest.mark.parametrize(
    ("key", "path", "wanted"),
    [
        ("", "/v1/models", "The API key is missing: enter it above."),
        ("wrong", "/v1/models", "The API key is wrong."),
        ("clé", "/v1/models", "The API key is wrong: a key has only characters of ASCII."),
        ("secret", "/v1/nothing", "The server refused: "),
    ],
)
def test_an_error_is_a_sentence(run: Any, make_served: Callable[..., Served], key: str, path: str, wanted: str) -> None:
    ask = """
        port = given.port;
        const server = new Server();
        server.key = given.key;
        return server.call(given.path).catch((error) => error.message);
    """
    with serving([make_served()], api_key="secret") as wire:
        assert run(ask, scripts=SCRIPTS, port=wire.port, key=key, path=path).startswith(wanted)
    gone = run(ask, scripts=SCRIPTS, port=wire.port, key="", path=path) if key == "" else ""
    assert gone in ("", "The server does not answer. Is it still running?")


def test_a_conversation_leaves_out_the_oldest_messages_with_their_answers(
    run: Any, make_served: Callable[..., Served]
) -> None:
    contents = {"user": "to be or not to be " * 4, "assistant": "be"}
    said = [{"role": role, "content": content} for _ in range(16) for role, content in contents.items()]
    said.append({"role": "user", "content": "that is?"})
    with serving([make_served(capacity=256)]) as wire:
        most = wire.call("/tokenize", {"model": "tiny", "messages": said[-1:]}).json["max_model_len"]
        found = run(
            """
            port = given.port;
            const column = Object.create(Column.prototype);
            Object.assign(column, { server: new Server(), part: () => ({ value: "tiny" }) });
            const long = { role: "user", content: given.said[0].content.repeat(40) };
            return {
              fitting: await column.fitting(given.said),
              whole: await column.fitting(given.said.slice(-1)),
              long: await column.fitting([long]).catch((error) => error.message),
            };
            """,
            scripts=SCRIPTS,
            port=wire.port,
            said=said,
        )
        kept = found["fitting"]["messages"]
        count = wire.call("/tokenize", {"model": "tiny", "messages": kept}).json["count"]
    assert kept == said[-len(kept) :]
    assert 1 < len(kept) < len(said)
    assert len(kept) % 2 == 1  # it begins with a question
    assert most - count >= most / 4
    assert found["whole"]["messages"] == said[-1:]
    assert found["long"] == f"The message fills the {most} tokens that a conversation may have here: shorten it."
