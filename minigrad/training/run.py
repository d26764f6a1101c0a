"""A run in progress, and the moments of it that a guest can follow."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from minigrad.autograd.profile import Profile
from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.reading import spans, training_source
from minigrad.data.tokens.source import Spans
from minigrad.data.tokens.token_files import TokenFile
from minigrad.distributed.pipeline import Pipeline
from minigrad.distributed.world import check_equal
from minigrad.errors import DivergenceError, InputError
from minigrad.evaluate.losses import BATCH_TOKENS, Score
from minigrad.formats.weights import hash_of_arrays
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import Optimizer
from minigrad.system.terminal import phase
from minigrad.training import optimizers
from minigrad.training.budget import Budget, Pace
from minigrad.training.folder import checkpoint
from minigrad.training.folder.checkpoint import QuickEvaluation, Sample, State, Totals
from minigrad.training.folder.run_folder import RunFolder
from minigrad.training.folder.saving import Writer
from minigrad.training.parallel import Replicas
from minigrad.training.planning.plan import Plan
from minigrad.training.workers import workers_of
from minigrad.typing import Array, Arrays

_REPORT_SECONDS = 0.5  # to write the report, and to end the process


class Note(NamedTuple):
    """What a guest adds to a line of the log: values for metrics.jsonl, and sentences printed below the line.

    A value is a number, a list of numbers or a list of objects; the file holds it as it is. No other value may have its
    name.
    """

    values: Mapping[str, Any]
    sentences: Sequence[str] = ()


class Finding(NamedTuple):
    """What a guest found at the end: a section of the report, figures for minigrad.json, and a sentence to print.

    A section or a sentence may be empty. The report does not draw the measurements named in `drawn` a second time.
    """

    section: str
    figures: dict[str, float]
    verdict: str
    drawn: Collection[str] = ()


def joined(parts: Iterable[Mapping[str, Any]], taken: Collection[str], refusal: str) -> dict[str, Any]:
    """Return the values of all parts; raises InputError, which is `refusal` with the name, for a name that is taken."""
    found = dict[str, Any]()
    for name, value in (each for part in parts for each in part.items()):
        if name in found or name in taken:
            raise InputError(refusal.format(repr(name)))
        found[name] = value
    return found


class Guest:
    """Something attached to a run from outside: it overrides the methods of the moments that it needs."""

    name = ""  # of its state in a checkpoint; a guest with a state needs one

    def attach(self, run: Run) -> None:
        """Make what a checkpoint keeps: the model has its first weights, and those of a checkpoint come later."""

    def begin(self, run: Run) -> None:
        """Prepare for the first step of this process.

        The weights are in place, and copies of the model for other threads share them: replace no module here. A run
        that continues has called `restore` and filled the `arrays` before.
        """

    def before_step(self, run: Run) -> None:
        """Prepare for the step that is about to be taken."""

    def change(self, batch: Batch) -> Batch:
        """Return the batch of a step as the model is to read it."""
        return batch

    def after_step(self, run: Run, norm: float) -> None:
        """Follow a step, which `run.step` counts; `norm` is the norm of its gradient before clipping."""

    def evaluating(self, run: Run) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the model is evaluated, writes samples and is examined."""
        return contextlib.nullcontext()

    def note(self, run: Run) -> Note:
        """Return what to add to the line of the log that is about to be written."""
        return Note({})

    def state(self) -> Any:
        """Return what state.json of a checkpoint keeps under `name`; None for nothing."""

    def restore(self, state: Any) -> None:
        """Continue from what `state` returned, read back from JSON; raise InputError if it is damaged."""

    def arrays(self, run: Run) -> Arrays:
        """Return arrays that a checkpoint keeps beside the moments, and fills again when the run continues."""
        return {}

    def published(self, weights: Arrays, kept: Arrays) -> Arrays:
        """Return the weights that are written for other programs; `kept` holds the `arrays` of all guests.

        Both are copies. A thread of its own calls this while training goes on: read nothing that a step changes.
        """
        return weights

    def examine(self, run: Run) -> Finding | None:
        """Judge the model after the last step, inside the context of `evaluating`; every process calls this."""


