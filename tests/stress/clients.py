"""Let random clients call a server for a while: they join, leave early, read slowly, and send garbage.

Some requests repeat with the same seed; their texts must stay the same, whatever else is served. At the end no text may
be left, the server must have reported no error, and its memory must be flat. An hour, on Linux:

    python tests/stress/clients.py runs/vidya-v2-nano --minutes 60
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.serving.wire import Wire  # noqa: E402  (found through the line above)

COMPLETIONS, CHAT = "/v1/completions", "/v1/chat/completions"
GARBAGE = [b"", b"{", b"[]", b'{"prompt": 1}', b'{"prompt": "a", "n": -1}', b'{"messages": 5}', bytes(range(256))]


class Clients:
    """Threads that send requests until a moment, and what came of them."""

    def __init__(self, wire: Wire, until: float, seed: int) -> None:
        self.wire, self.until, self.seed = wire, until, seed
        self.counts: Counter[str] = Counter()
        self.texts: dict[int, str] = {}
        self.wrong: list[str] = []

    def run(self, number: int) -> None:
        draw = random.Random(f"{self.seed} {number}")
        while time.monotonic() < self.until:
            kind = draw.choice(["whole", "whole", "stream", "leave", "slow", "garbage"])
            self.counts[kind] += 1
            try:
                getattr(self, kind)(draw)
            except (OSError, AssertionError, ValueError, KeyError) as error:
                self.wrong.append(f"{kind}: {type(error).__name__}: {error}")

    def whole(self, draw: random.Random) -> None:
        """Ask for a text, again and again the same few hundred."""
        seed = draw.randrange(200)
        asked = {"prompt": "The list type " * (seed % 40), "seed": seed, "max_tokens": 1 + seed % 60, "logprobs": 1}
        answer = self.wire.call(COMPLETIONS, asked)
        if answer.status == 429:
            self.counts["refused for now"] += 1
            return
        assert answer.status == 200, answer.text
        text = json.dumps(answer.json["choices"])
        if self.texts.setdefault(seed, text) != text:
            self.wrong.append(f"another text for seed {seed}")

    def stream(self, draw: random.Random) -> None:
        """Read a stream to its end."""
        asked = {"prompt": "A tuple is", "max_tokens": draw.randint(1, 100), "stream": True, "n": draw.randint(1, 3)}
        answer = self.wire.call(COMPLETIONS, asked)
        assert answer.status == 429 or answer.events

    def leave(self, draw: random.Random) -> None:
        """Go away, perhaps in the middle of a stream."""
        asked = {"prompt": "Go " * draw.randint(1, 300), "max_tokens": 200, "stream": draw.random() < 0.5}
        connection = self.wire.send(COMPLETIONS, asked)
        time.sleep(draw.random() * 0.3)
        connection.close()

    def slow(self, draw: random.Random) -> None:
        """Read a stream by a few bytes at a time."""
        connection = self.wire.send(COMPLETIONS, {"prompt": "Slowly", "max_tokens": 50, "stream": True})
        reply = connection.getresponse()
        while reply.read(draw.randint(20, 2000)) and time.monotonic() < self.until:
            time.sleep(0.01)
        connection.close()

    def garbage(self, draw: random.Random) -> None:
        """Send what is no request."""
        answer = self.wire.call(draw.choice([COMPLETIONS, CHAT, "/tokenize", "/nowhere"]), draw.choice(GARBAGE))
        assert 400 <= answer.status < 500, answer


def memory(process: int) -> int:
    """Return the resident memory of a process in bytes."""
    return int(re.findall(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text(encoding="utf-8"))[0]) * 1024


def main() -> int:
    """Run the clients; return 1 if a text was lost or wrong, or the server reported an error."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--clients", type=int, default=24)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--flags", nargs="*", default=[], help="flags of the server, without their dashes: texts=8")
    given = parser.parse_args()
    flags = [f"--{flag}" for flag in given.flags]
    command = [sys.executable, "-m", "minigrad.serving", given.run, "--port=0", "--queue=40", *flags]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said: list[str] = []
        while "serving at" not in (line := server.stderr.readline()):
            assert line, said
            said.append(line)
        wire = Wire(int(line.split("/v1")[0].rsplit(":", 1)[1]))
        noise: list[str] = []
        threading.Thread(target=lambda: noise.extend(server.stderr or ()), daemon=True).start()
        try:
            clients = Clients(wire, time.monotonic() + 60 * given.minutes, given.seed)
            threads = [threading.Thread(target=clients.run, args=(number,)) for number in range(given.clients)]
            for thread in threads:
                thread.start()
            time.sleep(min(120, 12 * given.minutes))  # until every kind of request came
            begun = memory(server.pid)
            for thread in threads:
                thread.join()
            left = settled(wire)
            grown = memory(server.pid) - begun
        finally:
            server.terminate()
        print(
            f"{dict(clients.counts)}; {left:.0f} texts left; memory grew by {grown / 1e6:.1f} MB to {begun / 1e6:.0f}"
        )
        for line in [*clients.wrong[:10], *noise[:10]]:
            print(line.rstrip())
    return int(bool(clients.wrong or noise or left))


def settled(wire: Wire) -> float:
    """Return the number of texts that are still served or waiting ten seconds after the last request."""
    left: Any = -1.0
    for _ in range(100):
        with contextlib.suppress(OSError):
            left = wire.metric("texts_served") + wire.metric("texts_waiting")
        if left == 0:
            break
        time.sleep(0.1)
    return float(left)


if __name__ == "__main__":
    sys.exit(main())
