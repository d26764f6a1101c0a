"""The logit lens: what a model would have answered, had it ended after an earlier layer.

Every layer adds to the residual stream. The last norm and the head, which turn it into logits, can be applied to the
stream after any layer (nostalgebraist 2020, "interpreting GPT: the logit lens"). After the last layer that gives the
logits of the model itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from minigrad.autograd.graph import no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.nn.language_model import LanguageModel
from minigrad.pages.chart import Series, captioned
from minigrad.pages.explain.prediction import percent
from minigrad.pages.explain.tokens import TokenNames
from minigrad.pages.explain.trace import Trace
from minigrad.pages.page import scrolling
from minigrad.typing import Array

_ROWS_AT_ONCE = 64  # so that the logits of a large vocabulary take little memory


class Lens(NamedTuple):
    """The most likely next token after each layer and each token, and its probability.

    Shapes: tokens and probabilities (layers + 1, n); the first row is that of the embedding, before all layers.
    """

    tokens: Array
    probabilities: Array


def logit_lens(model: LanguageModel, trace: Trace, first: int = 0) -> Lens:
    """Apply the last norm and the head of a model after each layer, for the tokens from place `first` on."""
    best, chance = [], []
    for stream in trace.stream:
        for logits in _parts(model, trace, stream[first:]):
            above = logits.max(axis=1, keepdims=True, initial=-np.inf)
            best.append(logits.argmax(axis=1))
            chance.append(1 / np.exp(logits.astype(np.float64) - above).sum(axis=1))
    shape = len(trace.stream), -1
    return Lens(np.concatenate(best).reshape(shape), np.concatenate(chance).reshape(shape))


def last_logits(model: LanguageModel, trace: Trace, first: int = 0) -> Array:
    """Return the logits (n, V) that the model computed after each token from place `first` on."""
    return np.concatenate(list(_parts(model, trace, trace.stream[-1][first:])))


def _parts(model: LanguageModel, trace: Trace, stream: Array) -> Iterator[Array]:
    """Yield the logits of some rows of the stream at a time; at least once."""
    for start in range(0, max(len(stream), 1), _ROWS_AT_ONCE):
        with no_grad():
            rows = Tensor(stream[start : start + _ROWS_AT_ONCE])
            for module in trace.after:
                rows = module(rows)
            yield model.logits(rows).data


def lens_table(lens: Lens, tokens: Sequence[int], first: int, names: TokenNames) -> str:
    """Return the most likely next token after each layer; bold where it is the one that the last layer names.

    Shapes: lens of n places, n tokens, the first one at position `first`.
    """
    stages = len(lens.tokens)
    heads = "".join(f"<th scope=col>{stage_name(stage)}" for stage in range(stages))
    rows = []
    for place, token in enumerate(tokens):
        best = lens.tokens[:, place].tolist()
        chances = lens.probabilities[:, place].tolist()
        cells = "".join(_cell(each, chance, best[-1], names) for each, chance in zip(best, chances, strict=True))
        rows.append(f"<tr><th scope=row><i>{first + place}</i> {names.alone(token)}{cells}")
    head = f"<thead><tr><th scope=col>having read{heads}</thead>"
    table = f"<table class=lens>{head}<tbody>{''.join(rows)}</tbody></table>"
    return scrolling("The logit lens, a wide table", table)


def _cell(token: int, chance: float, answer: int, names: TokenNames) -> str:
    text = f"<b>{names.alone(token)}</b>" if token == answer else names.alone(token)
    return f'<td style="--p:{chance:.2f}">{text}<small>{percent(chance)}</small>'


def stage_name(stage: int) -> str:
    """Return the heading of a column."""
    return f"layer {stage}" if stage else "embedding"


def agreement(lens: Lens) -> str:
    """Return a chart: after each layer, the share of places where the most likely token is already the final one."""
    shares = 100 * (lens.tokens == lens.tokens[-1]).mean(axis=1)
    title = "Places where a layer already has the final answer, percent"
    return captioned(title, [Series("agreement", range(len(shares)), shares.tolist())], over="layer")


STYLE = """
.lens { font-size: .8125rem; line-height: 1.1; }
.lens th, .lens td { padding: .25rem .4rem; border-bottom: 1px solid var(--line); white-space: pre;
  vertical-align: top; text-align: left; }
.lens td { background: rgb(47 128 205 / calc(.45 * var(--p))); min-width: 3.2rem; }
.lens tbody th { position: sticky; left: 0; background: var(--paper); color: var(--ink); max-width: 7.5rem;
  overflow: hidden; text-overflow: ellipsis; }
.lens i { color: var(--soft); font-style: normal; font-size: .6875rem; }
"""
