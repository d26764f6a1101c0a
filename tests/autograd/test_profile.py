"""The profile: every operation counted once, with the operations it takes, and without a change to any number."""

from __future__ import annotations

import itertools
import math
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import Tensor, no_grad, ops
from minigrad.autograd import observers, profile
from minigrad.autograd.gradients import Deferred
from minigrad.autograd.op import OPS, op
from minigrad.autograd.profile import Profile
from minigrad.nn.checkpointing import recompute
from tests.models.tiny import TINY, build, tokens
from tests.op_table import TABLE

Array = NDArray[Any]
sides = st.integers(1, 4)


def leaf(*shape: int, dtype: Any = np.float32) -> Tensor:
    return Tensor(np.random.default_rng(0).normal(size=shape).astype(dtype), requires_grad=True)


def profiled(work: Callable[[], Any]) -> Profile:
    measured = Profile()
    with measured:
        work()
    return measured


def operations(measured: Profile, name: str) -> list[float]:
    return [measured.lines[name, phase].flops for phase in ("forward", "backward")]


def back(y: Tensor) -> None:
    y.backward(np.ones(y.shape))


# What each product takes, counted one multiplication with its addition after the other.


@given(lead=st.lists(sides, max_size=2), inputs=sides, outputs=sides)
def test_a_linear_layer_is_one_product_and_two_more_backward(lead: list[int], inputs: int, outputs: int) -> None:
    measured = profiled(lambda: back(ops.linear(leaf(*lead, inputs), leaf(outputs, inputs))))
    once = sum(2 for _ in np.ndindex(*lead, inputs, outputs))
    assert operations(measured, "linear") == [once, 2 * once]


@pytest.mark.parametrize(
    ("a", "b", "products"),  # of how many pairs of numbers
    [
        ((3, 4), (4, 5), 60),
        ((4,), (4, 5), 20),
        ((3, 4), (4,), 12),
        ((4,), (4,), 4),
        ((2, 3, 4), (4, 5), 120),
        ((2, 3, 4), (2, 4, 5), 120),
        ((3, 4), (7, 4, 5), 420),
        ((2, 1, 3, 4), (7, 4, 5), 840),
        ((2, 3, 4), (4,), 24),
        ((4,), (7, 4, 5), 140),
        ((3, 0), (0, 5), 0),
    ],
)
def test_a_matrix_product_of_any_shape(a: tuple[int, ...], b: tuple[int, ...], products: int) -> None:
    measured = profiled(lambda: back(ops.matmul(leaf(*a), leaf(*b))))
    assert operations(measured, "matmul") == [2 * products, 4 * products]


def test_swiglu_linear_is_the_product_behind_the_gate() -> None:
    measured = profiled(lambda: back(ops.swiglu_linear(leaf(6, 4), leaf(6, 4), leaf(5, 4))))
    assert operations(measured, "swiglu_linear") == [2 * 6 * 4 * 5, 4 * 6 * 4 * 5]


def test_the_loss_computes_its_gradients_on_the_way_forward_if_there_are_any() -> None:
    x, weight, targets = leaf(6, 4), leaf(9, 4), np.arange(6)
    one_product = 2 * 6 * 4 * 9
    measured = profiled(lambda: ops.linear_cross_entropy(x, weight, targets).backward())
    assert operations(measured, "linear_cross_entropy") == [3 * one_product, 0]
    with no_grad():
        measured = profiled(lambda: ops.linear_cross_entropy(x, weight, targets))
    assert measured.lines["linear_cross_entropy", "forward"].flops == one_product


def attention_pairs(offsets: Array, ranges: Array | None, visible: Array | None) -> int:
    """Count the keys that each query sees, one by one."""
    pairs = 0
    for s, (first, last) in enumerate(itertools.pairwise(offsets)):
        keys = last - first if ranges is None else ranges[s, 1] - ranges[s, 0]
        for row in range(first, last):
            pairs += int(visible[row]) if visible is not None else int(keys - (last - 1 - row))
    return pairs


