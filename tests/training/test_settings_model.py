"""Fields of a model's config that have flags of their own."""

from __future__ import annotations

import pytest

from minigrad.errors import InputError
from minigrad.training.settings import TrainConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TrainConfig(set="padding_id=3"), "--set padding_id=... has a flag of its own: --tokenizer"),
        (TrainConfig(set="vocab_size=300"), "--set vocab_size=... has a flag of its own: --vocab"),
        (TrainConfig(set="width"), "--set takes NAME=VALUE, with commas between several, not 'width'"),
    ],
)
def test_a_field_with_a_flag_is_not_set(settings, message):
    with pytest.raises(InputError, match=message):
        settings.check()
