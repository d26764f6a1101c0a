"""A text is read as packed documents or as windows."""

from __future__ import annotations

import numpy as np

from minigrad.data.tokens.documents import Documents
from minigrad.data.tokens.reading import reader
from minigrad.data.tokens.source import Windows


def test_the_name_chooses_how_a_text_is_read() -> None:
    assert isinstance(reader("packed", np.arange(9), 4), Documents)
    assert isinstance(reader("windows", np.arange(9), 4), Windows)


def test_both_read_as_many_tokens_in_a_step() -> None:
    row = np.array([0, 1, 2, 3, 0, 4, 5, 0, 6, 7, 8, 9, 0])
    for way in ("packed", "windows"):
        batch = reader(way, row, 4).batch(seed=0, step=2, batch_size=3)
        assert batch.tokens.shape == batch.targets.shape == (12,)
