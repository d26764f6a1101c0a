"""A run in progress: its model and text, its step, and its checkpoints."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable

import numpy as np

from minigrad.adaptive.signals import measure
from minigrad.autograd.graph import no_grad
from minigrad.autograd.profile import Profile
from minigrad.autograd.tensor import Tensor
from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.reading import training_source
from minigrad.data.tokens.source import Spans
from minigrad.distributed.pipeline import Pipeline
from minigrad.errors import RunError
from minigrad.evaluate.losses import BATCH_TOKENS, Score
from minigrad.evaluate.sequences import evaluation_batches
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import Optimizer, WeightAverage
from minigrad.system.terminal import phase
from minigrad.training import optimizers
from minigrad.training.best import Best, is_best
from minigrad.training.budget import Budget
from minigrad.training.divergence import first_anomaly
from minigrad.training.folder import checkpoint
from minigrad.training.folder.background import Writer
from minigrad.training.folder.checkpoint import Checkpoint
from minigrad.training.folder.run_folder import RunFolder
from minigrad.training.folder.saving import check_equal_weights, restore_run, save_best, save_run
from minigrad.training.folder.state import Sample
from minigrad.training.pace import Pace
from minigrad.training.parallel import Replicas
from minigrad.training.planning.plan import Plan
from minigrad.training.reporting import samples
from minigrad.training.reporting.scores import score as score_of
from minigrad.training.reporting.scores import spans_of
from minigrad.training.totals import Totals

_QUICK_EVALUATION = 16_384  # validation tokens read during training; at the end all are
_REPORT_SECONDS = 0.5  # to write the report, and to end the process
ADAPT_EVERY = 25  # steps between decisions on an adaptive context, which cost about half a step each


class Run:
    """A model in training. A checkpoint holds everything on which the next step depends."""

    def __init__(
        self, plan: Plan, folder: RunFolder, optimizer: Optimizer, budget: Budget, clock: Callable[[], float]
    ) -> None:
        self.plan, self.settings, self.text, self.world = plan, plan.settings, plan.text, plan.world
        self.model: LanguageModel = plan.model
        self.folder, self.optimizer, self.budget = folder, optimizer, budget
        self.clock = clock  # seconds since this process began
        self.pace = Pace(lambda: self.clock())
        self.seconds_before = 0.0  # used by the processes that this one continues
        self.step = 0
        self.totals = Totals()  # since the last line of metrics
        self.samples: list[Sample] = []
        self.adaptive = plan.adaptive_context()
        self.score: Score | None = None  # on all validation text, once the last step is done
        self.best: Best | None = None  # the best quick evaluation so far
        self.last: Best | None = None  # the last quick evaluation
        decay = plan.settings.ema
        self.average = None if decay is None else WeightAverage(self.model.parameters(), decay)
        self.pipeline = Pipeline(self.model, self.world, self.settings.seed) if plan.in_stages else None
        self.writer = Writer()
        self.profile = Profile() if plan.settings.profile else None  # of the steps, if wanted
        self._last_checked_step: int | None = None  # the step after which the weights were found to be finite

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

    def tokens_before(self, step: int) -> int:
        """Return the number of tokens that the steps before `step` read."""
        size = self.settings.batch * self.settings.accumulate
        return self.plan.source.tokens_before(step, seed=self.settings.seed, batch_size=size)

    @functools.cached_property
    def validation(self) -> Spans:
        """The validation text, as spans to evaluate."""
        return spans_of(self, self.text.validation)

    @functools.cached_property
    def replicas(self) -> Replicas:
        """The model and its replicas, which train at the same time."""
        return Replicas(self.model, self.plan.num_replicas, self.settings.seed)

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
            self.fix_steps()
        return chosen

    def fix_steps(self) -> None:
        """Write down the number of steps that the clock chose, before it takes effect."""
        self.folder.fix_steps(self.budget.decay)

    def seconds_per_step(self) -> float:
        """Estimate the seconds of each step to come, with its part of evaluations, samples and checkpoints."""
        settings, steps = self.settings, self.budget.steps
        every = {"evaluation": settings.eval_every, "sample": settings.sample_every, "save": settings.save_every}
        return self.pace.seconds_per_step(steps - self.step if steps else self.step // 4, every)

    def seconds_for_steps(self) -> float:
        """Return the seconds of the budget that are left for steps.

        The rest is for the evaluation of all validation text, the test, the last checkpoint and sample, and the report.
        """
        # A token costs a third of one in training.
        guess = BATCH_TOKENS * self.pace.seconds_per_step(1, {}) / (3 * self.settings.tokens_per_step)
        tokens = self.plan.tokens_at_end + (_QUICK_EVALUATION if self._evaluates_twice else 0)
        batches = math.ceil(tokens / BATCH_TOKENS)
        after = batches * self.pace.seconds_of("evaluated batch", guess)
        after += self.pace.seconds_of("sample", 1.0) + self.pace.seconds_of("save", 0.5) + _REPORT_SECONDS
        after += self.plan.seconds_to_write
        return (self.budget.seconds or 0.0) - self.seconds() - after

    @property
    def context(self) -> int:
        """The tokens of the longest sequence in the step about to be taken."""
        return self.adaptive.current if self.adaptive else self.settings.context

    def batch(self) -> Batch:
        """Return the inputs and targets of all parts of the step about to be taken."""
        settings, source = self.settings, self.plan.source
        batch = source.batch(seed=settings.seed, step=self.step, batch_size=settings.batch * settings.accumulate)
        return batch.cut(self.context) if self.adaptive else batch

    def own_parts(self, batch: Batch) -> list[Batch]:
        """Return this process's micro-batches of a step; a stage of a pipeline computes all of them."""
        accumulate, rank, size = self.settings.accumulate, self.world.rank, self.world.size
        if self.pipeline or size == 1:
            return batch.parts(accumulate * size)
        return [share for part in batch.parts(accumulate) for share in part.parts(size)[rank : rank + 1]]

    def adapt_context(self) -> None:
        """Every few steps, let the context adapt to the batch of the step about to be taken."""
        if self.adaptive and self.step and self.step % ADAPT_EVERY == 0:
            batch = self.batch()
            found = measure(self.model, batch.tokens, batch.targets, batch.layout, self.context)
            if signals := self.world.share(found):  # another processor may round otherwise
                self.adaptive.decide(self.step, signals)

    def end_step(self, norm: float) -> None:
        """Count a step; `norm` is the norm of its gradient."""
        if self.adaptive:
            self.adaptive.note_norm(norm)
        self.step += 1
        if self.average:
            self.average.update(self.step)

    def begin(self) -> None:
        """Compile every kernel; if something is taught, first measure how well the model does without.

        Raises RunError if processes begin with different weights, as they do if one has another file of them.
        """
        check_equal_weights(self)
        self.compile_kernels()
        if self.plan.lessons:
            self.plan.lessons.begin(self)

    def compile_kernels(self) -> None:
        """Compile every kernel by a pass over the smallest batch and an update of other weights; ours stay the same."""
        batch = training_source("windows", self.text.train, 2).batch(seed=0, step=0, batch_size=1)
        with phase("loading kernels (new ones are compiled and kept)"):
            if self.pipeline:
                self.pipeline.run([batch], step=0, num_targets=1)
            else:
                self._loss(batch).backward()
            optimizers.compile_update(self.settings)
        self.optimizer.zero_grad()

    def evaluate(self, everything: bool) -> Score:
        """Evaluate on the validation text: all of it, or a quick estimate; raises RunError if training diverged."""
        self.check_weights()
        with self.pace.work("whole evaluation" if everything else "evaluation"), self.averaged():
            score = score_of(self, self.validation, None if everything else _QUICK_EVALUATION)
            quick = (
                score_of(self, self.validation, _QUICK_EVALUATION) if everything and self._evaluates_twice else score
            )
        self.score = score if everything else self.score
        self.last = Best(self.step, quick.bits_per_byte)
        if not self.plan.lessons and (self.best is None or quick.bits_per_byte < self.best.bits_per_byte):
            self.best = self.last
        return score

    @property
    def _evaluates_twice(self) -> bool:
        """Whether the last evaluation reads more than the others, and so is made as these are too, to be compared."""
        return self.plan.evaluated_tokens > _QUICK_EVALUATION

    def write_sample(self) -> str:
        """Generate a text, append it to `samples`, and return it; raises RunError if training diverged."""
        self.check_weights()
        with self.pace.work("sample"), self.averaged():
            sample = samples.write(self.model, self.text, seed=self.settings.seed, step=self.step)
        self.samples.append(Sample(self.step, sample))
        return sample

    def write_what_is_due(self, *, stops: bool) -> None:
        """Write a checkpoint if one is due, or the model if it is the best so far; report a write that failed."""
        self.writer.check()
        if stops or self.is_due(self.settings.save_every):
            self.save(wait=stops or self.is_finished)
        elif is_best(self.best, self.step):
            save_best(self)

    def save(self, *, wait: bool = True) -> None:
        """Write a checkpoint and the model (`save_run`); `wait`, or let training go on while they are written.

        Raises RunError if training diverged, if processes have different weights, or if these files, or those of an
        earlier call, cannot be written; the earlier checkpoint is then intact.
        """
        with self.pace.work("save"):
            self.check_weights()
            save_run(self)
            if wait:
                self.writer.wait()

    def averaged(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the weights are their averages, if the run has these."""
        return self.average.in_place() if self.average and self.step else contextlib.nullcontext()

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint; raises InputError if it does not fit the model."""
        restore_run(self, saved)
        self._last_checked_step = None

    def check_weights(self) -> None:
        """Raise RunError if the weights, or the loss that they give, are not finite; such weights must not be saved.

        The check is cached until the next step: an evaluation, a sample and a checkpoint share it.
        """
        if self._last_checked_step == self.step:
            return
        if self.pipeline:  # it has had the newest weights of its own layers only
            self.optimizer.complete()
        for name, parameter in self.model.named_parameters():
            if not np.isfinite(parameter.data).all():
                raise self.divergence(f"{name} holds numbers that are not finite")
        one = next(evaluation_batches(self.validation, context=self.settings.context))
        with no_grad(), np.errstate(all="ignore"):
            if not math.isfinite(self._loss(one).item()):
                raise self.divergence(self.first_anomaly(lambda: self._loss(one)))
        self._last_checked_step = self.step

    def _loss(self, batch: Batch) -> Tensor:
        return self.model.loss(batch.tokens, batch.targets, layout=batch.layout, weights=batch.weights)

    def first_anomaly(self, repeat: Callable[[], object]) -> str:
        """Repeat the work of a step with every operation checked; name the first that made a NaN or an infinity."""
        return first_anomaly(self, repeat)

    def divergence(self, what: str) -> RunError:
        """Return the error of a run that diverged; `what` names the place."""
        return RunError(
            f"training diverged at step {self.step + 1}: {what}. This step was not kept; "
            f"{self.describe_last_checkpoint()}. A smaller --lr or a longer --warmup usually helps."
        )

    def describe_last_checkpoint(self) -> str:
        """Describe the last checkpoint, which survives a failure now."""
        self.writer.join()  # the newest checkpoint may still be on its way
        saved = checkpoint.steps(self.folder.path)
        return f"the checkpoint of step {saved[-1]} is intact" if saved else "no checkpoint was saved yet"