def check_guests(guests: Iterable[Guest]) -> None:
    """Raise InputError for a guest that has a state and no name of its own: no run could continue from its checkpoints.

    The names in state.json, such as "samples", are those of the run itself.
    """
    taken = {each.name for each in dataclasses.fields(State)}
    for guest in guests:
        if type(guest).state is Guest.state:
            continue
        kind = type(guest).__name__
        if not guest.name:
            raise InputError(f"a guest with a state needs a `name`, under which a checkpoint keeps it: {kind} has none")
        if guest.name in taken:
            raise InputError(f"a checkpoint keeps another state under the name {guest.name!r}: give {kind} another one")
        taken.add(guest.name)


class Run:
    """A model in training. A checkpoint holds everything on which the next step depends.

    Raises InputError for guests whose states could not be kept (see `check_guests`).
    """

    quick_tokens = 16_384  # validation tokens read during training; at the end all are

    def __init__(
        self,
        plan: Plan,
        folder: RunFolder,
        optimizer: Optimizer,
        budget: Budget,
        clock: Callable[[], float],
        guests: Sequence[Guest] = (),
    ) -> None:
        check_guests(guests)
        self.plan, self.settings, self.text, self.world = plan, plan.settings, plan.text, plan.world
        self.model: LanguageModel = plan.model
        self.folder, self.optimizer, self.budget, self.guests = folder, optimizer, budget, guests
        self.clock = clock  # seconds since this process began
        self.pace = Pace(lambda: self.clock())
        self.seconds_before = 0.0  # used by the processes that this one continues
        self.step = 0
        self.context = plan.settings.context  # tokens of the longest sequence of a step
        self.totals = Totals()  # since the last line of metrics
        self.samples: list[Sample] = []
        self.score: Score | None = None  # on all validation text, once the last step is done
        self.best: QuickEvaluation | None = None  # the best quick evaluation so far
        self.last: QuickEvaluation | None = None  # the last quick evaluation
        self.writer = Writer()
        self.profile = Profile() if plan.settings.profile else None  # of the steps, if wanted
        self.checked_step: int | None = None  # the step after which the weights were found to be finite
        for guest in guests:
            guest.attach(self)

    def seconds(self) -> float:
        """Return the seconds used so far, with those of the processes that this one continues."""
        return self.seconds_before + self.clock()

    @property
    def is_finished(self) -> bool:
        """Whether the last step is done."""
        return self.budget.steps is not None and self.step >= self.budget.steps

    def is_due(self, every: int) -> bool:
        """Whether something that is done every `every` steps is done now; after the last step everything is."""
        return self.is_finished or self.step % every == 0

    def spans_of(self, text: TokenFile) -> Spans:
        """Return a text as the run evaluates it."""
        return spans(self.settings.documents, text, self.settings.context)

    @functools.cached_property
    def validation(self) -> Spans:
        """The validation text, as the run evaluates it."""
        return self.spans_of(self.text.validation)

    @functools.cached_property
    def workers(self) -> Replicas | Pipeline:
        """The workers that compute the gradients in this process."""
        return workers_of(self.settings, self.model, self.world)

    def profiled(self) -> contextlib.AbstractContextManager[object]:
        """Return a context that measures a step, if a profile is wanted."""
        return self.profile or contextlib.nullcontext()

    def learning_rate(self) -> float:
        """Return the learning rate of the step about to be taken."""
        return self.budget.learning_rate(self.step, self.settings)

    def choose_steps(self) -> bool:
        """Let the clock of the first process choose the number of steps if it is time to; return whether it did."""
        budget, is_first = self.budget, self.world.rank == 0
        chosen = is_first and budget.decide(self.step, self.seconds_for_steps(), self.seconds_per_step())
        if budget.seconds is not None:
            chosen, budget.steps, budget.decay = self.world.share((chosen, budget.steps, budget.decay))
        if chosen:
            self.folder.fix_steps(budget.decay)
        return chosen

    def seconds_per_step(self) -> float:
        """Estimate the seconds of each step to come, with its part of evaluations, samples and checkpoints."""
        settings, steps = self.settings, self.budget.steps
        every = {"evaluation": settings.eval_every, "sample": settings.sample_every, "save": settings.save_every}
        return self.pace.seconds_per_step(steps - self.step if steps else self.step // 4, every)

    def seconds_for_steps(self) -> float:
        """Return the seconds of the budget that are left for steps, without the evaluations and files at the end."""
        # A token costs a third of one in training, in which each process computes a share of every step.
        guess = self.world.size * BATCH_TOKENS * self.pace.seconds_per_step(1, {}) / (3 * self.settings.tokens_per_step)
        tokens = self.plan.tokens_at_end + (self.quick_tokens if self.evaluates_twice else 0)
        batches = math.ceil(tokens / BATCH_TOKENS / self.world.size)  # of each process
        after = batches * self.pace.seconds_of("evaluated batch", guess)
        after += self.pace.seconds_of("sample", 1.0) + self.pace.seconds_of("save", 0.5) + _REPORT_SECONDS
        after += self.plan.seconds_to_write + self.plan.seconds_for_rivals()
        return (self.budget.seconds or 0.0) - self.seconds() - after

    @property
    def evaluates_twice(self) -> bool:
        """Whether the last evaluation reads more text than the others; then the usual part is evaluated as well."""
        return self.plan.evaluated_tokens > self.quick_tokens

    @property
    def is_best(self) -> bool:
        """Whether the model is the best so far."""
        return self.best is not None and self.best.step == self.step

    def begin(self) -> None:
        """Compile every kernel, and let the guests begin.

        Raises RunError if processes have different weights, InputError as `arrays_of_guests`.
        """
        self.check_equal_weights()
        few = training_source("windows", self.text.train, 2).batch(seed=0, step=0, batch_size=1)
        with phase("loading kernels (new ones are compiled and kept)"):
            self.workers.compile_kernels(few)
            optimizers.compile_update(self.settings)
        self.optimizer.zero_grad()
        for guest in self.guests:
            guest.begin(self)
        self.arrays_of_guests()  # a name that is used twice is refused before the first step

    def arrays_of_guests(self) -> dict[str, Array]:
        """Return the arrays that guests keep in a checkpoint; raises InputError for a name that it has already."""
        found = dict[str, Array]()
        moments = optimizers.named_moments(self.model, self.optimizer)
        taken = {name for name, _ in self.model.named_parameters()}
        taken |= {f"{name}.{kind}" for name, _, kinds in moments for kind in kinds}
        for guest in self.guests:
            refusal = f"a checkpoint has another array called {{}}: rename that of {type(guest).__name__}"
            found |= joined([guest.arrays(self)], taken | found.keys(), refusal)
        return found

    def read(self) -> Batch:
        """Return what the source of the run has for all parts of the step about to be taken."""
        settings, source = self.settings, self.plan.source
        return source.batch(seed=settings.seed, step=self.step, batch_size=settings.batch * settings.accumulate)

    def batch(self) -> Batch:
        """Return the inputs and targets of the step about to be taken: what it reads, as the guests change it."""
        return functools.reduce(lambda changed, guest: guest.change(changed), self.guests, self.read())

    def before_step(self) -> None:
        """Let the guests prepare for the step about to be taken."""
        for guest in self.guests:
            guest.before_step(self)

    def end_step(self, norm: float) -> None:
        """Count a step, and let the guests follow it; `norm` is the norm of its gradient."""
        self.step += 1
        for guest in self.guests:
            guest.after_step(self, norm)

    @contextlib.contextmanager
    def evaluating(self) -> Iterator[None]:
        """Return a context in which the weights are those to evaluate."""
        with contextlib.ExitStack() as contexts:
            for guest in self.guests:
                contexts.enter_context(guest.evaluating(self))
            yield

    def check_equal_weights(self) -> None:
        """Raise RunError if the weights of processes differ: a run would mix two models unnoticed."""
        if self.world.size > 1:
            placed = {name: each.data for name, each in self.model.named_parameters() if each.is_placed}
            last = self.describe_last_checkpoint()
            check_equal(self.world, f"weights after step {self.step:,}", hash_of_arrays(placed), last)

    def divergence(self, what: str, *, is_over: bool = False) -> DivergenceError:
        """Return the error of a run that diverged in the step it takes, or in the last one if that `is_over`."""
        step = self.step if is_over else self.step + 1
        return DivergenceError(
            f"training diverged at step {step:,}: {what}. This step was not kept; "
            f"{self.describe_last_checkpoint()}. A new run with a smaller --lr or a longer --warmup usually helps."
        )

    def describe_last_checkpoint(self) -> str:
        """Describe the last checkpoint, which survives a failure now."""
        self.writer.join()  # the newest checkpoint may still be on its way
        return checkpoint.describe_last(self.folder.path)
