"""What a run shows while it works: one bar on a terminal, plain lines anywhere else.

A log file is read later and by other programs, so it gets no colours and no bar that redraws itself.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO


class Progress:
    """Shows how far training has come: a tqdm bar on a terminal, one line per logged step elsewhere."""

    def __init__(self, total_steps: int | None, stream: TextIO | None = None) -> None:
        """Begin to show on `stream`, by default standard output.

        `total_steps` is None while a budget of minutes has not yet become a number of steps; `log` is then
        told the share of the time that has passed.
        """
        self.total_steps = total_steps
        self.stream = sys.stdout if stream is None else stream
        self.bar: Any = None
        if self.stream.isatty():
            from tqdm import tqdm

            bar_format = "{percentage:3.0f}%|{bar}| {desc}"
            self.bar = tqdm(total=1.0, file=self.stream, bar_format=bar_format, dynamic_ncols=True, leave=False)

    def set_total(self, total_steps: int) -> None:
        """Say how many steps the run will take, once that is known."""
        self.total_steps = total_steps

    def log(
        self,
        *,
        step: int,
        loss: float,
        bits_per_byte: float,
        learning_rate: float,
        tokens_per_second: float,
        matmul_share: float | None = None,
        seconds_left: float | None = None,
        time_share: float = 0.0,
        val_bits_per_byte: float | None = None,
    ) -> None:
        """Show one step: on the bar, or as a line.

        `matmul_share` is the part (0 to 1) of the machine's measured matmul rate that training reaches;
        `time_share` is the part of the time budget that has passed, used until the number of steps is known.
        """
        share = step / self.total_steps if self.total_steps else time_share
        of_total = f"/{self.total_steps:,}" if self.total_steps else f" ({share:.0%} of the time)"
        parts = [f"step {step:,}{of_total}", f"loss {loss:.3f}", f"{bits_per_byte:.3f} bits per byte"]
        if val_bits_per_byte is not None:
            parts.append(f"held-out {val_bits_per_byte:.3f}")
        parts += [f"lr {learning_rate:.2e}", f"{tokens_per_second:,.0f} tokens/s"]
        if matmul_share is not None:
            parts.append(f"{matmul_share:.0%} of matmul rate")
        left = [] if seconds_left is None else [f"{format_seconds(seconds_left)} left"]
        if self.bar is None:
            print("  ".join(parts + left), file=self.stream, flush=True)
        else:
            self.bar.n = min(share, 1.0)
            # The time left goes first here, because a narrow terminal cuts off the end.
            self.bar.set_description_str("  ".join(left + parts))

    def say(self, text: str) -> None:
        """Print `text`, above the bar where there is one.

        Text written by a model may hold anything: what could steer the terminal, or what the stream's
        encoding does not know, is replaced by a mark.
        """
        encoding = getattr(self.stream, "encoding", None) or "utf-8"
        safe = printable(text).encode(encoding, "replace").decode(encoding)
        if self.bar is None:
            print(safe, file=self.stream, flush=True)
        else:
            self.bar.write(safe, file=self.stream)

    def close(self) -> None:
        """Take the bar off the terminal."""
        if self.bar is not None:
            self.bar.close()


@contextmanager
def phase(text: str, stream: TextIO | None = None) -> Iterator[None]:
    """Say what is being done before it is done, and how long it took when it is over."""
    stream = sys.stdout if stream is None else stream
    start = time.perf_counter()
    print(f"{text} ...", end=" ", file=stream, flush=True)
    outcome = "stopped after "
    try:
        yield
        outcome = ""
    finally:
        print(f"{outcome}{time.perf_counter() - start:.1f} s", file=stream, flush=True)


def printable(text: str) -> str:
    """Return `text` with every control character but tab and line break replaced by a mark.

    >>> printable("bell\\x07 and\\ttab")
    'bell\ufffd and\\ttab'
    """
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\ufffd", text)


def format_count(number: float) -> str:
    """Return a whole number with its thousands apart.

    >>> format_count(984288)
    '984,288'
    """
    return f"{number:,.0f}"


def format_bytes(number: float) -> str:
    """Return a number of bytes in the largest unit that fits, in powers of 1,000.

    >>> format_bytes(512), format_bytes(1_536_000)
    ('512 bytes', '1.5 MB')
    """
    if number < 1000:
        return f"{number:.0f} bytes"
    power = 1 if number < 999_950 else 2 if number < 999_950_000 else 3  # beyond these, 1000.0 would be printed
    return f"{number / 1000**power:,.1f} {('kB', 'MB', 'GB')[power - 1]}"


def format_seconds(seconds: float) -> str:
    """Return a duration in the two units that matter.

    >>> format_seconds(42), format_seconds(200), format_seconds(3900)
    ('42s', '3m 20s', '1h 05m')
    """
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02d}s"
    return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
