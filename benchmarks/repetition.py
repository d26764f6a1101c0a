"""How much of what a model writes it has written before, beside real text, and how likely its tokens are.

Every held-out document gives its first tokens as a prompt, and what follows them as the real text. The share is that
of the runs of four tokens that stood in the same continuation before, among all runs of four; nats are the mean of
-log p of a token under the model itself, whatever the settings drew from.

    python benchmarks/repetition.py [--run vidya-v2-nano]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import models
import tokenizer
from minigrad.data import mixture
from minigrad.finetuning.rollouts import Rollouts, answer_log_probabilities
from minigrad.generation.decoding import stream
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from models.pretrained import find_run

PROMPT, TOKENS, RUN = 16, 200, 4
SETTINGS: tuple[dict[str, float], ...] = (
    {},
    {"temperature": 0.9},
    {"temperature": 1.0},
    {"frequency_penalty": 0.1},
    {"frequency_penalty": 0.2},
    {"frequency_penalty": 0.3},
    {"presence_penalty": 0.5},
    {"repetition_penalty": 1.1},
)


class Written(NamedTuple):
    """Continuations, and the mean of -log p of their tokens in nats."""

    texts: list[list[int]]
    nats: float


def repeated(texts: Sequence[Sequence[int]]) -> float:
    """Return the share of the runs of four tokens that stood in the same text before.

    >>> repeated([[1, 2, 3, 4, 5], [1, 2, 1, 2, 1, 2, 1, 2]])  # three of seven: 1212 twice more, 2121 once
    0.42857142857142855
    """
    again = total = 0
    for text in texts:
        runs = [tuple(text[first : first + RUN]) for first in range(len(text) - RUN + 1)]
        again, total = again + len(runs) - len(set(runs)), total + len(runs)
    return again / total


def written(model: LanguageModel, prompts: list[list[int]], ends: Sequence[int], sampling: Sampling) -> Written:
    """Let a model continue each prompt."""
    texts, nats = [[] for _ in prompts], list[float]()
    for token in stream(model, prompts, sampling, end_ids=ends):
        texts[token.prompt].append(int(token))
        nats.append(-(token.log_probability or 0.0))
    return Written(texts, float(np.mean(nats)))


def main() -> None:
    """Print a table: real text first, then each of the settings."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--run", default="vidya-v2-nano", help="a run folder, or the name of a model that comes with minigrad"
    )
    folder = Path(find_run(parser.parse_args().run))
    model, tok = models.load(folder), tokenizer.load(folder)
    rows = [tok.encode(text) for text in mixture.load("python-docs").split().validation]
    rows = [row for row in rows if len(row) >= PROMPT + TOKENS]
    prompts = [[tok.end_of_text_id, *row[:PROMPT]] for row in rows]
    real = [row[PROMPT : PROMPT + TOKENS] for row in rows]
    of_real = -answer_log_probabilities(model, Rollouts(prompts, real, np.zeros(0)))
    print(f"{len(rows)} texts\n\n| settings | share repeated | nats a token |\n| --- | --: | --: |")
    print(f"| real text | {100 * repeated(real):.0f}% | {of_real.mean():.2f} |")
    for settings in SETTINGS:
        found = written(model, prompts, [tok.end_of_text_id], Sampling(tokens=TOKENS, alternatives=0, **settings))
        print(f"| {settings or 'the defaults'} | {100 * repeated(found.texts):.0f}% | {found.nats:.2f} |", flush=True)


if __name__ == "__main__":
    main()
