"""A context that adapts: it grows while a longer view improves the predictions, and shrinks while it does not.

VSLA's plan ("VSLA 1B Parameter Transformer Architecture Analysis", 2025) multiplies the context by 1.5 where the text
is complex and by 0.8 where it is simple. It measures perplexity, entropy, the diversity of attention and the norm of
the gradient, and compares the entropy with a threshold. But entropy is high early in training, where no context helps,
and low at the end, where it does. So here each measurement but the norm compares the view with its newer half
(`minigrad.adaptive.signals`):

* perplexity and entropy: the need is how much worse and less certain the predictions of the newer half are. Above 1%
  the context grows, below 0.5% it shrinks.
* diversity of attention: the context does not shrink while the newer half alone has attention that is narrower by
  more than 0.005. With random weights it is narrower by 0.001 to 0.002: scores that vary by chance take away a smaller
  share of the entropy of more keys.
* norm of the gradient: the context does not grow while the norm is more than twice its usual value.

The need is averaged over about a thousand tokens, and two measurements in a row must agree, so the context does not
swing. Every decision is a function of the measurements before it, and is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from minigrad.adaptive.signals import Signals, measure
from minigrad.errors import InputError
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout
from minigrad.options import REQUIRED, option

TOKENS_BETWEEN = 32  # generated tokens between two decisions, at least
GROW, SHRINK = 1.5, 0.8
GROW_ABOVE, SHRINK_BELOW = 0.01, 0.005
_NARROWER = 0.005  # a loss of diversity
_PATIENCE = 2  # measurements in a row that ask for the same
_MEMORY = 1_024  # tokens over which the need is averaged
_SMALLEST_SHARE = 8  # of the largest context
_CALM = 2.0  # times the usual norm of the gradient
_NORM_SHARE = 0.02  # of the newest norm in the usual one

_LONGEST = 2**31


@dataclass(frozen=True)
class Decision:
    """The measurement at one place, and the context that was chosen there."""

    place: int = option(REQUIRED, "the training step, or the number of tokens of the text", at_least=0)
    before: int = option(REQUIRED, "the context before", at_least=1, at_most=_LONGEST)
    context: int = option(REQUIRED, "the context from here on", at_least=1, at_most=_LONGEST)
    need: float = option(REQUIRED, "what hiding the farther half of the context costs, averaged")
    perplexity: float = option(REQUIRED, "of the tokens measured", at_least=0)
    entropy: float = option(REQUIRED, "of the predictions, in nats")
    diversity: float | None = option(REQUIRED, "how far attention is spread out, 0 to 1; None if not measured")
    gradient_norm: float | None = option(REQUIRED, "of the last step; None in generation")


@dataclass
class AdaptiveContext:
    """The context in use, its bounds, and everything that the next decision depends on."""

    smallest: int = option(REQUIRED, "tokens", at_least=1, at_most=_LONGEST)
    largest: int = option(REQUIRED, "tokens", at_least=1, at_most=_LONGEST)
    current: int = option(REQUIRED, "tokens", at_least=1, at_most=_LONGEST)
    need: float = option((GROW_ABOVE + SHRINK_BELOW) / 2, "averaged over the last measurements")
    wish: int = option(0, "measurements in a row that asked to grow, or, negative, to shrink")
    gradient_norm: float | None = option(None, "of the last step")
    usual_norm: float | None = option(None, "average of the norm of the gradient")
    decisions: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        if not self.smallest <= self.current <= self.largest:
            raise InputError(f"the context must lie between {self.smallest} and {self.largest}, not be {self.current}")

    @classmethod
    def up_to(cls, largest: int, *, begin: float = 1.0) -> AdaptiveContext:
        """Return a context between an eighth of `largest` and `largest`, which begins with the share `begin` of it.

        >>> AdaptiveContext.up_to(256, begin=0.25).current
        64
        """
        smallest = max(min(2, largest), largest // _SMALLEST_SHARE)
        return cls(smallest, largest, max(smallest, int(begin * largest)))

    def note_norm(self, norm: float) -> None:
        """Note the norm of the gradient of a training step."""
        before = norm if self.usual_norm is None else self.usual_norm
        self.gradient_norm, self.usual_norm = norm, before + _NORM_SHARE * (norm - before)

    def decide(self, place: int, signals: Signals) -> Decision:
        """Choose the context from `place` on; the decision is appended to `decisions`."""
        share = min(1.0, signals.tokens / _MEMORY)
        self.need += share * (signals.need - self.need)
        asked = self._asked(signals)
        self.wish = asked * (1 + (abs(self.wish) if asked * self.wish > 0 else 0))
        before = self.current
        if abs(self.wish) >= _PATIENCE:
            factor = GROW if asked > 0 else SHRINK
            self.current = min(max(int(before * factor), self.smallest), self.largest)
            self.wish = 0
        diversity = None if math.isnan(signals.diversity) else signals.diversity
        measured = (self.need, signals.perplexity, signals.entropy, diversity, self.gradient_norm)
        self.decisions.append(Decision(place, before, self.current, *measured))
        return self.decisions[-1]

    def _asked(self, signals: Signals) -> int:
        """Return 1 to grow, -1 to shrink, 0 to stay."""
        is_calm = self.gradient_norm is None or self.gradient_norm <= _CALM * (self.usual_norm or 0.0)
        if self.need > GROW_ABOVE:
            return 1 if is_calm else 0
        if self.need < SHRINK_BELOW:
            return 0 if signals.diversity_gain > _NARROWER else -1
        return 0


class AdaptiveView:
    """How much of one text the model sees while it writes: what the cache holds, whatever windows its layers have."""

    def __init__(self, context: AdaptiveContext, length: int) -> None:
        """Take the context, and the present length of the text.

        The first decision comes at least `TOKENS_BETWEEN` tokens later.
        """
        self.context, self._decided = context, length

    @property
    def limit(self) -> int:
        """The number of tokens that the cache may hold."""
        return self.context.current

    def read(self, model: LanguageModel, text: Sequence[int], held: int) -> None:
        """Measure what the farther half of the view tells, if it is nearly full and some tokens are new; decide.

        The newest `held` tokens of the text are in the view.
        """
        held = min(held, model.config.context_length + 1)
        if len(text) < self._decided + TOKENS_BETWEEN or 4 * held < 3 * self.context.current:
            return
        self._decided = len(text)
        seen = np.array(text[-held:])
        if signals := measure(model, seen[:-1], seen[1:], Layout.packed([held - 1]), held - 1):
            self.context.decide(len(text), signals)
