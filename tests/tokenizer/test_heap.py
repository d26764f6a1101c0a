import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.heap import drop_smallest, rise, sink

rows = st.lists(st.tuples(st.integers(-3, 3), st.integers(-3, 3), st.integers(-3, 3)), min_size=1, max_size=40)


def heap_of(numbers):
    heap = np.zeros((len(numbers), 3), np.int64)
    for i, row in enumerate(numbers):
        heap[i] = row
        rise(heap, i)
    return heap


@given(rows)
def test_rows_come_out_sorted_by_their_first_two_numbers(numbers):
    heap, size, out = heap_of(numbers), len(numbers), []
    while size:
        out.append(tuple(heap[0].tolist()))
        size = drop_smallest(heap, size)
    assert [row[:2] for row in out] == sorted(row[:2] for row in numbers)
    assert sorted(out) == sorted(numbers)  # the third number stays with its row


@given(rows, st.integers(-4, 4))
def test_an_overwritten_top_sinks_to_its_place(numbers, new):
    heap = heap_of(numbers)
    left = [tuple(row) for row in heap[1:].tolist()]
    heap[0] = new
    sink(heap, len(heap))
    assert tuple(heap[0, :2]) == min(row[:2] for row in [*left, (new, new, new)])
