"""The server against generation in the same process: tokens per second of one client and of many, and their waiting.

The model has random weights, so its texts end by their length. Run with nothing else on the machine:

    python benchmarks/serving.py --models nano 2.0 --clients 16
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from machine import describe_machine

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

MODELS = {"nano": ("vidya-v2", "nano"), "mini": ("vidya-v2", "mini"), "2.0": ("vidya-v2", "2.0")}
PROMPT, TURNS = 64, 5  # tokens, and how often everything is measured


def asked(number: int, tokens: int) -> dict[str, Any]:
    """Return the request of a client: a prompt of ids, none of them special, with an end that no text has."""
    prompt = [20 + (number * 7 + place) % 200 for place in range(PROMPT)]
    return {"prompt": prompt, "max_tokens": tokens, "temperature": 0.8, "top_p": 0.95, "seed": number, "stream": True}


def read(wire: Any, number: int, tokens: int, begun: float) -> tuple[float, int]:
    """Read a stream; return the seconds until its first token, and the number of its tokens."""
    body = asked(number, tokens) | {"stream_options": {"include_usage": True}}
    connection = wire.send("/v1/completions", body)
    reply, first, count = connection.getresponse(), 0.0, 0
    for line in reply:
        first = first or time.perf_counter() - begun
        if b'"completion_tokens":' in line:
            count = int(line.split(b'"completion_tokens":')[1].split(b",")[0])
    connection.close()
    return first, count


def served(wire: Any, clients: int, tokens: int) -> tuple[float, float]:
    """Return the tokens per second of all clients, and the 95th percentile of the seconds to their first tokens."""
    begun = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        found = list(pool.map(lambda number: read(wire, number, tokens, begun), range(clients)))
    seconds = time.perf_counter() - begun
    firsts = sorted(first for first, _ in found)
    return sum(count for _, count in found) / seconds, firsts[min(len(firsts) - 1, int(0.95 * len(firsts)))]


def generated(folder: Path, samples: int, tokens: int) -> float:
    """Return the tokens per second of generation without a server, the prompts included."""
    program = f"""
import time, models, tokenizer
from minigrad.generation import stream
model, tok = models.load({str(folder)!r}), tokenizer.load({str(folder)!r})
prompts = [[20 + (n * 7 + place) % 200 for place in range({PROMPT})] for n in range({samples})]
rates = []
for _ in range({TURNS} + 1):
    begun = time.perf_counter()
    count = sum(1 for _ in stream(model, prompts, tokenizer=tok, tokens={tokens}))
    rates.append(count / (time.perf_counter() - begun))
print(sorted(rates[1:])[{TURNS} // 2])
"""
    said = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    return float(said.stdout)


def measure(name: str, clients: int, tokens: int) -> None:
    """Print the figures of one model."""
    import models
    import tokenizer
    from tests.serving.wire import Wire

    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / name
        models.build(*MODELS[name]).save(folder)
        tokenizer.train([], vocab_size=261).save(folder)
        command = [sys.executable, "-m", "minigrad.serving", str(folder), "--port=0", "--context=512"]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
            assert server.stderr is not None
            while "serving at" not in (line := server.stderr.readline()):
                assert line
            wire = Wire(int(line.split("/v1")[0].rsplit(":", 1)[1]))
            served(wire, clients, 8)
            figures = [(served(wire, 1, tokens), served(wire, clients, tokens)) for _ in range(TURNS)]
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
