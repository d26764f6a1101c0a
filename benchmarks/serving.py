"""The server against generation in the same process: tokens per second of one client and of many, and their waiting.

The model has random weights and the tokenizer of vidya-v2-nano, so nearly all texts end by their length. Every
prompt is another one: the server would copy what it has read before. Run with nothing else on the machine:

    python benchmarks/serving.py --models nano 2.0 --clients 16
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from machine import describe_machine

ROOT = Path(__file__).parent.parent

MODELS = {"nano": ("vidya-v2", "nano"), "mini": ("vidya-v2", "mini"), "2.0": ("vidya-v2", "2.0")}
PROMPT, TURNS = 64, 3  # tokens, and how often everything is measured


def asked(number: int, tokens: int) -> dict[str, Any]:
    """Return a request by its number: a prompt of ids, none of them special."""
    prompt = random.Random(number).choices(range(20, 220), k=PROMPT)
    return {"prompt": prompt, "max_tokens": tokens, "temperature": 0.8, "top_p": 0.95, "seed": 0, "stream": True}


def request(number: int, tokens: int) -> bytes:
    """Return a request by its number, as it goes over the wire."""
    body = json.dumps(asked(number, tokens) | {"stream_options": {"include_usage": True}}).encode()
    lines = ["POST /v1/completions HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "Connection: close\r\n\r\n"]).encode() + body


def served(port: int, clients: int, tokens: int, numbers: Iterator[int]) -> tuple[float, float]:
    """Return the tokens per second of all clients, and the 95th percentile of the seconds to their first tokens.

    Each client takes the next of the `numbers` of requests.
    One thread reads what arrives at all sockets and looks for nothing but the first event and the count at the end:
    the clients share the processors with the server.
    """
    begun, firsts, count, waiting = time.perf_counter(), dict[socket.socket, float](), 0, selectors.DefaultSelector()
    ends = dict[socket.socket, bytes]()
    for number in itertools.islice(numbers, clients):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(request(number, tokens))
        waiting.register(connection, selectors.EVENT_READ)
        ends[connection] = b""
    while ends:
        for key, _ in waiting.select():
            connection: Any = key.fileobj
            part = connection.recv(1 << 16)
            if connection not in firsts and b"data:" in part:
                firsts[connection] = time.perf_counter() - begun
            if part:
                ends[connection] = (ends[connection] + part)[-1_000:]
                continue
            count += int(ends.pop(connection).rpartition(b'"completion_tokens":')[2].split(b",")[0])
            waiting.unregister(connection)
            connection.close()
    seconds = time.perf_counter() - begun
    assert len(firsts) == clients
    return count / seconds, sorted(firsts.values())[min(clients - 1, int(0.95 * clients))]


def generated(folder: Path, samples: int, tokens: int) -> float:
    """Return the tokens per second of generation without a server, the prompts included."""
    program = f"""
import random, time, models, tokenizer
from minigrad.generation import stream
model, tok = models.load({str(folder)!r}), tokenizer.load({str(folder)!r})
prompts = [random.Random(n).choices(range(20, 220), k={PROMPT}) for n in range({samples})]
rates = []
for _ in range({TURNS} + 1):
    begun = time.perf_counter()
    settings = dict(tokens={tokens}, temperature=0.8, top_p=0.95, seed=0)
    count = sum(1 for _ in stream(model, prompts, tokenizer=tok, **settings))
    rates.append(count / (time.perf_counter() - begun))
print(sorted(rates[1:])[{TURNS} // 2])
"""
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(said.stdout)


def measure(name: str, clients: int, tokens: int) -> None:
    """Print the figures of one model."""
    import models
    import tokenizer

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / name
        models.build(*MODELS[name]).save(folder)
        tokenizer.load(ROOT / "models" / "pretrained" / "vidya-v2-nano").save(folder)
        command = [sys.executable, "-m", "minigrad.serving", str(folder), "--port=0", "--context=512"]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            while "serving at" not in (line := server.stderr.readline()):
                assert line
            port = int(line.split("/v1")[0].rsplit(":", 1)[1])
            numbers = itertools.count()
            served(port, clients, 8, numbers)
            figures = [[served(port, count, tokens, numbers) for count in (1, clients)] for _ in range(TURNS)]
            server.terminate()
        one, many = (statistics.median(turn[part][0] for turn in figures) for part in (0, 1))
        wait = statistics.median(turn[1][1] for turn in figures)
        alone, together = generated(folder, 1, tokens), generated(folder, clients, tokens)
    print(f"{name}: one client {one:,.0f} tokens/s, without the server {alone:,.0f}")
    print(f"{name}: {clients} clients {many:,.0f} tokens/s, without the server {together:,.0f}")
    print(f"{name}: {clients} clients wait {wait:.3f} s for their first token (95th percentile)")


def main() -> None:
    """Measure every model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=["nano"])
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=128)
    given = parser.parse_args()
    print(describe_machine())
    for name in given.models:
        measure(name, given.clients, given.tokens)


if __name__ == "__main__":
    main()
