from __future__ import annotations

import pytest

from minigrad.errors import InputError
from minigrad.evaluate.__main__ import EvaluateConfig, check_settings


def test_lengths_are_whole_numbers():
    assert check_settings(EvaluateConfig("run")) == []
    assert check_settings(EvaluateConfig("run", lengths=" 8, 16")) == [8, 16]
    for wrong in ("", "8,", "eight", "0", "-8", "8.5", "9" * 20):
        with pytest.raises(InputError, match="--lengths takes whole numbers of at least 1"):
            check_settings(EvaluateConfig("run", lengths=wrong))


def test_an_overlap_leaves_something_to_predict():
    with pytest.raises(InputError, match="overlap takes"):
        check_settings(EvaluateConfig("run", overlap=1.0))
