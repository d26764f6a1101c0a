"""Has a model learned to copy from its context? The loss on tokens that complete a pair seen before, and on others.

Text repeats itself: names, phrases, lines. A token completes a repeated pair if it and the token before it stood side
by side earlier in the same window. Attention can find the earlier place and copy what followed (an induction head:
Elhage et al. 2021, Olsson et al. 2022). It learns that rather suddenly, in some runs within ten minutes and in others
not, so runs that differ in nothing but chance end at two different scores (docs/results.md).

    python benchmarks/copying.py runs/vidya-v2-nano [more run folders]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import models
import tokenizer
from minigrad import no_grad, ops
from minigrad.data import corpus
from minigrad.data.batches import Batch
from minigrad.data.evaluation import evaluation_batches
from minigrad.data.tokenized import TokenizedCorpus
from minigrad.data.windows import Windows
from minigrad.nn.language_model import LanguageModel
from minigrad.training.record import Record
from minigrad.typing import Array

WINDOWS = 64  # of the context's length, spread over the held-out text


def completes_a_pair(row: Array) -> Array:
    """Return for each token of a row but the first (T,) whether it and the token before it stood side by side earlier.

    >>> completes_a_pair(np.array([1, 2, 3, 1, 2, 2, 2])).tolist()
    [False, False, False, True, False, True]
    """
    pairs = row[:-1].astype(np.int64) << 32 | row[1:]
    first = np.zeros(len(pairs), bool)
    first[np.unique(pairs, return_index=True)[1]] = True
    return ~first


def losses(model: LanguageModel, batches: Iterable[Batch]) -> dict[str, float]:
    """Return the mean loss in nats of tokens that complete a repeated pair and of others, and the share of the former.

    Every token of a sequence counts but the first. Dropout is off.
    """
    nats: list[Array] = []
    repeated: list[Array] = []
    model.eval()
    for batch in batches:
        with no_grad():
            log_chances = ops.log_softmax(model(batch.tokens, layout=batch.layout)).data  # (rows, V)
        is_later = batch.layout.positions > 0  # the first token of a sequence is not predicted
        nats.append(-log_chances[np.flatnonzero(is_later) - 1, batch.tokens[is_later]])
        repeated += [completes_a_pair(row) for row in np.split(batch.tokens, batch.layout.offsets[1:-1])]
    loss, again = np.concatenate(nats), np.concatenate(repeated)
    return {"repeated": float(loss[again].mean()), "others": float(loss[~again].mean()), "share": float(again.mean())}


def measure(folder: Path) -> dict[str, Any]:
    """Return the losses of a run folder's model on the held-out text of its run."""
    model, record = models.load(folder), Record.read(folder)
    text = TokenizedCorpus.of(corpus.load(record.data), tokenizer.load(folder))
    context = record.used["context"]
    spans, size = Windows(text.held_out, context).spans(), {"rows": 8 * context, "limit": WINDOWS * context}
    return losses(model, evaluation_batches(spans, context=context, overlap=0.0, **size))


def main() -> None:
    """Print a line for each run folder, and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, nargs="+")
    measured = {str(run): measure(run) for run in parser.parse_args().runs}
    print("nats per token: repeated pairs, other tokens; share of repeated pairs")
    for run, found in measured.items():
        print(f"{run}: {found['repeated']:.2f}, {found['others']:.2f}; {found['share']:.0%}")
    print(json.dumps(measured))


if __name__ == "__main__":
    main()
