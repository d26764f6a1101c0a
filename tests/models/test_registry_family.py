"""A family: names of sizes by shape, fields overridden by value or by text, and skeletons without memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import models
from minigrad import InputError
from models.registry import CUSTOM, override

VIDYA = models.FAMILIES["vidya-v2"]


def test_a_shape_is_named_closest_first() -> None:
    sizes: Any = VIDYA.sizes
    assert VIDYA.names_of(sizes["2.0"]) == ["2.0", "mobilellm-125m", "smollm2-135m"]
    assert VIDYA.names_of(sizes["smollm2-135m"])[0] == "smollm2-135m"
    assert VIDYA.names_of(replace(sizes["nano"], dropout=0.5, vocab_size=300)) == ["nano"]
    assert VIDYA.names_of(replace(sizes["nano"], num_layers=7)) == [CUSTOM]


def test_overriding_converts_strings_and_completes_rotary_settings() -> None:
    config: Any = override(VIDYA.sizes["nano"], {"dropout": "0.5", "rope_scaling": "linear", "rope_factor": 2.0})
    assert (config.dropout, config.rope_original_context, config.context_length) == (0.5, 2_048, 4_096)
    assert override(config, {"rope_scaling": "none", "dropout": 0.0}) == VIDYA.sizes["nano"]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"widht": 3}, "unknown field of VidyaV2Config 'widht'; did you mean 'width'"),
        ({"width": 0}, "width takes a whole number of at least 1 and at most 1,048,576, not 0"),
        ({"tied_head": "maybe"}, "tied_head takes true or false, not 'maybe'"),
    ],
)
def test_unknown_fields_and_values_out_of_range_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        override(VIDYA.sizes["nano"], values)


def test_a_skeleton_has_names_and_shapes_but_no_memory() -> None:
    skeleton = VIDYA.skeleton(VIDYA.sizes["2.3"])
    assert skeleton.num_parameters() == 576_794_880
    assert all(parameter.data.strides == (0,) * parameter.ndim for parameter in skeleton.parameters())


def test_a_family_with_laptop_sizes_alone_has_no_published_size(monkeypatch: pytest.MonkeyPatch) -> None:
    assert models.smallest_published("vsla") is not None
    laptop = {name: VIDYA.sizes[name] for name in models.LAPTOP_SIZES}
    monkeypatch.setitem(models.FAMILIES, "mine", VIDYA._replace(sizes=laptop))
    assert models.smallest_published("mine") is None
