"""OpenAI's own client, and curl, call the server."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

import models
import tokenizer
from minigrad.serving.scheduler import Scheduler
from minigrad.serving.served import Served
from tests.serving.wire import Wire, serving

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]

HELLO: Any = [{"role": "user", "content": "to be or not"}]


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    pytest.importorskip("starlette")
    tok = tokenizer.train(["to be or not to be, that is the question. " * 50], vocab_size=300)
    model = models.build("vidya-v2", size="nano", vocab_size=tok.vocab_size, num_layers=2, context_length=256)
    with serving([Served("tiny", model, tok, Scheduler(model, 16, 256), tokenizer.ChatTemplate(tok))]) as found:
        yield found


@pytest.fixture
def client(wire: Wire) -> Any:
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=f"http://127.0.0.1:{wire.port}/v1", api_key="none", max_retries=0)


def test_completions(client: Any) -> None:
    asked = {"model": "tiny", "prompt": "to be", "max_tokens": 9, "seed": 1, "n": 2, "logprobs": 2}
    whole = client.completions.create(**asked)
    assert [choice.index for choice in whole.choices] == [0, 1]
    assert all(choice.finish_reason in ("stop", "length") for choice in whole.choices)
    assert len(whole.choices[0].logprobs.token_logprobs) == len(whole.choices[0].logprobs.tokens)
    texts = ["", ""]
    for chunk in client.completions.create(**asked, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
    assert texts == [choice.text for choice in whole.choices]


def test_chats(client: Any) -> None:
    asked = {"model": "tiny", "messages": HELLO, "max_completion_tokens": 9, "seed": 1}
    whole = client.chat.completions.create(**asked, logprobs=True, top_logprobs=3)
    assert whole.choices[0].message.role == "assistant"
    assert len(whole.choices[0].logprobs.content[0].top_logprobs) == 3
    chunks = list(client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    text = "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage


def test_errors_have_their_own_types(client: Any) -> None:
    import openai

    with pytest.raises(openai.NotFoundError, match="did you mean 'tiny'"):
        client.completions.create(model="tinyy", prompt="to be")
    with pytest.raises(openai.BadRequestError, match="at most 256 tokens") as caught:
        client.completions.create(model="tiny", prompt="to be", max_tokens=1000)
    assert caught.value.code == "context_length_exceeded"
    assert [model.id for model in client.models.list()] == ["tiny"]


def test_many_clients_at_once(client: Any, wire: Wire) -> None:
    import openai

    async def all_of_them() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{wire.port}/v1", api_key="none") as many:
            asked = [
                many.completions.create(model="tiny", prompt="to be", max_tokens=9, seed=seed) for seed in range(32)
            ]
            return [found.choices[0].text for found in await asyncio.gather(*asked)]

    one_by_one = [
        client.completions.create(model="tiny", prompt="to be", max_tokens=9, seed=seed) for seed in range(32)
    ]
    assert asyncio.run(all_of_them()) == [found.choices[0].text for found in one_by_one]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(wire: Wire) -> None:
    command = [
        "curl",
        "-sN",
        f"http://127.0.0.1:{wire.port}/v1/chat/completions",
        "-H",
        "Content-Type: application/json",
    ]
    body = json.dumps({"messages": HELLO, "max_tokens": 3, "stream": True})
    said = subprocess.run([*command, "-d", body], capture_output=True, check=True, text=True).stdout
    assert said.endswith("data: [DONE]\n\n")
    assert all(line.startswith("data: ") for line in said.split("\n\n")[:-1])
