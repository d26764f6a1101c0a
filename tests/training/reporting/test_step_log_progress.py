"""Progress: one bar on a terminal, plain lines elsewhere, and text without control characters in both."""

from __future__ import annotations

import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.training.folder.metrics import Measurement
from minigrad.training.reporting.step_log import Progress

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


def show(bar: Progress, step: int, share: float = 0.0, **changes: float) -> None:
    measured = replace(MEASURED, step=step, **changes)
    bar.log(measured, matmul_share=0.618, seconds_left=200.0, share=share)


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


def test_each_step_is_a_line_of_a_table_without_a_terminal():
    stream = io.StringIO()
    bar = Progress(1000, stream)
    show(bar, 10)
    show(bar, 20, val_bits_per_byte=1.8)
    bar.close()
    *legend, header, first, second = stream.getvalue().splitlines()
    assert [line.partition(":")[0] for line in legend] == ["bits/byte", "validation", "loss", "lr", "peak"]
    assert header.split() == ["step", "loss", "bits/byte", "validation", "lr", "tokens/s", "peak", "time", "left"]
    assert first.split() == ["10/1,000", "2.346", "1.712", "3.0e-03", "12,346", "62%", "3m", "20s"]
    assert second.split() == ["20/1,000", "2.346", "1.712", "1.800", "3.0e-03", "12,346", "62%", "3m", "20s"]
    assert {len(header), len(first), len(second)} == {79}
    assert second.index("1.800") + 5 == header.index("validation") + 10


def test_the_longest_line_fits_80_columns():
    stream = io.StringIO()
    bar = Progress(None, stream)
    show(bar, 1_234_567, share=1.0, loss=10.1, bits_per_byte=10.1, val_bits_per_byte=10.1, tokens_per_second=1e6)
    assert max(map(len, stream.getvalue().splitlines())) < 80


def test_a_budget_of_time_shows_the_share_of_time_until_the_steps_are_known():
    stream = io.StringIO()
    bar = Progress(None, stream)
    show(bar, 10, share=0.42)
    bar.total_steps = 50
    show(bar, 20, share=0.8)
    *_, first, second = stream.getvalue().splitlines()
    assert first.startswith("10 (42%)  ")
    assert second.startswith("20/50  ")


def test_a_diverged_loss_is_still_shown():
    stream = io.StringIO()
    show(Progress(10, stream), 1, loss=float("nan"), bits_per_byte=float("inf"))
    assert stream.getvalue().splitlines()[-1].split()[1:3] == ["nan", "inf"]


def test_on_a_terminal_a_bar_is_redrawn_below_the_lines_that_stay(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    stream = Terminal()
    bar = Progress(100, stream)
    show(bar, 25, share=0.25)
    bar.say("a sample")
    bar.advance(30, seconds_left=199.0, share=0.3)
    show(bar, 200, share=1.0)  # more than was announced
    bar.bar.refresh()
    shown = stream.getvalue()
    bar.close()
    assert " 25%|" in shown
    assert "100%|" in shown
    assert "| step 200/100  3m 20s left" in shown
    assert re.search(r"\n *25/100 +2.346 .* 3m 20s\n", "\n" + shown.replace("\r", "\n"))
    assert "a sample\n" in shown


def test_the_bar_follows_every_step_and_draws_only_some(monkeypatch):
    stream = Terminal()
    bar = Progress(10_000, stream)
    for step in range(10_001):
        bar.advance(step, seconds_left=1.0, share=step / 10_000)
    assert bar.bar.n == 1.0
    assert stream.getvalue().count("\r") < 1_000


def test_on_a_terminal_the_share_of_the_budget_moves_the_bar():
    stream = Terminal()
    bar = Progress(None, stream)
    show(bar, 10, share=0.4)
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
