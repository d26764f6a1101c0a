import threading

import pytest

from tokenizer import TokenizerError
from tokenizer.text.threads import map_in_order, num_threads


def test_threads():
    assert num_threads(3) == 3
    assert num_threads(None) >= 1
    with pytest.raises(TokenizerError, match="threads=0: expected 1 or more"):
        num_threads(0)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order_and_only_a_few_items_are_taken_ahead(threads):
    taken = []

    def items():
        for i in range(20):
            taken.append(i)
            yield i

    for number, result in enumerate(map_in_order(lambda i: i * i, items(), threads)):
        assert result == number * number
        assert len(taken) <= number + threads + 1


def test_items_are_worked_on_at_the_same_time():
    both = threading.Barrier(2, timeout=60)

    def meet(item):
        both.wait()  # passes only if two threads are here
        return item

    assert list(map_in_order(meet, range(4), 2)) == list(range(4))


def test_an_error_in_a_thread_reaches_the_caller():
    with pytest.raises(ZeroDivisionError):
        list(map_in_order(lambda i: 1 // i, [1, 0, 1], 2))
