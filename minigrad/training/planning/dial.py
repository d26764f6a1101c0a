"""The dial: which size is best for a given time, on a machine of a known speed, for a text of a known length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minigrad.data.corpus import DEFAULT
from minigrad.nn.language_model import LanguageModel
from minigrad.system.units import format_estimate, format_seconds
from minigrad.training.optimizers import parameters_in_layers, update_flops_per_token
from minigrad.training.parallel import num_replicas
from minigrad.training.planning import costs, scaling
from minigrad.training.planning.choices import (
    CONTEXT,
    MOST_PASSES,
    TOKENS_PER_STEP,
    WITH_SOURCE,
    choose_optimizer,
    expected_tokens,
)
from minigrad.training.settings import OptimisationSettings, TrainConfig

BYTES_PER_TOKEN = 3.2
"""Of a text that is not encoded yet: measured with 4,096 tokens on python-docs; with 8,192 it is 3.5."""

_DAY, _TRIAL = 86_400, 60.0  # seconds; no forecasts for trials of less than a minute
_EARLY = 0.5  # of the time: after this a size must already be the best
_MEASURED = (("vidya-v2", DEFAULT, None), ("vidya-v2", WITH_SOURCE, DEFAULT))  # a family, a text, what is held out
_OPTIMAL = 20  # tokens for each parameter: Hoffmann et al. 2022, arXiv 2203.15556


@dataclass(frozen=True)
class Dial:
    """The sizes to choose from, smallest first; the speed of the machine, and the bytes to train on.

    A mixture has the bytes of a single text that would be read as often (`minigrad.data.shares`).
    """

    candidates: Mapping[str, LanguageModel]
    rates: costs.Rates
    text_bytes: float
    goal: tuple[str, LanguageModel] | None = None  # a larger size, with its name; the plan says how long it takes
    processes: int = 1  # each takes a batch of its own
    may_add_source: bool = False  # source code joins the text where it would be read too often

    @property
    def unique_tokens(self) -> float:
        """An estimate of the number of tokens of the text, or of one that would be read as often as a mixture."""
        return max(self.text_bytes / BYTES_PER_TOKEN, 1.0)

    def speed(self, model: LanguageModel) -> float:
        """Return the estimated tokens per second of training, with the usual context, batch and optimizer."""
        optimizer = choose_optimizer(model, TOKENS_PER_STEP, CONTEXT)
        update = update_flops_per_token(optimizer, model, TOKENS_PER_STEP)
        replicas = num_replicas(model, TOKENS_PER_STEP // CONTEXT, CONTEXT)
        return costs.tokens_per_second(model, CONTEXT, self.rates, update, replicas)

    def after(self, size: str, tokens: float) -> scaling.ExpectedLoss:
        """Return what the law expects of a size after training on `tokens` tokens."""
        return scaling.predict(parameters_in_layers(self.candidates[size]), tokens, self.unique_tokens)

    def best(self, seconds: float) -> str:
        """Return the size for `seconds` of training, among the measured sizes that `is_fit` allows.

        It has the lowest expected loss after half of that time: a smaller model writes faster, and is further along if
        the computer slows down, so a size that gets ahead only near the end is not chosen. Nor is one that is larger
        than all measured ones: how much such a size gains, the law does not know.
        """
        sizes = [size for size in self.candidates if self.is_fit(size) and self.is_measured(size)]

        def loss(size: str) -> float:
            return self.after(size, _EARLY * seconds * self.speed(self.candidates[size])).loss

        return min(sizes or list(self.candidates)[:1], key=loss)

    def is_measured(self, size: str) -> bool:
        """Whether this size, or a larger one, was measured; the sizes of the families differ a little."""
        return parameters_in_layers(self.candidates[size]) <= scaling.NEAR * scaling.LARGEST

    def is_fit(self, size: str) -> bool:
        """Whether the text is long enough for a size: the law does not know that a model can learn a text by heart."""
        return self.candidates[size].num_parameters() <= scaling.MOST_PARAMETERS * self.unique_tokens

    def choose(self, asked: OptimisationSettings) -> str:
        """Return the size for a run: the best in its minutes.

        For a number of tokens or steps the largest size would always be the best: such a run gets the smallest one that
        no larger size beats in the time that it takes.
        """
        sizes = list(self.candidates)
        if asked.minutes is not None:
            return self.best(60 * asked.minutes)
        return next(size for size in sizes if sizes.index(self.best(self.seconds(asked, size))) <= sizes.index(size))

    def seconds(self, asked: OptimisationSettings, size: str) -> float:
        """Return the time that a run of a size takes."""
        speed = self.speed(self.candidates[size])
        return expected_tokens(asked, speed, self.processes) / speed

    def passes(self, asked: OptimisationSettings) -> float:
        """Return how often a run reads the text, with the size that is chosen for it."""
        speed = self.speed(self.candidates[self.choose(asked)])
        return expected_tokens(asked, speed, self.processes) / self.unique_tokens

    def rows(self, settings: TrainConfig) -> dict[str, str]:
        """Return the rows that say why a size was chosen, if there was a choice, and what more time would buy.

        The losses are those of the family and of the texts in `_MEASURED`: for others the law has only the order of
        the sizes.
        """
        if len(self.candidates) == 1:
            return {}
        seconds = self.seconds(settings, settings.size)
        is_usual = not settings.set and settings.teacher is None and settings.optimizer != "sgd"
        is_known = is_usual and (settings.model, settings.data, settings.held_out) in _MEASURED
        rows = {"size": self._reason(settings.size, seconds, is_known)}
        if seconds >= _TRIAL:
            more = [self._later(each * seconds, is_known) for each in (2, 10)]
            if self.goal:
                name, model = self.goal
                days = format_estimate(_OPTIMAL * model.num_parameters() / self.speed(model) / _DAY)
                why = "as published for large models, far beyond the measured range"
                advice = f"for {_OPTIMAL} new tokens for each parameter {why}"
                more.append(f"compute-optimal {name} on this machine: {days} days, {advice}")
            rows["more time"] = "; ".join(more)
        return rows

    def _reason(self, chosen: str, seconds: float, is_known: bool) -> str:
        reason = f"{chosen} is the best for this time by the scaling law of vidya-v2 on python-docs"
        if is_known:
            losses = {size: self.after(size, seconds * self.speed(model)) for size, model in self.candidates.items()}
            others = ", ".join(
                f"{size} {each.loss:.2f}{'' if self.is_measured(size) else ' (never measured)'}"
                for size, each in losses.items()
                if size != chosen
            )
            is_lowest = all(losses[chosen].loss <= each.loss or not self.is_fit(size) for size, each in losses.items())
            verdict = "the best" if is_lowest else "chosen"
            reason = f"{chosen} is {verdict} for this time: {losses[chosen]} bits per byte by the scaling law; {others}"
            if not is_lowest:
                reason += " (a larger size must be ahead after half of the time, and must have been measured)"
        if unfit := [size for size in self.candidates if not self.is_fit(size)]:
            text = f"a text that counts as {format_estimate(self.unique_tokens)} tokens"
            reason += f"; {text} is too short for {' and '.join(unfit)}, which would learn it by heart"
        return reason

    def _later(self, seconds: float, is_known: bool) -> str:
        """Return which size is the best after `seconds`, with its loss, and how often it reads the text."""
        size = self.best(seconds)
        tokens = seconds * self.speed(self.candidates[size])
        passes = tokens / self.unique_tokens
        if self.may_add_source and passes > MOST_PASSES:
            return f"{format_seconds(seconds)}: {size}, and source code would join the text"
        loss = f" {self.after(size, tokens)}," if is_known else ""
        return f"{format_seconds(seconds)}: {size},{loss} {passes:.1f} passes over the text"
