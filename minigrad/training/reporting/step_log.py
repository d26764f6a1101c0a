"""The log of the steps: metrics, progress, and the speed of training."""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Iterator
from typing import Any, Self, TextIO

import numpy as np

from minigrad.evaluate.losses import Score
from minigrad.system import forks, hardware
from minigrad.system.files import reason
from minigrad.system.signals import BROKEN_PIPE, StopRequest
from minigrad.system.terminal import close_output, fold_blank_lines, printable, say, to_standard_error
from minigrad.system.units import format_seconds, plural
from minigrad.training.folder.checkpoint import Totals
from minigrad.training.folder.metrics import FIELDS, VALIDATION, Measurement, Metrics
from minigrad.training.run import Run, joined

_CLOSED = (errno.EPIPE, errno.EIO)  # of a pipe, or a terminal, whose reader is gone
_COLUMNS = {
    "step": 17,
    "loss": 6,
    "bits/byte": 10,
    "validation": 11,
    "lr": 9,
    "tokens/s": 10,
    "peak": 6,
    "time left": 10,
}
"""The columns of the table and their widths, 79 characters together."""

_LEGEND = """\
bits/byte:  bits that the model needs for a byte of the text; lower is better
validation: the same for text that it is not trained on
loss:       the same as bits/byte, in nats per token
lr:         learning rate
peak:       speed as a share of that of matrix products alone
"""


class Progress:
    """Shows how far training is: one line per logged step, above a tqdm bar on a terminal."""

    def __init__(self, total_steps: int | None, stream: TextIO | None = None) -> None:
        """Start on `stream`, by default standard output; `total_steps` may be set later, when they are known."""
        self.total_steps = total_steps
        self.stream = sys.stdout if stream is None else stream
        self.bar: Any = None
        self._has_header = False
        if self.stream.isatty():
            from tqdm import tqdm

            form = "{percentage:3.0f}%|{bar}| {desc}"
            # `miniters` is 0: a step is a small part of the total of 1, and `mininterval` limits how often it redraws.
            self.bar = tqdm(total=1.0, file=self.stream, bar_format=form, dynamic_ncols=True, leave=False, miniters=0)

    def log(self, measured: Measurement, *, matmul_share: float, seconds_left: float, share: float) -> None:
        """Print a line of the table, the first time with its header.

        `matmul_share` is of the machine's rate of matrix products, and `share` of the budget is used.
        """
        if not self._has_header:
            self._has_header = True
            self.say(_LEGEND + _row(dict(zip(_COLUMNS, _COLUMNS, strict=True))))
        validation = measured.val_bits_per_byte
        values = {
            "step": self._place(measured.step) + ("" if self.total_steps else f" ({share:.0%})"),
            "loss": f"{measured.loss:.3f}",
            "bits/byte": f"{measured.bits_per_byte:.3f}",
            "validation": "" if validation is None else f"{validation:.3f}",
            "lr": f"{measured.learning_rate:.1e}",
            "tokens/s": f"{measured.tokens_per_second:,.0f}",
            "peak": f"{matmul_share:.0%}",
            "time left": format_seconds(seconds_left),
        }
        self.advance(measured.step, seconds_left=seconds_left, share=share)
        self.say(_row(values))

    def advance(self, step: int, *, seconds_left: float, share: float) -> None:
        """Move the bar, where there is one, to a share of the budget; it is drawn at most ten times a second."""
        if self.bar is None:
            return
        self.bar.set_description_str(f"step {self._place(step)}  {format_seconds(seconds_left)} left", refresh=False)
        self.bar.update(share - self.bar.n)

    def _place(self, step: int) -> str:
        return f"{step:,}/{self.total_steps:,}" if self.total_steps else f"{step:,}"

    def say(self, text: str) -> None:
        """Print `text`, above the bar where there is one; characters that the stream cannot show are replaced."""
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        safe = printable(text).encode(encoding, "replace").decode(encoding)
        if self.bar is None:
            say(safe, self.stream)
        else:
            self.bar.write(safe, file=self.stream)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        if self.bar is not None:
            self.bar.close()


def _row(values: dict[str, str]) -> str:
    """Return a line of the table; the first column is aligned left, the others right."""
    first, *others = _COLUMNS.items()
    return f"{values[first[0]]:<{first[1]}}" + "".join(f"{values[name]:>{width}}" for name, width in others)