@pytest.mark.parametrize(
    ("ranges", "visible"),
    [
        (None, None),
        (np.array([[0, 5], [5, 5], [6, 14]]), None),  # as with a cache: three keys more than queries, none, two
        (np.array([[0, 5], [5, 5], [6, 14]]), np.array([0, 5, 0, 2, 2, 8, 8, 8])),
    ],
)
def test_attention_takes_two_products_for_every_pair_that_see_each_other(ranges: Any, visible: Any) -> None:
    offsets, (heads, groups, size) = np.array([0, 2, 2, 8]), (6, 2, 4)
    keys = (14, groups, size) if ranges is not None else (8, groups, size)
    options = {"offsets": offsets, "key_ranges": ranges, "visible": visible}
    measured = profiled(lambda: back(ops.attention(leaf(8, heads, size), leaf(*keys), leaf(*keys), **options)))
    product = 2 * attention_pairs(offsets, ranges, visible) * heads * size
    # Backward: the scores once more, and the gradients of probabilities, values, queries and keys.
    assert operations(measured, "attention") == [2 * product, 5 * product]


def test_attention_with_an_own_key_sees_one_more() -> None:
    offsets, visible, has_own = np.array([0, 3, 5]), np.array([0, 1, 2, 1, 1]), np.array([1, 0, 1, 0, 1], bool)
    arrays = [leaf(5, 4, 2), *(leaf(5, 2, 2) for _ in range(4))]
    options = {"offsets": offsets, "key_ranges": np.array([[0, 3], [3, 5]]), "visible": visible, "has_own": has_own}
    measured = profiled(lambda: back(ops.attention_with_own_key(*arrays, **options)))
    product = 2 * (5 + 3) * 4 * 2
    assert operations(measured, "attention_with_own_key") == [2 * product, 5 * product]


def test_a_pass_without_a_gradient_promises_no_operations_backward() -> None:
    x, weight = Tensor(np.ones((3, 4), np.float32)), Tensor(np.ones((5, 4), np.float32))
    measured = profiled(lambda: ops.linear(x, weight))
    assert set(measured.lines) == {("linear", "forward")}
    with no_grad():
        measured = profiled(lambda: ops.linear(leaf(3, 4), leaf(5, 4)))
    assert set(measured.lines) == {("linear", "forward")}


@pytest.mark.parametrize("name", TABLE)
@given(data=st.data())
def test_any_operation_can_be_measured_and_computes_the_same(name: str, data: st.DataObject) -> None:
    case = data.draw(TABLE[name].cases)

    def run() -> list[bytes]:
        arguments = [Tensor(x.copy(), requires_grad=x.dtype.kind == "f") for x in case.arrays]
        y = getattr(ops, name)(*arguments, **case.options)
        back(y)
        return [y.data.tobytes(), *(np.asarray(x.grad).tobytes() for x in arguments if x.grad is not None)]

    plain, found = run(), []
    measured = profiled(lambda: found.append(run()))
    assert found == [plain]
    assert [(line.name, line.phase, line.calls) for line in measured.lines.values()] == [
        (name, "forward", 1),
        (name, "backward", 1),
    ]
    assert all(line.flops >= 0 and line.bytes_new >= 0 for line in measured.lines.values())


# Bytes.


def new_bytes(measured: Profile, name: str) -> list[int]:
    return [
        measured.lines[name, phase].bytes_new for phase in ("forward", "backward") if (name, phase) in measured.lines
    ]


def test_a_fresh_array_counts_as_new_also_when_it_is_handed_on_in_another_shape() -> None:
    x, weight = leaf(2, 3, 4), leaf(5, 4)
    measured = profiled(lambda: back(ops.linear(x, weight)))
    # y and dx are views of matrices of rows; dw is written straight into the gradient.
    assert new_bytes(measured, "linear") == [2 * 3 * 5 * 4, 2 * 3 * 4 * 4]
    assert measured.lines["linear", "forward"].bytes_moved == 4 * (24 + 20 + 30)
    assert measured.lines["linear", "backward"].bytes_moved == 4 * (30 + 24 + 20)


