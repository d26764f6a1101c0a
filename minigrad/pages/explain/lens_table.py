"""The logit lens on the page: a row for each token of the text, a column for each layer."""

from __future__ import annotations

from collections.abc import Sequence

from minigrad.pages.chart import Series, line_chart
from minigrad.pages.explain.lens import Lens
from minigrad.pages.explain.ribbon import percent
from minigrad.pages.explain.tokens import TokenNames


def lens_table(lens: Lens, tokens: Sequence[int], first: int, names: TokenNames) -> str:
    """Return the most likely next token after each layer; bold where it is the one that the last layer names.

    Shapes: lens of n places, n tokens, the first one at position `first`.
    """
    stages = len(lens.tokens)
    heads = "".join(f"<th scope=col>{stage_name(stage)}" for stage in range(stages))
    rows = []
    for place, token in enumerate(tokens):
        cells = "".join(
            _cell(int(lens.tokens[stage, place]), float(lens.probabilities[stage, place]), answer, names)
            for answer in (int(lens.tokens[-1, place]),)
            for stage in range(stages)
        )
        rows.append(f"<tr><th scope=row><i>{first + place}</i> {names.alone(token)}{cells}")
    head = f"<thead><tr><th scope=col>having read{heads}</thead>"
    table = f"<table class=lens>{head}<tbody>{''.join(rows)}</tbody></table>"
    return f'<div class=wide role=region tabindex=0 aria-label="The logit lens, a wide table">{table}</div>'


def _cell(token: int, chance: float, answer: int, names: TokenNames) -> str:
    text = f"<b>{names.alone(token)}</b>" if token == answer else names.alone(token)
    return f'<td style="--p:{chance:.2f}">{text}<small>{percent(chance)}</small>'


def stage_name(stage: int) -> str:
    """Return the heading of a column.

    >>> [stage_name(0), stage_name(3)]
    ['before all', 'layer 3']
    """
    return f"layer {stage}" if stage else "before all"


def agreement(lens: Lens) -> str:
    """Return a chart: after each layer, the share of places where the most likely token is already the final one."""
    shares = 100 * (lens.tokens == lens.tokens[-1]).mean(axis=1)
    title = "Places where a layer already has the final answer, percent"
    chart = line_chart(title, [Series("agreement", range(len(shares)), shares.tolist())], over="layer")
    return f"<figure><figcaption>{title}</figcaption>{chart}</figure>"


STYLE = """
.wide { overflow-x: auto; }
.lens { font-size: .8125rem; line-height: 1.1; }
.lens th, .lens td { padding: .25rem .4rem; border-bottom: 1px solid var(--line); white-space: pre;
  vertical-align: top; text-align: left; }
.lens td { background: rgb(47 128 205 / calc(.45 * var(--p))); min-width: 3.2rem; }
.lens tbody th { position: sticky; left: 0; background: var(--paper); color: var(--ink); max-width: 7.5rem;
  overflow: hidden; text-overflow: ellipsis; }
.lens i { color: var(--soft); font-style: normal; font-size: .6875rem; }
"""
