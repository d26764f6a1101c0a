"""Initial standard deviations of the families, and configs as the surrounding code uses them."""

from __future__ import annotations

import dataclasses
import math
from typing import ClassVar

import pytest

import models
from minigrad import InputError
from minigrad.nn.config import ModelConfig, always, copies, laptop_init_std, needed, own_token, residual_std
from minigrad.options import option


def test_matrices_into_the_residual_stream_are_smaller_by_the_root_of_their_number() -> None:
    config = models.configure("vidya-v2", num_layers=8, init_std=0.04)
    assert residual_std(config) == pytest.approx(0.04 / 4)


@pytest.mark.parametrize("width", [64, 96, 576, 1_024])
def test_the_laptop_standard_deviation_keeps_the_size_of_outputs(width: int) -> None:
    assert laptop_init_std(width) * math.sqrt(width) == pytest.approx(0.02 * math.sqrt(576), rel=5e-3)


@pytest.mark.parametrize("family", models.FAMILIES)
def test_every_config_is_frozen_and_has_the_properties_of_a_model_config(family: str) -> None:
    config = models.configure(family)
    names = [name for name in ModelConfig.__annotations__ if not name.startswith(("__", "model_types"))]
    names += [name for name, value in vars(ModelConfig).items() if isinstance(value, property)]
    assert len(names) == 11
    assert all(isinstance(getattr(config, name), int | float) for name in names)
    assert config.activations_per_token() > 0
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.width = 3  # type: ignore[misc]


@dataclasses.dataclass(frozen=True)
class Small(ModelConfig):
    """A config with one entry of each kind."""

    model_types: ClassVar = {"small": "SmallForCausalLM", "smaller": "SmallerForCausalLM"}

    width: int = option(8, "elements per token", at_least=1, published="hidden")
    doubled = copies("width", "also_hidden")
    activation = always(act="gelu")
    num_heads: int = option(2, "heads", published="heads", absent=lambda values: values["hidden"] // 4)
    depth: int | None = option(None, "layers", published="depth", absent=True)
    biases = needed(bias=False)


def test_the_file_has_the_entries_of_the_declarations_in_their_order():
    kind = {"architectures": ["SmallForCausalLM"], "model_type": "small"}
    wanted = {**kind, "hidden": 8, "also_hidden": 8, "act": "gelu", "heads": 2}
    assert list(Small().published().items()) == list(wanted.items())
    assert Small(depth=3).published() == wanted | {"depth": 3}


def test_an_absent_key_is_the_default_or_follows_from_others():
    assert Small.recognises({"model_type": "smaller"})
    assert not Small.recognises({"model_type": []})
    assert Small.from_published({"hidden": 16}) == Small(width=16, num_heads=4)
    assert Small.from_published({"hidden": 16, "heads": None}) == Small(width=16, num_heads=4)
    assert Small.from_published({"hidden": 16, "heads": 1, "depth": 5, "also_hidden": 3}) == Small(16, 1, 5)


@dataclasses.dataclass(frozen=True)
class WithTokens(ModelConfig):
    """A config with a token that may be the end of a text."""

    model_types: ClassVar = {"small": "SmallForCausalLM"}

    begin_of_text_id: int | None = option(None, "the token that begins a text", at_least=0)
    begin = own_token("bos_token_id", "begin_of_text_id")
    end_of_text_id: int = option(2, "the token that ends a text", published="eos_token_id")


@pytest.mark.parametrize(("own", "written", "read"), [(None, 2, None), (2, 2, None), (0, 0, 0), (5, 5, 5)])
def test_a_token_without_an_id_of_its_own_is_the_end_of_a_text(own, written, read):
    published = WithTokens(begin_of_text_id=own).published()
    assert (published["bos_token_id"], published["eos_token_id"]) == (written, 2)
    assert WithTokens.from_published(published).begin_of_text_id == read
    for values in ({"eos_token_id": 2}, {"bos_token_id": None, "eos_token_id": 2}):
        assert WithTokens.from_published(values).begin_of_text_id is None
    with pytest.raises(InputError, match="bos_token_id takes a whole number of at least 0"):
        WithTokens.from_published(published | {"bos_token_id": -1})


def test_the_first_of_several_tokens_that_end_a_text_is_the_one_between_documents():
    for begin, own in ((None, None), (2, None), (5, 5)):
        found = WithTokens.from_published({"bos_token_id": begin, "eos_token_id": [2, 5]})
        assert found == WithTokens(own, 2)
    for wrong in ([], [True], ["a"]):
        with pytest.raises(InputError, match=r"eos_token_id (takes a whole number|must list whole numbers)"):
            WithTokens.from_published({"eos_token_id": wrong})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "hidden is missing"),
        ({"hidden": 0}, "hidden takes a whole number of at least 1, not 0"),
        ({"hidden": 8, "act": "relu"}, "act = 'relu'; this family needs 'gelu'"),
        ({"hidden": 8, "bias": True}, "bias = True; this family needs False"),
    ],
)
def test_another_variant_is_refused(values, message):
    with pytest.raises(InputError, match=message):
        Small.from_published(values)