class StepLog:
    """The metrics and the progress of a run. If the reader of the output closes it, the run is asked to stop."""

    def __init__(self, run: Run, request: StopRequest) -> None:
        self.run, self.request = run, request
        self.metrics = Metrics(run.folder.path, run.step) if run.world.rank == 0 else None  # only the first writes
        self.progress = Progress(run.budget.steps)
        # At the last line, or where this process began; evaluations, samples and checkpoints do not count.
        self._logged, self._logged_step = run.pace.seconds_of_steps, run.step

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.progress.close()

    def decide_steps(self) -> None:
        """Let the budget fix the number of steps if the learning rate should begin to decay now."""
        if self.run.choose_steps():
            self.progress.total_steps = self.run.budget.steps

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Return a context that measures one step, which must advance `run.step`, and then moves the bar."""
        with self.run.pace.step():
            yield
        with self._stopping_if_output_fails():
            self.progress.advance(self.run.step, **self._time())

    def write(self, learning_rate: float, gradient_norm: float, score: Score | None) -> None:
        """Append a line to metrics.jsonl, with the `score` of an evaluation, and show it.

        Raises RunError if the line cannot be written, or if the folder of the run was removed; InputError if a guest
        takes a name that the line has already.
        """
        run, totals = self.run, self.run.totals
        notes = [guest.note(run) for guest in run.guests]
        measured_by = [run.workers.measurements(), *(note.values for note in notes)]
        refusal = "a line of metrics.jsonl has another {} already: give what a guest notes another name"
        tokens = run.plan.tokens_before(run.step)
        new_tokens = tokens - run.plan.tokens_before(self._logged_step)
        measured = Measurement(
            step=run.step,
            tokens=tokens,
            loss=totals.mean_loss,
            bits_per_byte=totals.bits_per_byte,
            learning_rate=learning_rate,
            gradient_norm=gradient_norm,
            seconds=run.seconds(),
            tokens_per_second=new_tokens / max(run.pace.seconds_of_steps - self._logged, 1e-9),
            memory_bytes=hardware.memory_bytes() + forks.memory_bytes_of_all(),
            **({f"val_{name}": getattr(score, name) for name in VALIDATION} if score else {}),
            extra=joined(measured_by, FIELDS, refusal),
        )
        run.totals, self._logged, self._logged_step = Totals(), run.pace.seconds_of_steps, run.step
        if self.metrics is not None:
            run.folder.check()
            self.metrics.append(measured)
        with self._stopping_if_output_fails():
            flops_per_second = measured.tokens_per_second * run.plan.flops_per_token(run.context)
            self.progress.log(measured, matmul_share=flops_per_second / run.plan.rates.products, **self._time())
            for note in notes:
                for sentence in note.sentences:
                    self.progress.say(sentence)

    def _time(self) -> dict[str, float]:
        """Return the seconds that are left and the share of the budget that is used."""
        run = self.run
        left = run.budget.seconds_left(run.step, run.seconds_for_steps(), run.seconds_per_step())
        return {"seconds_left": left, "share": run.budget.share(run.step, run.seconds())}

    def stop_code(self) -> int | None:
        """Return the exit code if any process was asked to stop, the same in all, else None."""
        codes = np.zeros(self.run.world.size, int)
        codes[self.run.world.rank] = self.request.code or 0
        self.run.world.add(codes)
        return int(codes.max()) or None

    def show_sample(self, sample: str) -> None:
        """Show a text that the model generated."""
        # Other characters may end lines too, but not on the terminal once they are printable.
        indented = "\n".join(f"    | {line}" for line in fold_blank_lines(printable(sample)).split("\n"))
        with self._stopping_if_output_fails():
            self.progress.say(f"what it writes after {plural(self.run.step, 'step')}:\n{indented}")

    @contextlib.contextmanager
    def _stopping_if_output_fails(self) -> Iterator[None]:
        """Return a context in which output that cannot be written asks the run to save and stop."""
        try:
            yield
        except OSError as error:
            if error.errno not in _CLOSED:
                to_standard_error(f"standard output cannot be written: {reason(error)}; the run saves and stops")
            close_output()
            self.request.code = self.request.code or BROKEN_PIPE
