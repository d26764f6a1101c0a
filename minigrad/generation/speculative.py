r"""Speculative decoding: a small model proposes tokens, and the model checks several of them at once.

Writing one token reads all weights of a model once, and so does checking five. So a small model proposes a few tokens;
the model computes its own distribution at their positions in one pass, and accepts or refuses each.

The texts have exactly the distribution of the model alone (Leviathan et al. 2023, arXiv 2211.17192, section 2.3; Chen
et al. 2023, arXiv 2302.01318). Let q be the distribution from which the token x was proposed and p that of the model.
The proposal is accepted with probability $\min(1, p_x / q_x)$; otherwise a token is drawn from $(p - q)_+$, normalised.
So x is proposed and accepted with probability $\min(q_x, p_x)$. After a refusal it is drawn with probability
$(p_x - q_x)_+$, because a refusal has the probability $\sum_y (q_y - p_y)_+ = \sum_y (p_y - q_y)_+$. The sum is $p_x$.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from minigrad.generation.context import Context
from minigrad.generation.continuation import Continuation, Token
from minigrad.generation.sampling import draw
from minigrad.programs.decoder import Decoder
from minigrad.typing import Array


def with_draft(decoder: Decoder, draft: Decoder, text: Continuation, capacity: int) -> Iterator[Token]:
    """Yield the tokens of a text; the smaller model of `draft` proposes some of them.

    With temperature 0 the text is that of the model alone. Every random number is a function of its position.
    """
    reader, drafter = Context(decoder, [text.prompt], capacity), Context(draft, [text.prompt], capacity)
    logits, proposals = reader.logits()[0], list[tuple[int, Array]]()
    while True:
        length = len(reader.rows[0].tokens) - len(proposals)
        drawn = list[int]()
        for token in _checked(text, logits, proposals):
            drawn.append(int(token))
            yield token
            if token.ended:
                return
        for context in (reader, drafter):
            context.truncate(length + len(drawn) - 1)
            context.append(drawn[-1:])
        reader.mark()
        proposals = _proposals(drafter, text, min(reader.room, text.left - 1))
        for proposed, _ in proposals:
            reader.append([proposed])
        logits = reader.logits(last=len(proposals) + 1)[0]


def _checked(text: Continuation, logits: Array, proposals: list[tuple[int, Array]]) -> Iterator[Token]:
    """Yield the accepted proposals, and a token that the model draws after them.

    Shapes: logits (proposals + 1, V) of the model, at the position of each proposal and after the last.
    """
    for row, (proposed, q) in zip(logits, proposals, strict=False):
        p = text.distribution(row)
        if text.uniform("acceptance") * q[proposed] >= p[proposed]:
            rest = np.maximum(p - q, 0)
            yield text.add(draw(rest if rest.any() else p, text.uniform()), row)
            return
        yield text.add(proposed, row, drafted=True)
    yield text.next(logits[len(proposals)])


def _proposals(drafter: Context, text: Continuation, most: int) -> list[tuple[int, Array]]:
    """Return the next tokens of the small model, each with the distribution (V,) from which it was drawn."""
    logits, found, ahead = drafter.logits(), list[tuple[int, Array]](), list[int]()
    drafter.mark()
    for number in range(min(most, text.rules.sampling.draft_tokens, drafter.room)):
        if number:
            logits = drafter.logits()
        q = text.distribution(logits[0, -1], ahead)
        ahead.append(draw(q, text.uniform("draft", number)))
        found.append((ahead[-1], q))
        drafter.append(ahead[-1:])
        if text.rules.ends[ahead[-1]]:
            break
    return found
