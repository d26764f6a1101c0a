"""The guests of a run: an average of its weights, a context that adapts, and the load of experts in its report."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping
from typing import Any

from minigrad.adaptive.context import AdaptiveContext
from minigrad.adaptive.signals import measure
from minigrad.data.tokens.batches import Batch
from minigrad.errors import InputError
from minigrad.experts import load, mixtures
from minigrad.formats.typed import read_dataclass
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import WeightAverage
from minigrad.training.folder import metrics
from minigrad.training.run import Finding, Guest, Note, Run
from minigrad.training.settings import RunSettings
from minigrad.typing import Arrays

STEPS_BETWEEN = 25  # steps between decisions on an adaptive context, which cost about half a step each


class Averaging(Guest):
    """The average of the weights after each step, which is evaluated and written in their place."""

    def __init__(self, decay: float) -> None:
        self.decay = decay

    def attach(self, run: Run) -> None:
        """Begin with the first weights."""
        self.average = WeightAverage(run.model.parameters(), self.decay)

    def after_step(self, run: Run, norm: float) -> None:
        """Let the weights count."""
        self.average.update(run.step)

    def evaluating(self, run: Run) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the weights are their averages."""
        return self.average.in_place() if run.step else contextlib.nullcontext()

    def arrays(self, run: Run) -> Arrays:
        """Return the averages, named as in "norm.weight.average"."""
        names = (name for name, each in run.model.named_parameters() if each.requires_grad)
        return {f"{name}.average": array for name, array in zip(names, self.average.values(), strict=True)}

    def published(self, weights: Arrays, kept: Arrays) -> Arrays:
        """Return the averages of the weights that have one."""
        return {name: kept.get(f"{name}.average", array) for name, array in weights.items()}


class Adapting(Guest):
    """A context that grows while a longer one improves the predictions, and shrinks while it does not."""

    name = "context"

    def __init__(self, largest: int) -> None:
        self.context = AdaptiveContext.up_to(largest, begin=0.25)

    def before_step(self, run: Run) -> None:
        """Every few steps, let the context adapt to what it tells about the text of this step."""
        if run.step and run.step % STEPS_BETWEEN == 0:
            batch = self.change(run.read())
            found = measure(run.model, batch.tokens, batch.targets, batch.layout, self.context.current)
            if signals := run.world.share(found):  # another processor may round differently
                self.context.decide(run.step, signals)
        run.context = self.context.current

    def change(self, batch: Batch) -> Batch:
        """Return the batch with its sequences cut to the context."""
        return batch.cut(self.context.current)

    def after_step(self, run: Run, norm: float) -> None:
        """Note the norm: while it is unusual, the context does not grow."""
        self.context.note_norm(norm)

    def note(self, run: Run) -> Note:
        """Return the context, and the decisions since the last line."""
        decisions, self.context.decisions = self.context.decisions, []
        changes = [each for each in decisions if each.context != each.before]
        values: dict[str, Any] = {"context": self.context.current}
        if decisions:
            values["decisions"] = [dataclasses.asdict(each) for each in decisions]
        said = [f"context: {each.before:,} -> {each.context:,} tokens from step {each.place:,} on" for each in changes]
        return Note(values, said)

    def state(self) -> Any:
        """Return everything on which the next decision depends."""
        return dataclasses.asdict(self.context)

    def restore(self, state: Any) -> None:
        """Continue with the context of a checkpoint."""
        found = read_dataclass(AdaptiveContext, state, "context", complete=True)
        if found.largest != self.context.largest:
            raise InputError(f"context.largest is {found.largest}, and that of this run {self.context.largest}")
        self.context = found


class Loads(Guest):
    """Draws the load of the experts in the report."""

    def examine(self, run: Run) -> Finding:
        """Return the section of the report."""
        lines = metrics.read(run.folder.path)
        return Finding(load.section(lines), {}, "", drawn=load.measured(lines))


def guests_of(settings: RunSettings, model: LanguageModel) -> list[Guest]:
    """Return the guests that the settings ask for, or that the modules of the model need."""
    found: list[Guest] = [Loads()] if mixtures(model) else []
    if settings.adaptive_context:
        found.append(Adapting(settings.context))
    if settings.ema is not None:
        found.append(Averaging(settings.ema))
    return found


def plan_rows(settings: RunSettings) -> Mapping[str, str]:
    """Return the rows that the guests add to a plan."""
    if not settings.adaptive_context:
        return {}
    found = Adapting(settings.context).context
    bounds = f"adapts between {found.smallest:,} and {found.largest:,} tokens, and begins with {found.current:,}"
    return {"context": f"{bounds}; memory and speed are those of the largest"}
