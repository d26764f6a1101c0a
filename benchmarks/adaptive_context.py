"""The context manager: what a decision costs, what a step costs at each context, and what adapting gains in writing.

In training, runs with and without --adaptive-context are compared by their folders: the contexts that were chosen, and
the bits per byte of validation text. In writing, a model reads validation documents token by token, as if it wrote
them, and predicts each next token from what is in view: all of its context, the context that adapts, and a fixed one
whose size is the average of the adapting one.

    python benchmarks/adaptive_context.py                                     the cost of decisions and of steps
    python benchmarks/adaptive_context.py --runs runs/fixed runs/adaptive     what runs chose and reached
    python benchmarks/adaptive_context.py --write runs/vidya-v2-nano          writing
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from machine import describe_machine
from turns import medians

from minigrad.system import hardware  # isort: skip  (before NumPy: it tells BLAS how long its idle threads may spin)

import numpy as np

import models
import tokenizer
from minigrad.adaptive.context import AdaptiveContext, AdaptiveView
from minigrad.adaptive.signals import measure
from minigrad.data import corpus, mixture
from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.documents import Documents
from minigrad.data.tokens.token_files import prepare
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.evaluate.losses import bits_per_byte
from minigrad.generation.context import Context
from minigrad.nn.language_model import LanguageModel
from minigrad.ops.softmax import log_softmax_formula
from minigrad.programs.decoder import Decoder
from minigrad.training.folder import metrics
from minigrad.training.folder.record import Record
from minigrad.training.parallel import Replicas
from minigrad.training.workers import fastest
from train import forward_backward

TOKENS = 2_048  # of a step
_UNREAD = 32  # the first tokens of a document are predicted from too little to tell one view from another


def costs(size: str, context: int, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each context up to the largest: median milliseconds of a step's passes, and of a decision.

    Every step has the same tokens, those of python-docs, cut at the context. The work is done in turns.
    """
    documents = corpus.load("python-docs", progress=print).split().train
    row = prepare(documents, tokenizer.train(documents, vocab_size=4_096))
    model = models.build("vidya-v2", size, dropout=0.0, context_length=context)
    replicas = fastest(model, TOKENS // context, context)
    whole = Documents(row, context).batch(seed=0, step=0, batch_size=TOKENS // context)
    contexts = [context >> shift for shift in range(4)]
    batches = {each: whole.cut(each) for each in contexts}
    works: dict[tuple[str, int], Callable[[], object]] = {}
    for each, batch in batches.items():
        works["step", each] = lambda batch=batch: passes(replicas, batch)
        works["decision", each] = lambda batch=batch, each=each: decide(model, batch, each)
    milliseconds = {name: 1_000 * seconds for name, seconds in medians(works, rounds).items()}
    return [
        {"context": each, "step": milliseconds["step", each], "decision": milliseconds["decision", each]}
        for each in contexts
    ]


def passes(replicas: Replicas, batch: Batch) -> None:
    """Do the forward and the backward pass of a step."""
    replicas.run(forward_backward, batch)
    replicas.models[0].zero_grad()


def decide(model: LanguageModel, batch: Batch, context: int) -> None:
    """Measure the batch and decide, as training does every few steps."""
    if signals := measure(model, batch.tokens, batch.targets, batch.layout, context):
        AdaptiveContext.up_to(context).decide(0, signals)


def chosen(run: Path) -> dict[str, Any]:
    """Return what a run chose and what it reached."""
    record, lines = Record.read(run), metrics.read(run)
    decisions = [decision for line in lines for decision in line.get("decisions", [])]
    changed = [each for each in decisions if each["context"] != each["before"]]
    contexts = [line.get("context", record.used["context"]) for line in lines]
    return {
        "run": str(run),
        "bits_per_byte": record.result.get("bits_per_byte"),
        "decisions": len(decisions),
        "changes": [f"{each['context']} from step {each['place']}" for each in changed],
        "mean_context": statistics.mean(contexts),
        "need": [round(each["need"], 4) for each in decisions],
    }


def writing(run: Path, documents: int, tokens: int) -> dict[str, dict[str, float]]:
    """Return bits per byte, tokens per second and the mean context, with all of the context and with less.

    The longest validation documents are read, `tokens` tokens of each.
    """
    model, record = models.load(run).eval(), Record.read(run)
    text = TokenizedCorpus.of(mixture.load(record.data, held_out=record.used.get("held_out")), tokenizer.load(run))
    decoder, limit = Decoder(model), model.config.context_length
    spans = Documents(text.validation, limit).spans()
    longest = np.argsort(-spans.lengths, kind="stable")[:documents]
    texts = [spans.row[spans.starts[n] :][: min(tokens, spans.lengths[n])].astype(np.int64).tolist() for n in longest]
    _read(decoder, [texts[0][: 2 * _UNREAD]], text.byte_lengths, limit, adapts=False)  # loads the kernels
    found = {}
    for name in ("whole", "adaptive", "fixed"):
        context = limit if name != "fixed" else round(found["adaptive"]["mean_context"])
        found[name] = _read(decoder, texts, text.byte_lengths, context, adapts=name == "adaptive")
    return found


def _read(decoder: Decoder, texts: list[list[int]], sizes: Any, limit: int, *, adapts: bool) -> dict[str, float]:
    """Predict each token of the texts from those in view; `sizes` (V,) is the number of bytes of each token."""
    nats, num_bytes, contexts, start = 0.0, 0, list[int](), time.perf_counter()
    most = decoder.model.config.context_length
    for ids in texts:
        adaptive = AdaptiveContext.up_to(limit) if adapts else AdaptiveContext(limit, limit, limit)
        views = [AdaptiveView(adaptive, _UNREAD)] if adapts or limit < most else []
        context = Context(decoder, [ids[:_UNREAD]], len(ids), views)
        for token in ids[_UNREAD:]:
            nats -= float(log_softmax_formula(context.logits()[0, -1].astype(np.float64))[token])
            num_bytes += int(sizes[token])
            contexts.append(context.limits[0])
            context.append([token])
    seconds = time.perf_counter() - start
    speed = len(contexts) / seconds
    score = bits_per_byte(nats, num_bytes)
    return {"bits_per_byte": score, "tokens_per_second": speed, "mean_context": statistics.mean(contexts)}


def main() -> None:
    """Print what was asked for, then the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=Path, nargs="*", default=[])
    parser.add_argument("--write", type=Path)
    parser.add_argument("--documents", type=int, default=8, help="with --write: the longest ones for validation")
    parser.add_argument("--tokens", type=int, default=1_024, help="with --write: of each document")
    parser.add_argument("--size", default="nano")
    parser.add_argument("--context", type=int, default=1_024)
    parser.add_argument("--rounds", type=int, default=9)
    asked = parser.parse_args()
    hardware.prepare(None)
    print(describe_machine())
    results: dict[str, Any] = {}
    for run in asked.runs:
        results[str(run)] = found = chosen(run)
        print(f"{run}: {found['bits_per_byte']:.4f} bits per byte, mean context {found['mean_context']:.0f}")
        print(f"  {found['decisions']} decisions, {', '.join(found['changes']) or 'no change'}; need {found['need']}")
    if asked.write:
        results["writing"] = writing(asked.write, asked.documents, asked.tokens)
        for name, each in results["writing"].items():
            print(
                f"  {name:<8} {each['bits_per_byte']:.4f} bits per byte, {each['tokens_per_second']:,.0f} tokens/s, "
                f"context {each['mean_context']:.0f} on average"
            )
    if not asked.runs and not asked.write:
        results["costs"] = costs(asked.size, asked.context, asked.rounds)
        for row in results["costs"]:
            print(
                f"  context {row['context']:>5,}: {row['step']:8.1f} ms forward and backward, "
                f"{row['decision']:7.1f} ms a decision"
            )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