def test_a_view_of_what_was_given_is_not_new() -> None:
    x = leaf(6, 4)
    for name, use in {
        "reshape": lambda: x.reshape(4, 6),
        "transpose": lambda: x.T,
        "slice": lambda: x[1:, ::2],
        "sum": lambda: x.sum(),
    }.items():
        forward, backward = new_bytes(profiled(lambda use=use: back(use())), name)
        assert forward == (4 if name == "sum" else 0)  # a sum is one number
        # Going back, a slice makes an array of zeros around its part; a sum shows one number in many places.
        assert backward == (x.data.nbytes if name == "slice" else 0)


def test_parameters_that_are_views_of_one_flat_array_are_still_given() -> None:
    flat = np.ones(20, np.float32)
    x = Tensor(flat[:10].reshape(2, 5), requires_grad=True)
    assert new_bytes(profiled(lambda: x.reshape(10)), "reshape") == [0]
    assert new_bytes(profiled(lambda: x + Tensor(flat[10:].reshape(2, 5))), "add") == [40]


def test_what_an_operation_keeps_for_its_gradient_is_new_as_well() -> None:
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

    measured = profiled(lambda: back(viewed(leaf(5, 2), leaf(5, 2))))
    assert new_bytes(measured, "viewed") == [40, 40]


def test_a_gradient_that_is_handed_on_is_not_new() -> None:
    x, y = leaf(3, 5), leaf(3, 5)
    measured = profiled(lambda: back((x + y) + leaf(5)))
    assert new_bytes(measured, "add") == [120, 0]


# Seconds.


def test_an_operation_inside_another_counts_where_it_runs() -> None:
    @op
    def slow(x: Array) -> tuple[Array, Any]:
        def backward(dy: Array) -> Array:
            spend(0.03)
            return dy

        spend(0.02)
        return x * 1, backward

    x = leaf(3)
    measured = profiled(lambda: recompute(lambda rows: slow(slow(rows)), x * 1.0).sum().backward())
    forward, backward = measured.lines["slow", "forward"], measured.lines["slow", "backward"]
    assert (forward.calls, backward.calls) == (4, 2)
    assert forward.seconds >= 0.08
    assert backward.seconds >= 0.06
    assert ("recompute", "forward") not in measured.lines
    # All of it ran inside the backward of `recompute`, which keeps for itself what it did itself.
    assert ("recompute", "backward") in measured.lines
    assert sum(line.seconds for line in measured.lines.values()) <= measured.seconds


def spend(seconds: float) -> None:
    """Be busy for so long, by the clock that the profile reads."""
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_seconds_of_measurements_within_each_other_by_an_invented_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(100))
    monkeypatch.setattr(profile.time, "perf_counter", lambda: float(next(now)))
    measured = Profile()
    with measured, measured.measure("outer", "forward"):  # from 0 on, from 1 on
        for _ in range(2):
            with measured.measure("inner", "forward"), measured.measure("innermost", "forward"):  # 2, 3 to 4, 5; 6 ...
                pass
    # 0: step, 1: outer, 2 to 9: two inner ones with one innermost each, 10: outer ends, 11: step ends
    taken = {name: line.seconds for (name, _), line in measured.lines.items()}
    assert taken == {"outer": 3.0, "inner": 4.0, "innermost": 2.0}
    assert measured.seconds == 11.0


def test_recomputed_layers_take_a_second_forward_pass_and_one_backward_pass() -> None:
    model, ids = build("gpt2"), tokens(0, 2, 9)

    def count() -> Profile:
        return profiled(lambda: model.loss(ids, ids).backward())

    kept = count()
    model.recompute_layers()
    again = count()
    for name in ("matmul", "attention"):
        forward, backward = operations(kept, name)
        assert operations(again, name) == [2 * forward, backward]
    assert operations(again, "linear_cross_entropy") == operations(kept, "linear_cross_entropy")


# The whole step.


