"""Start-up times: --help, from the command to the first line of training, cold and warm, and to the first token.

Cold means no compiled kernels and no token files: an empty cache folder. The first token is that of generate.py with a
model of the shape of nano, warm. Run with nothing else on the machine:

    python benchmarks/start_up.py
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe_machine

ROOT = Path(__file__).parent.parent


def seconds_to(prefix: str, arguments: list[str], cache: Path) -> float:
    """Return the seconds from the start of train.py to its first line that begins with `prefix`, then stop it."""
    environment = os.environ | {"MINIGRAD_CACHE": str(cache)}
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *arguments], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith(prefix):
                    return time.perf_counter() - started
        finally:
            process.kill()
    raise SystemExit(f"train.py never printed a line that begins with {prefix!r}")


def seconds_to_token(run: Path, cache: Path) -> float:
    """Return the seconds from the start of generate.py to the first text after its prompt."""
    environment, prompt = os.environ | {"MINIGRAD_CACHE": str(cache)}, "The list"
    command = [sys.executable, str(ROOT / "generate.py"), str(run), "--prompt", prompt]
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as process:
        assert process.stdout is not None
        process.stdout.read(len(prompt) + 1)
        taken = time.perf_counter() - started
        process.kill()
    return taken


def write_run(run: Path) -> None:
    """Write a folder like that of a nano run, with random weights and a tokenizer of 4,096 tokens."""
    import models
    import tokenizer

    models.build("vidya-v2", "nano").save(run)
    texts = (path.read_text(encoding="utf-8") for path in sorted((ROOT / "minigrad").rglob("*.py")))
    tokenizer.train(texts, vocab_size=4096).save(run)


def main() -> None:
    """Measure three times each, and the first token seven times; print a table and JSON."""
    from minigrad.system.cache import cache_folder

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only-token", action="store_true", help="measure generate.py alone, with the usual cache")
    rounds = 0 if parser.parse_args().only_token else 3
    results: dict[str, list[float]] = {"help": [], "cold": [], "warm": [], "first token": []}
    with tempfile.TemporaryDirectory() as folder:
        run, usual = Path(folder) / "run", cache_folder()
        write_run(run)
        seconds_to_token(run, usual)
        results["first token"] = [seconds_to_token(run, usual) for _ in range(7)]
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "cache"
            results["help"].append(seconds_to("usage", ["--help"], cache))
            for kind in ("cold", "warm"):
                out = str(Path(folder) / kind)  # the first line of the table begins with the step
                results[kind].append(seconds_to("1 ", ["--model", "vidya-v2", "--out", out], cache))
    figures = {kind: statistics.median(times) for kind, times in results.items() if times}
    print(describe_machine())
    for kind, seconds in figures.items():
        print(f"{kind:<11} {seconds:6.2f} s   ({', '.join(f'{each:.2f}' for each in results[kind])})")
    print(json.dumps({"machine": describe_machine(), "seconds": results}))


if __name__ == "__main__":
    main()
