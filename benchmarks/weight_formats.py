"""The formats of weights: tokens per second, memory, and what rounding costs in bits per byte.

    python benchmarks/weight_formats.py --run runs/vidya-v2-nano    # bits per byte on the validation text of a run
    python benchmarks/weight_formats.py --family gpt2 --size 124m   # speed and memory, with random weights
    python benchmarks/weight_formats.py --family gpt2 --size 300m --samples 1 32 64 --tokens 16

Each format is measured in a process of its own, because memory that a process has had is not always given back. The
speed is that of a text of 128 tokens (--tokens) after a prompt of 16, alone and several at once (--samples); the memory
is what is resident after loading. Run with nothing else on the machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import describe_machine

from minigrad.cli.exits import exit_code
from minigrad.errors import RunError

PROMPT, LONG, TURNS = list(range(16)), 512, 3
FORMATS = ("float32", "float16", "bfloat16", "int8", "int4")


def scored(run: str, format: str | None) -> dict[str, Any]:
    """Return the bits per byte of a run on its validation text."""
    import models
    import tokenizer
    from minigrad.evaluate import measures
    from minigrad.evaluate.__main__ import EvaluateConfig, read_text
    from minigrad.training.folder.record import Record

    config, record = EvaluateConfig(run=run), Record.read(Path(run))
    model, context = models.load(run, quantize=format), record.used["context"]
    text = read_text(config, record, tokenizer.load(run), model.config.vocab_size)
    spans = text.spans(record.used.get("documents", "packed"), context)
    losses = measures.token_losses(model, spans, text.byte_lengths, context=context, overlap=config.overlap)
    return {"bits_per_byte": measures.whole(losses).bits_per_byte}


def resident_bytes() -> int:
    """Return the memory of this process that is in use now (Linux)."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    return 0


def timed(folder: str, format: str | None, samples: list[int], tokens: int) -> dict[str, Any]:
    """Return the memory of a model after loading, and its tokens per second for this number of texts."""
    import models
    from minigrad.generation import Sampling, stream

    before = resident_bytes()
    start = time.perf_counter()
    model = models.load(folder, quantize=format)
    loading, memory = time.perf_counter() - start, resident_bytes() - before
    greedy = Sampling(temperature=0, tokens=tokens)
    speeds = {}
    for texts in samples:
        settings, best = greedy.changed({"samples": texts}), float("inf")
        for _ in range(TURNS):
            stamps = [time.perf_counter() for _ in stream(model, PROMPT, settings, end_ids=())]
            best = min(best, (stamps[-1] - stamps[texts - 1]) / (len(stamps) - texts))
        speeds[f"tokens_per_second_of_{texts}"] = 1 / best
    prompt_length, prompt = min(LONG, model.config.context_length - 1), float("inf")
    for _ in range(TURNS + 1):  # one more, in which kernels are loaded
        start = time.perf_counter()
        list(stream(model, list(range(prompt_length)), greedy.changed({"tokens": 1}), end_ids=()))
        prompt = min(prompt, time.perf_counter() - start)
    return {
        "megabytes": memory / 1e6,
        "seconds_to_load": loading,
        **speeds,
        "prompt_tokens_per_second": prompt_length / prompt,
    }


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", help="a run folder, for the bits per byte of its validation text")
    parser.add_argument("--family", default="gpt2")
    parser.add_argument("--size", default="124m")
    parser.add_argument("--formats", nargs="+", default=list(FORMATS), choices=FORMATS)
    parser.add_argument("--samples", type=int, nargs="+", default=[1, 16], help="texts that are written at once")
    parser.add_argument("--tokens", type=int, default=128, help="of each text")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    work = measure_one if arguments.one else measure_all
    less = "give fewer --samples or a smaller --size"
    return exit_code(parser.prog, lambda: work(arguments), interrupted="interrupted", less_memory=less)


def measure_one(arguments: argparse.Namespace) -> None:
    """Measure one format in this process, and print JSON."""
    task = json.loads(arguments.one)
    format = None if task["format"] == "float32" else task["format"]
    run, samples, tokens = task["folder"], task["samples"], task["tokens"]
    print(json.dumps(scored(run, format) if task["kind"] == "scored" else timed(run, format, samples, tokens)))


def measure_all(arguments: argparse.Namespace) -> None:
    """Measure every format in a process of its own; print a table and JSON."""
    import models

    with tempfile.TemporaryDirectory() as temporary:
        kind, folder = ("scored", arguments.run) if arguments.run else ("timed", temporary)
        if not arguments.run:
            models.build(arguments.family, size=arguments.size).save(temporary)
        print(describe_machine())
        results = {}
        for format in arguments.formats:
            asked = {"kind": kind, "folder": folder, "format": format}
            task = json.dumps(asked | {"samples": arguments.samples, "tokens": arguments.tokens})
            command = [sys.executable, __file__, "--one", task]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            if done.returncode:
                raise RunError(f"{format} was not measured: its process ended with the code {done.returncode}")
            results[format] = json.loads(done.stdout.splitlines()[-1])
            figures = ", ".join(f"{name} {value:,.4f}" for name, value in results[format].items())
            print(f"{format:<9} {figures}", flush=True)
    print(json.dumps({"machine": describe_machine(), "model": folder if arguments.run else arguments.size, **results}))


if __name__ == "__main__":
    sys.exit(main())
