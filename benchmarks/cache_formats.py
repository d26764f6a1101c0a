"""The formats of caches: how fast a long text is written, and what rounded keys and values cost in bits per byte.

    python benchmarks/cache_formats.py --run runs/vidya-v2-nano     # bits per byte on the validation text of a run
    python benchmarks/cache_formats.py --sizes nano 2.0             # speed at the beginning and at position 2,000

The speed is that of single tokens in the decoding program, with random weights in --weights; the formats take turns,
and medians are printed. Every token of the validation text is read through a cache. Run with nothing else on the
machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

import models
from minigrad.kernels.decoding.kept import FORMATS

NEAR, FAR, TOKENS = 10, 2_000, 16


def scored(run: str, limit: int | None) -> dict[str, Any]:
    """Return the bits per byte of a run on its validation text, with a cache of each format."""
    import tokenizer
    from minigrad import no_grad, ops
    from minigrad.constants import IGNORE
    from minigrad.evaluate.__main__ import EvaluateConfig, read_text
    from minigrad.evaluate.losses import BATCH_TOKENS, bits_per_byte, evaluation_batches
    from minigrad.training.folder.record import Record

    config, record = EvaluateConfig(run=run), Record.read(Path(run))
    model, context = models.load(run).eval(), record.used["context"]
    text = read_text(config, record, tokenizer.load(run), model.config.vocab_size)
    spans, found = text.spans(record.used.get("documents", "packed"), context), dict[str, float]()
    for format in FORMATS:
        model.cache_format, nats, num_bytes = format, 0.0, 0
        for batch in evaluation_batches(spans, context=context, rows=BATCH_TOKENS, limit=limit):
            counted = batch.targets != IGNORE
            cache = model.new_cache(len(batch.layout.lengths), context)
            with no_grad():
                logits = model(batch.tokens, cache=cache, layout=batch.layout)
                losses = ops.cross_entropy(logits.data[counted], batch.targets[counted]).item() * counted.sum()
            nats += float(losses)
            num_bytes += int(text.byte_lengths[batch.targets[counted]].sum())
        found[format] = bits_per_byte(nats, num_bytes)
        print(f"{format:<9} {found[format]:.5f} bits per byte", flush=True)
    return found


def timed(size: str, weights: str, turns: int) -> dict[str, dict[str, float]]:
    """Return the tokens per second near the beginning and far from it, and their ratio, for each format."""
    from minigrad.programs.decoder import Decoder
    from minigrad.quantised import quantise

    model = models.build("vidya-v2", size=size).eval()
    if weights != "float32":
        quantise(model, weights)
    decoder, draw, caches = Decoder(model), np.random.default_rng(0), {}
    for format in FORMATS:
        model.cache_format = format
        cache: Any = model.new_cache(1, FAR + TOKENS)
        if format == "bfloat16":
            for rows in (cache.keys, cache.values):  # between 0.5 and 1
                rows[:] = draw.integers(0x3F00, 0x3F80, rows.shape)
        else:
            for rows in (cache.keys, cache.values):
                rows[:] = 0 if format == "int8" else draw.uniform(0.5, 1, rows.shape)
        caches[format] = cache
    seconds: dict[tuple[str, int], list[float]] = {(each, place): [] for each in FORMATS for place in (NEAR, FAR)}
    for turn in range(turns + 1):
        for (format, place), those in seconds.items():
            caches[format].lengths = np.array([place])
            for _ in range(TOKENS):
                start = time.perf_counter()
                decoder.step([1], caches[format])
                those += [time.perf_counter() - start] * (turn > 0)
    found = {}
    for format in FORMATS:
        near, far = (1 / statistics.median(seconds[format, place]) for place in (NEAR, FAR))
        found[format] = {"near": near, "far": far, "ratio": far / near, "bytes": caches[format].num_bytes}
        print(
            f"{size:<6} weights {weights:<8} cache {format:<8} position {NEAR} {near:8.1f} tokens/s  "
            f"position {FAR} {far:8.1f}  ratio {far / near:.2f}x  cache {caches[format].num_bytes / 1e6:.1f} MB",
            flush=True,
        )
    return found


def main() -> None:
    """Take the measures, and print them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", help="a run folder, for the bits per byte of its validation text")
    parser.add_argument("--limit", type=int, help="tokens of the validation text, evenly spread; by default all")
    parser.add_argument("--sizes", nargs="+", default=["nano", "2.0"], help="sizes of vidya-v2")
    parser.add_argument("--weights", nargs="+", default=["float32", "int8"])
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    print(describe_machine())
    if arguments.run:
        results: Any = scored(arguments.run, arguments.limit)
    else:
        results = {
            f"{size}, {weights}": timed(size, weights, arguments.turns)
            for size in arguments.sizes
            for weights in arguments.weights
        }
    print(json.dumps({"machine": describe_machine(), **results}))


if __name__ == "__main__":
    main()
