"""Packed sequences: made of lists and padded arrays, sliced without copies, combined, compared, and differentiated."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import GraphError, InputError, ShapeError, Tensor, gradcheck, nn, no_grad, ops
from minigrad.nn import Layout
from models.vsla import variable
from models.vsla.variable import VarTensor
from tests.models.vsla.variable.drawn import pairs_of_var_tensors, var_tensors


def three(*, requires_grad: bool = False) -> VarTensor:
    """Return sequences of 2, 0 and 3 rows of size 2."""
    rows = Tensor(np.arange(1.0, 11.0).reshape(5, 2), requires_grad=requires_grad)
    return VarTensor(rows, Layout.packed([2, 0, 3]))


@given(x=var_tensors(), more=st.integers(0, 2), fill=st.sampled_from([0.0, -1.0, np.nan]))
def test_padding_is_undone_by_the_lengths(x: VarTensor, more: int, fill: float) -> None:
    length = int(x.lengths.max(initial=0)) + more
    padded = x.to_padded(length, fill)
    assert padded.shape == (len(x), length, 2)
    for row, sequence in zip(padded.data, x, strict=True):
        np.testing.assert_array_equal(row[: len(sequence)], sequence.data)
        np.testing.assert_array_equal(row[len(sequence) :], fill)
    back = VarTensor.from_padded(padded, x.lengths)
    np.testing.assert_array_equal(back.rows.data, x.rows.data)
    assert back.lengths.tolist() == x.lengths.tolist()
    assert VarTensor.from_list(list(x)).rows.size == x.rows.size


@given(x=var_tensors(), data=st.data())
def test_slices_are_views(x: VarTensor, data: st.DataObject) -> None:
    first, last = data.draw(st.integers(-4, 4)), data.draw(st.integers(-4, 4))
    part = x[first:last]
    expected = list(x)[first:last]
    assert [each.tolist() for each in part] == [each.tolist() for each in expected]
    positions = [np.arange(len(each)) for each in expected]
    assert part.layout.positions.tolist() == (np.concatenate(positions).tolist() if positions else [])
    for each in (part.rows, *part):
        assert each.data.base is x.rows.data or each.data.base is x.rows.data.base
        assert np.shares_memory(each.data, x.rows.data) or not each.size


def test_one_sequence_is_a_tensor() -> None:
    x = three()
    assert (len(x), x[0].tolist(), x[-1].shape, x[1].shape) == (3, [[1, 2], [3, 4]], (3, 2), (0, 2))
    with pytest.raises(ShapeError, match="there is no sequence 3 among 3"):
        x[3]
    with pytest.raises(InputError, match="a slice with step 2"):
        x[::2]


@given(x=var_tensors(), data=st.data())
def test_equality_is_that_of_the_classes(x: VarTensor, data: st.DataObject) -> None:
    longer = VarTensor.from_padded(x.to_padded(6), [data.draw(st.integers(length, 6)) for length in x.lengths])
    assert longer == x
    assert x == longer
    assert longer.shrink() == x
    assert (longer.shrink().rows.tolist(), longer.shrink().lengths.tolist()) == (
        x.shrink().rows.tolist(),
        x.shrink().lengths.tolist(),
    )
    if len(longer.rows):
        changed = longer.map(lambda rows: rows + 1)
        assert changed != longer


def test_sequences_of_another_number_or_row_are_not_equal() -> None:
    x = three()
    assert x != x[:2]
    assert x != x.map(lambda rows: rows[:, :1])
    assert x != x.rows.tolist()
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
@given(pair=pairs_of_var_tensors())
def test_each_pair_of_sequences_is_combined_as_in_the_algebra(name: str, pair: tuple[VarTensor, VarTensor]) -> None:
    a, b = pair
    combined = {"add": a + b, "subtract": a - b, "multiply": a * b}[name]
    assert combined.lengths.tolist() == np.maximum(a.lengths, b.lengths).tolist()
    for got, first, second in zip(combined, a, b, strict=True):
        assert got.tolist() == getattr(variable, name)(first, second).tolist()


def test_gradients_have_exactly_the_packed_shape() -> None:
    a, b = three(requires_grad=True), VarTensor(Tensor(np.ones((4, 2)), requires_grad=True), Layout.packed([1, 2, 1]))
    (a * b).rows.backward(np.ones((7, 2)))
    assert a.rows.grad is not None
    assert b.rows.grad is not None
    assert a.rows.grad.tolist() == [[1, 1], [0, 0], [1, 1], [0, 0], [0, 0]]
    assert b.rows.grad.tolist() == [[1, 2], [0, 0], [0, 0], [5, 6]]


LENGTHS = st.lists(st.integers(0, 3), max_size=3)


@given(lengths=LENGTHS, seed=st.integers(0, 1000))
def test_gradients_equal_central_differences(lengths: list[int], seed: int) -> None:
    layout, rng = Layout.packed(lengths), np.random.default_rng(seed)
    rows = rng.normal(size=(sum(lengths), 2))
    others = VarTensor(Tensor(rng.normal(size=(2 * len(lengths), 2))), Layout.packed([2] * len(lengths)))
    functions: list[Callable[[VarTensor], Tensor]] = [
        lambda x: x.to_padded(4),
        lambda x: x.sum(),
        lambda x: (x + others).rows,
        lambda x: (others - x).rows,
        lambda x: (x * others).sum(),
        lambda x: x.map(ops.gelu)[1:].rows,
    ]
    for function in functions:
        gradcheck.check(lambda tensor, f=function: f(VarTensor(tensor, layout)), rows)
    gradcheck.check(lambda *parts: VarTensor.from_list(parts).sum(), *np.split(rows, layout.offsets[1:-1]))
    gradcheck.check(lambda x: VarTensor.from_padded(x, lengths).rows, rng.normal(size=(len(lengths), 3, 2)))


def test_a_network_on_rows_gives_what_it_gives_to_each_sequence_and_to_a_padded_batch() -> None:
    """Packed, one by one, and padded with a mask: the same values, and the same gradients of the weights."""
    network = nn.Sequential(nn.LayerNorm(2), nn.Linear(2, 3), ops.gelu, nn.Linear(3, 1, bias=False))
    network.initialise(seed=0, dtype="float64")
    x = three()
    mask = VarTensor(Tensor(np.ones((5, 1))), x.layout).to_padded()
    losses = [
        x.map(network).sum().sum(),
        ops.stack(*[network(sequence).sum() for sequence in x]).sum(),
        (network(x.to_padded()) * mask).sum(),
    ]
    found = []
    for loss in losses:
        for parameter in network.parameters():
            parameter.zero_grad()
        loss.backward()
        gradients = [parameter.grad for parameter in network.parameters()]
        found.append(np.concatenate([np.ravel(each) for each in gradients if each is not None]))
    np.testing.assert_allclose([loss.item() for loss in losses], losses[0].item(), rtol=1e-12)
    np.testing.assert_allclose(found[1:], [found[0]] * 2, atol=1e-12)
    assert found[0].any()


def test_the_mean_of_a_sequence_counts_its_own_rows() -> None:
    x = VarTensor.from_list([[1.0, 3.0], [5.0]])
    assert x.mean().tolist() == [2, 5]
    assert VarTensor.from_list([[1, 2]]).mean().tolist() == [1.5]
    assert three()[2:].mean().tolist() == [[7, 8]]
    with pytest.raises(ShapeError, match="mean of no rows: sequence 1 is empty"):
        three().mean()
    assert three().sum().tolist() == [[4, 6], [0, 0], [21, 24]]


def test_a_sequence_sums_up_to_the_same_bits_alone_and_among_others() -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=(length, 3)).astype(np.float32) for length in (100, 7, 0, 1000)]
    for together, alone in zip(VarTensor.from_list(parts).sum(), parts, strict=True):
        assert together.tolist() == VarTensor.from_list([alone]).sum()[0].tolist()


@pytest.mark.parametrize(
    "empty", [VarTensor.from_list([]), VarTensor.from_list([[], []]), three()[3:], three()[1:2], three()[2:0]]
)
def test_empty_sequences_and_batches_work(empty: VarTensor) -> None:
    assert empty.rows.size == 0
    assert empty.sum().shape == (len(empty), *empty.rows.shape[1:])
    assert empty.to_padded().shape == (len(empty), 0, *empty.rows.shape[1:])
    assert empty + empty == empty.shrink() == empty.map(ops.exp) == empty
    assert [each.tolist() for each in empty] == [[]] * len(empty)


def test_an_empty_list_takes_the_dtype_and_the_row_of_the_others() -> None:
    tokens = VarTensor.from_list([[], [1, 2], ()])
    assert (str(tokens.rows.dtype), tokens.lengths.tolist()) == ("int64", [0, 2, 0])
    assert VarTensor.from_list([[], np.ones((2, 3))]).rows.shape == (2, 3)


def test_shrinking_drops_zeros_at_the_end_and_never_inside_a_graph() -> None:
    x = VarTensor.from_list([[[1, 0], [0, 0], [2, 0], [0, 0]], [[0, 0]]])
    assert (x.shrink().rows.tolist(), x.shrink().lengths.tolist()) == ([[1, 0], [0, 0], [2, 0]], [3, 0])
    weights = VarTensor(Tensor([0.0, 0.0], requires_grad=True), Layout.packed([2]))
    with pytest.raises(GraphError, match="would be cut off and never learn again"):
        weights.shrink()
    with no_grad():
        assert weights.shrink().lengths.tolist() == [0]


def test_sequences_without_zeros_at_the_end_keep_their_memory_when_shrunk() -> None:
    x = three()
    assert x.shrink().rows is x.rows


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (
            lambda: VarTensor(Tensor([1.0]), Layout.packed([2])),
            r"layout of 2 rows does not fit a tensor of shape \(1,\)",
        ),
        (lambda: VarTensor(Tensor(1.0), Layout.packed([])), r"layout of 0 rows does not fit a tensor of shape \(\)"),
        (lambda: VarTensor(Tensor([1.0]), Layout(np.array([0, 2, 1]), np.zeros(1))), r"must rise .*got \[0 2 1\]"),
        (lambda: VarTensor.from_list([[1.0], [[1.0]]]), r"rows of one shape; got \(1,\), \(1, 1\)"),
        (lambda: VarTensor.from_list([1.0]), r"rows of one shape; got \(\)"),
        (lambda: VarTensor.from_padded(np.ones((2, 3)), [1, 4]), r"at most T; got shape \(2, 3\) and lengths \[1 4\]"),
        (lambda: VarTensor.from_padded(np.ones((2, 3)), [1]), r"has S lengths of at most T; got shape \(2, 3\)"),
        (lambda: VarTensor.from_padded(np.ones(2), [1, 1]), r"has S lengths of at most T; got shape \(2,\)"),
        (lambda: VarTensor.from_padded(np.ones((1, 2)), [-1]), "integers of at least 0, not"),
        (lambda: three().to_padded(2), "sequence 2 has 3 rows: more than the length 2"),
        (lambda: three().map(lambda rows: rows[1:]), r"returns 5 rows; it returned shape \(4, 2\)"),
        (lambda: three().map(lambda rows: rows.sum()), r"returns 5 rows; it returned shape \(\)"),
        (lambda: three() + three()[:2], r"VarTensor\(3 sequences, .* differ in the number of sequences or in"),
        (lambda: three() * three().map(lambda rows: rows[:, :1]), "or in the shape of a row"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_values(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        attempt()


def test_dtypes_are_not_mixed_and_numbers_not_promoted() -> None:
    with pytest.raises(InputError, match=r"sequences have one dtype; got float32, float64\. Make them alike"):
        VarTensor.from_list([np.ones(1, np.float32), np.ones(2)])
    with pytest.raises(InputError, match="float32 and float64"):
        _ = VarTensor.from_list([[1.0]]) + VarTensor.from_list([np.ones(2)])
    for other in (2.0, Tensor([1.0]), np.ones(5)):
        with pytest.raises(InputError, match=r"by another VarTensor, not (float|Tensor|ndarray).*x\.map"):
            _ = three() * other  # type: ignore[operator]
    with pytest.raises(TypeError, match="unsupported operand"):
        _ = np.ones(3) * three()  # NumPy would multiply element by element, sequence after sequence
    for misuse in (lambda: Tensor([1.0]) + three(), lambda: np.asarray(three()[:1])):
        with pytest.raises(InputError, match=r"not an array, because its sequences differ in length: use x\.rows or"):
            misuse()  # type: ignore[no-untyped-call]


def test_rows_may_be_an_array() -> None:
    assert VarTensor(np.ones((5, 2)), three().layout).sum().shape == (3, 2)


def test_it_prints_its_lengths() -> None:
    assert repr(three()) == "VarTensor(3 sequences, 5 rows of shape (2,), lengths 2, 0, 3, dtype=float64)"
    many = VarTensor.from_list([[1]] * 9)
    assert repr(many) == "VarTensor(9 sequences, 9 rows of shape (), lengths 1, 1, 1, 1, 1, 1, 1, 1, ..., dtype=int64)"
    assert repr(three()[:1]).startswith("VarTensor(1 sequence, 2 rows")
    assert "lengths none" in repr(VarTensor.from_list([]))
