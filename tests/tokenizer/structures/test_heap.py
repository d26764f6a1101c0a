import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.structures.heap import drop_smallest, push, replace_smallest

row = st.tuples(st.integers(-3, 3), st.integers(-3, 3))
rows = st.lists(row, min_size=1, max_size=40)


def heap_of(numbers):
    heap, size = np.zeros((len(numbers), 2), np.int64), 0
    for first, second in numbers:
        size = push(heap, size, first, second)
    return heap, size


@given(rows)
def test_rows_come_out_sorted(numbers):
    heap, size = heap_of(numbers)
    out = []
    while size:
        out.append(tuple(heap[0].tolist()))
        size = drop_smallest(heap, size)
    assert out == sorted(numbers)


@given(rows, st.lists(row))
def test_a_row_in_place_of_the_smallest_finds_its_place(numbers, others):
    heap, size = heap_of(numbers)
    kept = list(numbers)
    for other in others:
        replace_smallest(heap, size, *other)
        kept = [*sorted(kept)[1:], other]
        assert tuple(heap[0].tolist()) == min(kept)
    assert sorted(map(tuple, heap.tolist())) == sorted(kept)
