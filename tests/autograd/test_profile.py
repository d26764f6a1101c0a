"""The profile: bytes and seconds of each operation, the table, and what is measured (FLOPs: test_profile_flops)."""

from __future__ import annotations

import math
import re
import threading
import time
from typing import Any

import numpy as np
import pytest

from minigrad import Tensor, ops
from minigrad.autograd import observers, profile
from minigrad.autograd.gradients import Deferred
from minigrad.autograd.op import op
from minigrad.autograd.profile import Profile
from minigrad.nn.checkpointing import recompute
from minigrad.typing import Array
from tests.autograd.profiles import backward, leaf, profiled
from tests.models.tiny import build, tokens

# Bytes.


def new_bytes(measured: Profile, name: str) -> list[int]:
    return [
        measured.lines[name, phase].bytes_new for phase in ("forward", "backward") if (name, phase) in measured.lines
    ]


def test_a_new_array_counts_as_new_also_if_it_is_returned_in_another_shape() -> None:
    x, weight = leaf(2, 3, 4), leaf(5, 4)
    measured = profiled(lambda: backward(ops.linear(x, weight)))
    # y and dx are views of matrices of rows; dw is written directly into the gradient.
    assert new_bytes(measured, "linear") == [2 * 3 * 5 * 4, 2 * 3 * 4 * 4]
    assert measured.lines["linear", "forward"].bytes_moved == 4 * (24 + 20 + 30)
    assert measured.lines["linear", "backward"].bytes_moved == 4 * (30 + 24 + 20)


def test_a_view_of_an_argument_is_not_new() -> None:
    x = leaf(6, 4)
    for name, use in {
        "reshape": lambda: x.reshape(4, 6),
        "transpose": lambda: x.T,
        "slice": lambda: x[1:, ::2],
        "sum": lambda: x.sum(),
    }.items():
        forward, back = new_bytes(profiled(lambda use=use: backward(use())), name)
        assert forward == (4 if name == "sum" else 0)  # a sum is one element
        assert back == 0  # the gradient of a slice is written where it accumulates; that of a sum is a broadcast view


def test_arguments_that_are_views_of_one_flat_array_are_not_new() -> None:
    flat = np.ones(20, np.float32)
    x = Tensor(flat[:10].reshape(2, 5), requires_grad=True)
    assert new_bytes(profiled(lambda: x.reshape(10)), "reshape") == [0]
    assert new_bytes(profiled(lambda: x + Tensor(flat[10:].reshape(2, 5))), "add") == [40]


def test_arrays_that_an_operation_saves_for_its_gradient_are_new() -> None:
    x, weight = leaf(6, 4), leaf(9, 4)
    measured = profiled(lambda: ops.linear_cross_entropy(x, weight, np.arange(6)))
    forward = new_bytes(measured, "linear_cross_entropy")[0]
    assert forward == x.data.nbytes + weight.data.nbytes + 4  # both gradients, and the loss


def test_memory_with_several_views_counts_once() -> None:
    @op
    def viewed(a: Array, b: Array) -> tuple[Array, Any]:
        flat = (a + b).reshape(-1)

        def backward(dy: Array) -> tuple[Array, Array]:
            half = dy * flat.reshape(dy.shape) / 2
            return half[:], half[:]

        return flat.reshape(a.shape), backward

    measured = profiled(lambda: backward(viewed(leaf(5, 2), leaf(5, 2))))
    assert new_bytes(measured, "viewed") == [40, 40]


def test_a_gradient_that_is_returned_unchanged_is_not_new() -> None:
    x, y = leaf(3, 5), leaf(3, 5)
    measured = profiled(lambda: backward((x + y) + leaf(5)))
    assert new_bytes(measured, "add") == [120, 0]


def test_a_deferred_gradient_counts_as_moved_but_not_as_new() -> None:
    @op
    def scaled(w: Array) -> tuple[Array, Any]:
        def write(out: Array, add: bool) -> None:
            out[...] = 2

        return w * 2, lambda dy: Deferred((3, 5), np.dtype(np.float32), write)

    measured = profiled(lambda: backward(scaled(leaf(3, 5))))
    line = measured.lines["scaled", "backward"]
    assert (line.bytes_moved, line.bytes_new) == (2 * math.prod((3, 5)) * 4, 0)


# Seconds.


def test_the_time_of_an_operation_inside_another_counts_once() -> None:
    @op
    def slow(x: Array) -> tuple[Array, Any]:
        def backward(dy: Array) -> Array:
            spend(0.03)
            return dy

        spend(0.02)
        return x * 1, backward

    x = leaf(3)
    measured = profiled(lambda: recompute(lambda rows: slow(slow(rows)), x * 1.0).sum().backward())
    forward, back = measured.lines["slow", "forward"], measured.lines["slow", "backward"]
    assert (forward.calls, back.calls) == (4, 2)
    assert forward.seconds >= 0.08
    assert back.seconds >= 0.06
    assert ("recompute", "forward") not in measured.lines
    # They ran inside the backward of `recompute`, whose line has only the rest of its time.
    assert ("recompute", "backward") in measured.lines
    assert sum(line.seconds for line in measured.lines.values()) <= measured.seconds


