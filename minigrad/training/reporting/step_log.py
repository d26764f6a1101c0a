"""The log of the steps: metrics, progress, and the speed of training."""

from __future__ import annotations

import contextlib
import textwrap
from collections.abc import Iterator
from typing import Self

import numpy as np

from minigrad.evaluate.losses import Score
from minigrad.system import hardware
from minigrad.system.signals import BROKEN_PIPE, StopRequest
from minigrad.system.terminal import close_output, fold_blank_lines
from minigrad.training.folder.state import Totals
from minigrad.training.reporting.metrics import FIELDS, Measurement, Metrics
from minigrad.training.reporting.progress import Progress
from minigrad.training.run import Run


class StepLog:
    """The metrics and the progress of a run. If the reader of the output closes it, the run is asked to stop."""

    def __init__(self, run: Run, request: StopRequest) -> None:
        self.run, self.request = run, request
        # Only the first process writes.
        self.metrics = Metrics(run.folder.path, resume_step=run.step) if run.world.rank == 0 else None
        self.progress = Progress(run.budget.steps)
        self._logged = run.pace.seconds_of_steps  # at the last line; evaluations, samples and checkpoints do not count

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.close()

    def decide_steps(self) -> None:
        """Let the budget fix the number of steps if the learning rate should begin to decay now."""
        if self.run.choose_steps():
            self.progress.set_total(self.run.budget.steps)

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Return a context that measures one step, which must advance `run.step`, and then moves the bar."""
        with self.run.pace.step():
            yield
        with self._stopping_when_nobody_reads():
            self.progress.advance(self.run.step, **self._time())

    def write(self, learning_rate: float, gradient_norm: float, score: Score | None) -> None:
        """Append a line to metrics.jsonl and show it.

        Loss, bits per byte and tokens per second are those of the steps since the last line; `gradient_norm` is the
        norm before clipping, `score` the evaluation of the validation text, if there was one. Raises RunError if the
        line cannot be written, or if the folder of the run was removed.
        """
        run, totals = self.run, self.run.totals
        notes = [guest.note(run) for guest in run.guests]
        values = dict(run.workers.measurements()) | {k: value for note in notes for k, value in note.values.items()}
        tokens = run.tokens_before(run.step)
        new_tokens = tokens - run.tokens_before(run.step - int(totals.steps))
        measured = Measurement(
            step=run.step,
            tokens=tokens,
            loss=totals.mean_loss,
            bits_per_byte=totals.bits_per_byte,
            learning_rate=learning_rate,
            gradient_norm=gradient_norm,
            seconds=run.seconds(),
            tokens_per_second=new_tokens / max(run.pace.seconds_of_steps - self._logged, 1e-9),
            memory_bytes=hardware.memory_bytes(),
            val_loss=score.loss if score else None,
            val_bits_per_byte=score.bits_per_byte if score else None,
            val_loss_repeated=score.loss_repeated if score else None,
            val_loss_others=score.loss_others if score else None,
            **{name: values.pop(name) for name in FIELDS & values.keys()},
            of_family=values,
        )
        run.totals, self._logged = Totals(), run.pace.seconds_of_steps
        if self.metrics is not None:
            run.folder.check()
            self.metrics.append(measured)
        with self._stopping_when_nobody_reads():
            flops_per_second = measured.tokens_per_second * run.plan.flops_per_token(run.context)
            self.progress.log(measured, matmul_share=flops_per_second / run.plan.rates.products, **self._time())
            for note in notes:
                for sentence in note.sentences:
                    self.progress.say(sentence)

    def _time(self) -> dict[str, float]:
        """Return the seconds that are left and the share of the budget that is used."""
        run = self.run
        left = run.budget.seconds_left(run.step, run.seconds_for_steps(), run.seconds_per_step())
        return {"seconds_left": left, "time_share": run.budget.share(run.step, run.seconds())}

    def stop_code(self) -> int | None:
        """Return the exit code if any process was asked to stop, the same in all, else None."""
        codes = np.zeros(self.run.world.size, int)
        codes[self.run.world.rank] = self.request.code or 0
        self.run.world.add(codes)
        return int(codes.max()) or None

    def show_sample(self, sample: str) -> None:
        """Show a text that the model generated."""
        indented = textwrap.indent(fold_blank_lines(sample), "    | ", predicate=lambda line: True)
        with self._stopping_when_nobody_reads():
            self.progress.say(f"what it writes after {self.run.step:,} steps:\n{indented}")

    @contextlib.contextmanager
    def _stopping_when_nobody_reads(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            close_output()
            self.request.code = BROKEN_PIPE
