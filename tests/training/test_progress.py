"""Progress: one bar on a terminal, plain lines elsewhere, and text without control characters in both."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.training.metrics import Measurement
from minigrad.training.progress import Progress

MEASURED = Measurement(
    step=10,
    tokens=0,
    loss=2.3456,
    bits_per_byte=1.7123,
    learning_rate=0.003,
    gradient_norm=0.5,
    seconds=10.0,
    tokens_per_second=12345.6,
    memory_bytes=10**8,
)


def show(bar: Progress, step: int, time_share: float = 0.0, **changes: float) -> None:
    measured = replace(MEASURED, step=step, **changes)
    bar.log(measured, matmul_share=0.618, seconds_left=200.0, time_share=time_share)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class OldStream(io.StringIO):
    """A stream that encodes ASCII only and raises for any other character."""

    encoding = "ascii"

    def write(self, text: str) -> int:
        text.encode("ascii")
        return super().write(text)


def test_each_step_is_one_plain_line_without_a_terminal():
    stream = io.StringIO()
    bar = Progress(1000, stream)
    show(bar, 10)
    show(bar, 20, val_bits_per_byte=1.8)
    bar.close()
    assert stream.getvalue() == (
        "step 10/1,000  loss 2.346  1.712 bits per byte  lr 3.00e-03  12,346 tokens/s  "
        "62% of matmul rate  3m 20s left\n"
        "step 20/1,000  loss 2.346  1.712 bits per byte  held-out 1.800  lr 3.00e-03  12,346 tokens/s  "
        "62% of matmul rate  3m 20s left\n"
    )


def test_a_budget_of_time_shows_the_share_of_time_until_the_steps_are_known():
    stream = io.StringIO()
    bar = Progress(None, stream)
    show(bar, 10, time_share=0.42)
    bar.set_total(50)
    show(bar, 20, time_share=0.8)
    first, second = stream.getvalue().splitlines()
    assert first.startswith("step 10 (42% of the time)  loss")
    assert second.startswith("step 20/50  loss")


def test_a_diverged_loss_is_still_shown():
    stream = io.StringIO()
    show(Progress(10, stream), 1, loss=float("nan"), bits_per_byte=float("inf"))
    assert "loss nan  inf bits per byte" in stream.getvalue()


def test_on_a_terminal_one_bar_is_redrawn_and_text_goes_above_it():
    stream = Terminal()
    bar = Progress(100, stream)
    show(bar, 25)
    bar.say("a sample")
    show(bar, 200)  # more than was announced
    bar.close()
    shown = stream.getvalue()
    assert " 25%|" in shown
    assert "100%|" in shown
    assert "3m 20s left  step 25/100  loss 2.346" in shown
    assert "a sample\n" in shown
    assert shown.count("\n") == 1


def test_on_a_terminal_the_share_of_time_moves_the_bar():
    stream = Terminal()
    bar = Progress(None, stream)
    show(bar, 10, time_share=0.4)
    bar.close()
    assert " 40%|" in stream.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_control_characters_do_not_reach_the_bar(stream):
    shown = stream()
    bar = Progress(10, shown)
    bar.say("red\x1b[31m bell\x07 back\r over\x9b2J\n\tend")
    bar.close()
    assert "red\ufffd[31m bell\ufffd back\ufffd over\ufffd2J\n\tend\n" in shown.getvalue()


def test_characters_that_the_stream_cannot_encode_are_replaced():
    stream = OldStream()
    Progress(10, stream).say("naïve 🙂")
    assert stream.getvalue() == "na?ve ?\n"


@given(st.text())
def test_any_text_can_be_printed_on_any_stream(text):
    for stream in (OldStream(), io.StringIO()):
        Progress(10, stream).say(text)
        stream.getvalue().encode()  # raises for a lone surrogate
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", stream.getvalue())
