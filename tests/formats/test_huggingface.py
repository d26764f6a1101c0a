"""Variants of an architecture in a config.json."""

from __future__ import annotations

import pytest

from minigrad.errors import InputError
from minigrad.formats.huggingface import require_variant

NEEDED = {"hidden_act": "silu", "attention_bias": False}


@pytest.mark.parametrize("values", [{}, {"hidden_act": "silu"}, {**NEEDED, "other": 3}])
def test_equal_and_missing_keys_are_accepted(values):
    require_variant(values, NEEDED)


def test_another_value_is_refused_with_both_values():
    with pytest.raises(InputError, match=r"config\.json has hidden_act = 'gelu'; this family needs 'silu'"):
        require_variant({"hidden_act": "gelu"}, NEEDED)