def spend(seconds: float) -> None:
    """Use processor time for so many seconds of the clock that the profile reads."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_seconds_of_nested_measurements_by_an_injected_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(profile.time, "perf_counter", lambda: float(next(now)))
    measured = Profile()
    with measured, measured.measure("outer", "forward"):  # begin at 0 and at 1
        for _ in range(2):
            with measured.measure("inner", "forward"), measured.measure("innermost", "forward"):  # 2, 3 to 4, 5; 6 ...
                pass
    # 0: step, 1: outer, 2 to 9: two inner ones with one innermost each, 10: outer ends, 11: step ends
    taken = {name: line.seconds for (name, _), line in measured.lines.items()}
    assert taken == {"outer": 3.0, "inner": 4.0, "innermost": 2.0}
    assert measured.seconds == 11.0


# The table.


def _rows(table: str) -> list[tuple[str, str, float]]:
    """Return (operation, phase, milliseconds) of each line of a table between its header and its last line."""
    rows = []
    for text in table.splitlines()[1:-1]:
        name, phase, rest = re.match(r"(everything else|one step|\w+) +(forward|backward|update|) *(.*)", text).groups()
        numbers = rest.split()
        rows.append((name, phase, float(numbers[1] if phase else numbers[0])))
    return rows


def test_the_table_lists_every_operation_and_adds_up_to_the_step() -> None:
    model, ids = build("wiola"), tokens(0, 2, 9)
    measured = Profile()
    for _ in range(3):
        with measured:
            model.loss(ids, ids).backward()
            with measured.measure("AdamW", "update"):
                spend(0.001)
    rows = _rows(measured.table(1e11))
    assert {(name, phase) for name, phase, _ in rows[:-2]} == {
        key for key, line in measured.lines.items() if line.calls
    }
    assert ("AdamW", "update") in measured.lines
    assert [name for name, _, _ in rows[-2:]] == ["everything else", "one step"]
    assert sum(ms for *_, ms in rows[:-1]) == pytest.approx(rows[-1][2], abs=0.01 * len(rows))
    assert rows[-1][2] == pytest.approx(1e3 * measured.seconds / 3, abs=0.01)
    assert [ms for *_, ms in rows[:-2]] == sorted((ms for *_, ms in rows[:-2]), reverse=True)
    update = next(text for text in measured.table(1e11).splitlines() if text.startswith("AdamW"))
    assert update.split()[-1].endswith("%")  # the share; the bytes of updates are not counted
    widths = {len(text) for text in measured.table(1e11).splitlines()[:-3]}
    assert len(widths) == 1


def test_rates_and_shares_computed_by_hand() -> None:
    measured = Profile()
    measured.steps, measured.seconds = 2, 4.0
    with measured.measure("linear", "forward") as line:
        pass
    line.calls, line.seconds, line.flops, line.bytes_moved, line.bytes_new = 6, 1.0, 8e9, 3 * 10**9, 5 * 10**6
    table = measured.table(1e10).splitlines()
    assert table[1].split() == ["linear", "forward", "3", "500.00", "25.0%", "8.0", "3.0", "2.5"]
    assert table[2].split() == ["everything", "else", "1500.00", "75.0%"]
    assert table[-1] == (
        "products: 4.0 GFLOP a step; at 10 GFLOP/s, measured before the run, they alone would take 20% of the time"
    )


def test_the_table_of_an_empty_profile() -> None:
    assert Profile().table(1e11) == "no step was measured"
    with Profile() as empty:
        pass
    assert "one step" in empty.table(1e11)


# Scope.


def test_measuring_ends_with_the_block_also_after_an_error() -> None:
    measured = Profile()
    ops.exp(leaf(3))

    def fail() -> None:
        with measured:
            assert observers.active == [measured]
            ops.exp(leaf(3))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    ops.exp(leaf(3))
    assert observers.active == []
    assert measured.lines["exp", "forward"].calls == 1


def test_an_operation_that_fails_does_not_change_the_lines_of_the_next() -> None:
    measured = Profile()
    with measured:
        with pytest.raises(ValueError, match="shapes"):
            leaf(2, 3) + leaf(4)
        ops.exp(leaf(3))
    assert measured._inner == []
    assert measured.lines["exp", "forward"].calls == 1


def test_operations_of_other_threads_are_not_measured() -> None:
    measured = Profile()

    def elsewhere() -> None:
        backward(ops.exp(leaf(3)))

    with measured:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert not measured.lines
