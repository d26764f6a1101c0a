"""OpenAI's own client, LiteLLM, LangChain, lm-evaluation-harness and curl call the server.

Of these, the extra `peers` installs OpenAI's client; the others are tested where they are installed.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
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


def test_litellm(wire: Wire) -> None:
    litellm = pytest.importorskip("litellm")
    reached = {"model": "openai/tiny", "api_base": f"http://127.0.0.1:{wire.port}/v1", "api_key": "none"}
    asked: Any = {"messages": HELLO, "max_tokens": 9, "seed": 1}
    whole = litellm.completion(**reached, **asked).choices[0].message.content
    chunks = litellm.completion(**reached, **asked, stream=True)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == whole


def test_langchain(wire: Wire) -> None:
    langchain = pytest.importorskip("langchain_openai")
    settings: Any = {"model": "tiny", "base_url": f"http://127.0.0.1:{wire.port}/v1", "api_key": "none", "seed": 1}
    chat = langchain.ChatOpenAI(**settings, max_tokens=9)
    assert "".join(chunk.content for chunk in chat.stream("to be")) == chat.invoke("to be").content
    text = langchain.OpenAI(**settings, max_tokens=9)
    assert text.invoke("to be") == text.invoke("to be") != ""


def test_lm_evaluation_harness(wire: Wire, tmp_path: Path) -> None:
    """A task of two questions, one file each; the tokenizer is read by transformers."""
    pytest.importorskip("lm_eval")
    tokenizer.train(["to be or not to be, that is the question. " * 50], vocab_size=300).save(tmp_path)
    questions = tmp_path / "questions.jsonl"
    lines = [
        {"q": "to be or not to", "options": [" be", " gradient"]},
        {"q": "that is the", "options": [" question", " x"]},
    ]
    questions.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    task = {"task": "tiny", "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(questions)}}}
    task |= {"test_split": "test", "output_type": "multiple_choice", "doc_to_text": "{{q}}"}
    task |= {"doc_to_choice": "options", "doc_to_target": 0}
    (tmp_path / "tiny.yaml").write_text(json.dumps(task), encoding="utf-8")  # JSON is YAML too
    address = f"http://127.0.0.1:{wire.port}/v1/completions"
    model = f"model=tiny,base_url={address},tokenizer={tmp_path},tokenizer_backend=huggingface,max_length=200"
    command = [sys.executable, "-m", "lm_eval", "--model", "local-completions", "--model_args", model]
    flags = ["--tasks", "tiny", "--include_path", str(tmp_path), "--output_path", str(tmp_path / "out")]
    offline = os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "home")}
    subprocess.run([*command, *flags], check=True, env=offline)
    (found,) = (tmp_path / "out").rglob("results*.json")
    assert json.loads(found.read_text(encoding="utf-8"))["results"]["tiny"]["acc,none"] in (0.0, 0.5, 1.0)
