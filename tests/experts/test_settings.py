"""The settings of experts survive config.json, take no part without experts, and count what training stores."""

from __future__ import annotations

import pytest

import models
from minigrad import InputError
from minigrad.experts import settings as expert_settings


def test_settings_survive_config_json_and_are_absent_without_experts() -> None:
    config = models.configure("vidya-v2", experts=4, experts_per_token=1, expert_balance=0.02)
    values = expert_settings.published(config)
    assert values == {"num_local_experts": 4, "num_experts_per_tok": 1, "router_aux_loss_coef": 0.02}
    assert type(config).from_published(config.published()) == config
    dense = models.configure("vidya-v2")
    assert expert_settings.published(dense) == expert_settings.read(type(dense), dense.published()) == {}


def test_a_token_may_pass_through_all_experts_but_not_through_more() -> None:
    assert models.configure("vidya-v2", experts=2, experts_per_token=2).experts_per_token == 2
    with pytest.raises(InputError, match=r"experts_per_token \(3\) must be at most experts \(2\)"):
        models.configure("vidya-v2", experts=2, experts_per_token=3)


def test_a_wrong_value_in_config_json_is_named() -> None:
    config = models.configure("gpt2", experts=4)
    with pytest.raises(InputError, match="num_local_experts"):
        type(config).from_published(config.published() | {"num_local_experts": "many"})


def test_each_expert_of_a_token_stores_its_block_its_input_and_its_output() -> None:
    config = models.configure("vidya-v2", experts=8, experts_per_token=2)
    assert expert_settings.activations_per_token(config, 512) == 2 * (512 + 2 * config.width) + 16
    assert expert_settings.activations_per_token(models.configure("vidya-v2"), 512) == 512
