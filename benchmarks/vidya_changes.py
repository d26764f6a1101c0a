"""From Vidya v1 to v2: each of the five changes alone, all five, and none, on equally many tokens, over several seeds.

The document that designs v2 changes five things of v1 at once: SwiGLU for GELU, grouped queries, depth instead of
width, a larger vocabulary, and a longer context with a larger base of the rotary angles. Here a small v1 gets one at a
time. Where a change adds or removes parameters, the width of the feed-forward block makes up for it; a larger
vocabulary adds rows to the embedding, for which nothing can. All learn from the same text. An arm with another
vocabulary or context reads it in another order, and is judged on partly other text, because 20,000 tokens are judged.

    python benchmarks/vidya_changes.py [--steps 600] [--seeds 0 1 2]

Bits per byte of validation text, each document by itself; differences from v1 are taken seed by seed.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import tokenizer
from minigrad import nn, optim
from minigrad.data import corpus
from minigrad.data.tokens.documents import Documents
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.evaluate.losses import evaluate
from minigrad.nn.config import laptop_init_std, residual_std
from models.vidya_v1 import VidyaV1, VidyaV1Config

TOKENS = 1_024
"""The tokens of a step."""


class Shape(NamedTuple):
    """A small Vidya: the config of v1, and what v1 does not have."""

    config: VidyaV1Config
    num_kv_heads: int
    has_gate: bool = False  # SwiGLU, with two thirds of the width


V1 = Shape(
    VidyaV1Config(
        vocab_size=512, num_layers=4, width=96, num_heads=3, head_dim=32, feed_forward=384, context_length=64
    ),
    num_kv_heads=3,
)


def changed(shape: Shape = V1, *, gate: int = 0, groups: int = 1, **fields: Any) -> Shape:
    """Return a shape with other fields of its config, a gated block of width `gate`, or heads in groups."""
    config = replace(shape.config, **({"feed_forward": gate} if gate else {}) | fields)
    return Shape(config, max(1, config.num_heads // groups), bool(gate))


SHAPES = {
    "v1": V1,
    "SwiGLU": changed(gate=256),
    "grouped queries, 3 to 1": changed(groups=3, feed_forward=448),
    "9 layers of 64, not 4 of 96": changed(num_layers=9, width=64, num_heads=2, feed_forward=256),
    "vocabulary of 2,048, not 512": changed(vocab_size=2_048),
    "context of 256, not 64": changed(context_length=256, rope_theta=100_000.0),
    "all five": changed(
        gate=193, groups=2, num_layers=9, width=64, num_heads=2, vocab_size=2_048, context_length=256, rope_theta=1e5
    ),
}


class Vidya(VidyaV1):
    """A Vidya v1 with some of the parts of v2."""

    def __init__(self, shape: Shape) -> None:
        config = replace(shape.config, init_std=laptop_init_std(shape.config.width))
        super().__init__(config)
        std, out_std = config.init_std, residual_std(config)
        heads = config.num_heads, shape.num_kv_heads, config.head_dim
        for layer in self.model.layers:
            layer.self_attn = nn.GroupedQueryAttention(config.width, *heads, std=std, out_std=out_std)
            if shape.has_gate:
                layer.mlp = nn.SwiGLUFeedForward(config.width, config.feed_forward, std=std, out_std=out_std)


@functools.cache
def text_in(vocab_size: int) -> TokenizedCorpus:
    """Return the documentation of Python in tokens of a vocabulary that was learned from it."""
    text = corpus.load("python-docs")
    return TokenizedCorpus.of(text, tokenizer.train(text.split().train, vocab_size=vocab_size))


class Result(NamedTuple):
    """What became of a shape: its number of parameters, and its bits per byte of validation text."""

    parameters: int
    bits_per_byte: float


def learn(shape: Shape, steps: int, seed: int = 0, limit: int = 20_000, rate: float = 6e-3) -> Result:
    """Train a model from scratch, and measure it on `limit` tokens of validation text."""
    config = shape.config
    tokens, context = text_in(config.vocab_size), config.context_length
    learned, unseen = (Documents(file, context=context) for file in (tokens.train, tokens.validation))
    model = Vidya(shape)
    model.initialise(seed)
    optimizer = optim.AdamW(model.parameters(), lr=rate)
    for step in range(1, steps + 1):
        batch = learned.batch(seed=seed, step=step, batch_size=TOKENS // context)
        model.loss(batch.tokens, batch.targets, layout=batch.layout).backward()
        # Up over 30 steps, and down from a fifth of the steps on.
        optimizer.step(lr=rate * min(1, step / 30, 1.2 * (1 - step / steps) + 0.05), max_norm=1.0)
        optimizer.zero_grad()
    score = evaluate(model, unseen.spans(), tokens.byte_lengths, context=context, limit=limit)
    return Result(model.num_parameters(), score.bits_per_byte)


def main() -> None:
    """Train every shape with every seed and print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    found: dict[str, list[float]] = {}
    print(f"\n{options.steps * TOKENS:,} tokens, seeds {options.seeds}\n")
    print("| change | parameters | bits per byte | against v1 | of each seed |\n| --- | --: | --: | --: | --: |")
    for name, shape in SHAPES.items():
        results = [learn(shape, options.steps, seed) for seed in options.seeds]
        found[name] = [each.bits_per_byte for each in results]
        apart = [ours - theirs for ours, theirs in zip(found[name], found["v1"], strict=True)]
        means = f"{statistics.mean(found[name]):.3f} | {statistics.mean(apart):+.3f}"
        each_seed = ", ".join(f"{each:+.3f}" for each in apart)
        print(f"| {name} | {results[0].parameters:,} | {means} | {each_seed} |", flush=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
