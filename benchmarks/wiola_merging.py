"""Merging while writing: what a trained Wiola loses and how fast it writes, with and without merging at inference.

The paper merges tokens in training alone. The causal variants can merge at inference too (`atm_at_generation`). For
each of several thresholds: bits per byte of the validation text, the mean share of merged tokens over its batches, and
tokens per second of a text that is written alone. A model that merges is called for each token, because a program
computes the same steps for every token; so the speed without merging is given in both ways.

    python train.py --model wiola --size nano --steps 2000 --out runs/wiola-nano
    python benchmarks/wiola_merging.py runs/wiola-nano
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

from machine import describe_machine

PROMPT, COUNT, TURNS = list(range(16)), 128, 3


def measure(run: str, *, by_program: bool = False, limit: int | None = None, **changes: Any) -> dict[str, Any]:
    """Return bits per byte, the share of merged tokens and tokens per second of a run, with fields of its config."""
    import models
    import tokenizer
    from minigrad.data import mixture
    from minigrad.data.tokens import reading
    from minigrad.data.tokens.tokenized import TokenizedCorpus
    from minigrad.evaluate.losses import evaluate
    from minigrad.generation import Sampling, stream
    from minigrad.training.folder.record import Record
    from models.wiola.merged_attention import merged_attention

    record, model = Record.read(Path(run)), models.load(run, **changes).eval()
    source = mixture.load(record.data, held_out=record.used.get("held_out"))
    text, context = TokenizedCorpus.of(source, tokenizer.load(run)), record.used["context"]
    spans = reading.spans(record.used.get("documents", "packed"), text.validation, context)
    ratios: dict[Any, list[float]] = {}  # of every batch, by the attention of each layer that merges

    def noted(attention: Any, *arguments: Any) -> tuple[Any, float]:
        out, ratio = merged_attention(attention, *arguments)
        ratios.setdefault(attention, []).append(ratio)
        return out, ratio

    with mock.patch("models.wiola.model.merged_attention", noted):
        score = evaluate(model, spans, text.byte_lengths, context=context, limit=limit)
    merged = [statistics.fmean(each) for each in ratios.values()]
    settings, best = Sampling(temperature=0, tokens=COUNT), float("inf")
    with nullcontext() if by_program else mock.patch("minigrad.programs.decoder.program_of", return_value=None):
        for _ in range(TURNS):
            stamps = [time.perf_counter() for _ in stream(model, PROMPT, settings, end_ids=())]
            best = min(best, (stamps[-1] - stamps[0]) / (len(stamps) - 1))
    return {"bits_per_byte": score.bits_per_byte, "merged": merged, "tokens_per_second": 1 / best}


def main() -> None:
    """Measure every case; print a line for each, and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", help="the folder of a trained Wiola")
    parser.add_argument("--thresholds", type=float, nargs="+", default=[0.97, 0.92, 0.85, 0.7])
    parser.add_argument("--limit", type=int, help="validation tokens to read (default: all)")
    arguments = parser.parse_args()
    print(describe_machine())
    cases: dict[str, dict[str, Any]] = {"no merging, by its program": {"by_program": True}, "no merging": {}}
    for threshold in arguments.thresholds:
        cases[f"merging from {threshold}"] = {"atm_at_generation": True, "atm_threshold": threshold}
    results = {}
    for name, changes in cases.items():
        results[name] = found = measure(arguments.run, limit=arguments.limit, **changes)
        shares = ", ".join(f"{share:.3f}" for share in found["merged"]) if "merging from" in name else "none"
        print(
            f"{name:<27} {found['bits_per_byte']:.4f} bits per byte  {found['tokens_per_second']:8,.1f} tokens/s  "
            f"merged in each layer: {shares}",
            flush=True,
        )
    print(json.dumps({"machine": describe_machine(), "run": arguments.run, "results": results}))


if __name__ == "__main__":
    main()