@pytest.mark.parametrize("family", [*TINY, "wiola kv_only"])
def test_profiling_changes_no_bit(family: str) -> None:
    changes: dict[str, Any] = {"atm": "kv_only", "atm_threshold": 0.3} if "kv_only" in family else {}
    model = build(family.split()[0], dropout=0.2, **changes)
    ids = tokens(0, 2, 9)

    def bits() -> list[bytes]:
        model.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        return [loss.data.tobytes(), *(np.asarray(p.grad).tobytes() for p in model.parameters())]

    plain, found = bits(), []
    measured = profiled(lambda: found.append(bits()))
    assert found == [plain]
    assert {name for name, _ in measured.lines} <= set(OPS)
    assert measured.lines["linear_cross_entropy", "backward"].calls == 1


def test_the_operations_of_a_model_are_those_that_the_plan_counts() -> None:
    model, (batch, length) = build("vidya-v2", context_length=64), (2, 64)
    ids = tokens(0, batch, length)
    measured = profiled(lambda: model.loss(ids, ids).backward())
    total = sum(line.flops for line in measured.lines.values())
    # The plan counts half the context for each position, and backward twice the forward pass: here each sees itself as
    # well, and the scores are made again.
    attention = 4 * batch * length * (length + 1) / 2 * 2 * 4 * 4
    planned = 6 * (model.macs_per_token(length) - 2 * 2 * 4 * 4 * length / 2) * batch * length
    assert total == pytest.approx(planned + 3.5 * attention)


def _rows(table: str) -> list[tuple[str, str, float]]:
    """Return (operation, phase, milliseconds) of each line of a table between its header and its last line."""
    rows = []
    for text in table.splitlines()[1:-1]:
        name, phase, rest = re.match(r"(everything else|one step|\w+) +(forward|backward|update|) *(.*)", text).groups()
        numbers = rest.split()
        rows.append((name, phase, float(numbers[1] if phase else numbers[0])))
    return rows


def test_the_table_names_every_operation_and_adds_up_to_the_step() -> None:
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
    widths = {len(text) for text in measured.table(1e11).splitlines()[:-3]}
    assert len(widths) == 1


def test_rates_and_the_share_of_products_by_hand() -> None:
    measured = Profile()
    measured.steps, measured.seconds = 2, 4.0
    with measured.measure("linear", "forward") as line:
        pass
    line.calls, line.seconds, line.flops, line.bytes_moved, line.bytes_new = 6, 1.0, 8e9, 3 * 10**9, 5 * 10**6
    table = measured.table(1e10).splitlines()
    assert table[1].split() == ["linear", "forward", "3", "500.00", "25.0%", "8.0", "3.0", "2.5"]
    assert table[2].split() == ["everything", "else", "1500.00", "75.0%"]
    assert table[-1] == (
        "products: 4.0 GFLOP a step; at this machine's 10 GFLOP/s they alone would take 20% of the time"
    )


def test_a_table_of_nothing() -> None:
    assert Profile().table(1e11) == "no step was measured"
    with Profile() as empty:
        pass
    assert "one step" in empty.table(1e11)


# Who is measured.


def test_nobody_is_measured_outside_of_the_block_also_after_an_error() -> None:
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


def test_an_operation_that_fails_is_timed_and_does_not_disturb_the_next() -> None:
    measured = Profile()
    with measured:
        with pytest.raises(ValueError, match="shapes"):
            leaf(2, 3) + leaf(4)
        ops.exp(leaf(3))
    assert measured._inner == []
    assert measured.lines["exp", "forward"].calls == 1


def test_other_threads_are_not_measured() -> None:
    measured = Profile()

    def elsewhere() -> None:
        back(ops.exp(leaf(3)))

    with measured:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert not measured.lines


def test_a_deferred_gradient_is_moved_but_not_new() -> None:
    @op
    def scaled(w: Array) -> tuple[Array, Any]:
        def write(out: Array, add: bool) -> None:
            out[...] = 2

        return w * 2, lambda dy: Deferred((3, 5), np.dtype(np.float32), write)

    measured = profiled(lambda: back(scaled(leaf(3, 5))))
    line = measured.lines["scaled", "backward"]
    assert (line.bytes_moved, line.bytes_new) == (2 * math.prod((3, 5)) * 4, 0)
