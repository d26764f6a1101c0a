"""A reader of text needs only its blocks: the batches of the steps are the blocks in order."""

from __future__ import annotations

from typing import Any

import numpy as np

from minigrad.data.tokens.source import Reader, Spans


class Blocks(Reader):
    def __init__(self) -> None:
        self.row, self.context = np.arange(40), 4

    def blocks(self, seed: int, begin: int, end: int) -> Any:
        return seed, begin, end

    def spans(self) -> Spans:
        raise NotImplementedError

    def attended_length(self) -> float:
        raise NotImplementedError

    def describe(self, batch_size: int) -> str:
        raise NotImplementedError


def test_steps_read_the_blocks_in_order() -> None:
    reader = Blocks()
    assert [reader.batch(seed=7, step=step, batch_size=3) for step in range(2)] == [(7, 0, 3), (7, 3, 6)]
    assert reader.tokens_before(2, seed=7, batch_size=3) == 24
    assert reader.tokens_per_pass(3) == 40
