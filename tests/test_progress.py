"""Progress: plain lines where nobody watches, one bar on a terminal, and text that cannot steer either."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import progress
from minigrad.progress import Progress, phase

STEP = {
    "loss": 2.3456,
    "bits_per_byte": 1.7123,
    "learning_rate": 0.003,
    "tokens_per_second": 12345.6,
    "matmul_share": 0.618,
    "seconds_left": 200.0,
}


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class OldStream(io.StringIO):
    """A stream that knows no letter beyond ASCII and, like a real one, raises over any other."""

    encoding = "ascii"

    def write(self, text: str) -> int:
        text.encode("ascii")
        return super().write(text)


def test_elsewhere_each_step_is_one_plain_line():
    stream = io.StringIO()
    bar = Progress(1000, stream)
    bar.log(step=10, **STEP)
    bar.log(step=20, **STEP, val_bits_per_byte=1.8)
    bar.close()
    assert stream.getvalue() == (
        "step 10/1,000  loss 2.346  1.712 bits per byte  lr 3.00e-03  12,346 tokens/s  "
        "62% of matmul rate  3m 20s left\n"
        "step 20/1,000  loss 2.346  1.712 bits per byte  held-out 1.800  lr 3.00e-03  12,346 tokens/s  "
        "62% of matmul rate  3m 20s left\n"
    )


def test_what_is_not_known_is_not_shown():
    stream = io.StringIO()
    known = {key: STEP[key] for key in ("loss", "bits_per_byte", "learning_rate", "tokens_per_second")}
    Progress(10, stream).log(step=1, **known)
    assert "matmul" not in stream.getvalue()
    assert "left" not in stream.getvalue()


def test_a_budget_of_time_shows_the_share_of_time_until_the_steps_are_known():
    stream = io.StringIO()
    bar = Progress(None, stream)
    bar.log(step=10, time_share=0.42, **STEP)
    bar.set_total(50)
    bar.log(step=20, time_share=0.8, **STEP)
    first, second = stream.getvalue().splitlines()
    assert first.startswith("step 10 (42% of the time)  loss")
    assert second.startswith("step 20/50  loss")


def test_a_diverged_loss_is_still_shown():
    stream = io.StringIO()
    Progress(10, stream).log(step=1, **STEP | {"loss": float("nan"), "bits_per_byte": float("inf")})
    assert "loss nan  inf bits per byte" in stream.getvalue()


def test_on_a_terminal_one_bar_is_redrawn_and_text_goes_above_it():
    stream = Terminal()
    bar = Progress(100, stream)
    bar.log(step=25, **STEP)
    bar.say("a sample")
    bar.log(step=200, **STEP)  # more than was announced
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
    bar.log(step=10, time_share=0.4, **STEP)
    bar.close()
    assert " 40%|" in stream.getvalue()


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_text_cannot_steer_the_terminal(stream):
    shown = stream()
    bar = Progress(10, shown)
    bar.say("red\x1b[31m bell\x07 back\r over\x9b2J\n\tend")
    bar.close()
    assert "red\ufffd[31m bell\ufffd back\ufffd over\ufffd2J\n\tend\n" in shown.getvalue()


def test_a_stream_that_knows_few_letters_gets_marks_for_the_others():
    stream = OldStream()
    Progress(10, stream).say("naïve 🙂")
    assert stream.getvalue() == "na?ve ?\n"


@given(st.text())
def test_any_text_can_be_said_anywhere(text):
    for stream in (OldStream(), io.StringIO()):
        Progress(10, stream).say(text)
        stream.getvalue().encode()  # raises for a lone surrogate
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", stream.getvalue())


def test_a_phase_is_announced_before_it_runs_and_timed_after(capsys):
    with phase("compiling kernels"):
        assert capsys.readouterr().out == "compiling kernels ... "
    assert re.fullmatch(r"\d+\.\d s\n", capsys.readouterr().out)


def test_a_phase_that_fails_ends_its_line():
    stream = io.StringIO()
    with pytest.raises(KeyError), phase("reading text", stream):
        raise KeyError
    assert re.fullmatch(r"reading text \.\.\. stopped after \d+\.\d s\n", stream.getvalue())


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (380_000_000, "380.0 MB"),
        (999_950_000, "1.0 GB"),
        (2.5e12, "2,500.0 GB"),
    ],
)
def test_bytes(number, text):
    assert progress.format_bytes(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (59.4, "59s"), (59.6, "1m 00s"), (3599, "59m 59s"), (3599.7, "1h 00m"), (90_000, "25h 00m")],
)
def test_seconds(seconds, text):
    assert progress.format_seconds(seconds) == text
