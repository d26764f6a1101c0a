"""The registry: the laptop sizes of every family, counts without memory, and recognition by config.json."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
from minigrad import InputError
from minigrad.nn.language_model import LanguageModel
from models.names import EARLIER_SIZES
from models.registry import CUSTOM
from tests.models.tiny import CONTEXT, build, tokens

SIZES = [(family, size) for family, (_, _, sizes) in models.FAMILIES.items() for size in sizes]
COUNTS = {
    "gpt2": (982_080, 4_731_600, 14_799_360, 40_992_640),
    "vidya-v1": (996_360, 4_715_640, 14_688_768, 41_181_600),
    "vidya-v2": (975_072, 4_753_344, 14_753_952, 40_913_280),
    "vsla": (982_080, 4_731_600, 14_799_360, 40_992_640),
    "wiola": (982_566, 4_719_690, 14_791_180, 40_919_824),
}

UNUSUAL: dict[str, dict[str, Any]] = {
    "gpt2": {
        "feed_forward": 9,
        "tied_head": False,
        "experts": 4,
        "experts_per_token": 3,
        "expert_balance": 0.5,
        "rope_theta": 9.0,
    },
    "vidya-v1": {"head_dim": 6, "feed_forward": 9, "rope_theta": 9.0},
    "vidya-v2": {
        "num_kv_heads": 2,
        "key_shift": True,
        "value_residual": True,
        "experts": 4,
        "experts_per_token": 3,
        "expert_balance": 0.5,
        "head_dim": 6,
        "feed_forward": 9,
        "tied_head": False,
        "rope_theta": 9.0,
        "rope_scaling": "yarn",
        "rope_factor": 3.0,
        "rope_original_context": 5,
        "rope_beta_fast": 4.0,
        "rope_beta_slow": 2.0,
        "rope_attention_factor": 1.5,
    },
    "vsla": {
        "feed_forward": 9,
        "patterns": "sparse+full",
        "window": 7,
        "block": 5,
        "top_k": 3,
        "entropy": 0.25,
        "tied_head": False,
    },
    "wiola": {
        "num_kv_heads": 2,
        "dsff_narrow": 9,
        "dsff_wide": 7,
        "tied_head": False,
        "srpe_theta": 9.0,
        "srpe_spiral_divisor": 3.0,
        "srpe_radial_amplitude": 0.3,
        "srpe_radial_frequency": 0.4,
        "gcla_lookback": 3,
        "gcla_gate_init": 0.5,
        "gcla_summary": "paper",
        "gqa_layout": "interleaved",
        "atm": "kv_only",
        "atm_threshold": 0.5,
        "atm_at_generation": True,
        "padding_id": 8,
    },
}
"""The fields of each family with values that are not the default; the test adds the fields that all share."""

every_family = pytest.mark.parametrize("family", models.FAMILIES)
every_size = pytest.mark.parametrize(("family", "size"), SIZES)


@every_family
def test_every_family_has_the_same_laptop_sizes(family: str) -> None:
    make, kind, sizes = models.FAMILIES[family]
    assert issubclass(make, LanguageModel)
    assert all(isinstance(config, kind) for config in sizes.values())
    assert models.ladder(family, "auto") == models.LAPTOP_SIZES
    assert tuple(models.count(family, size) for size in models.LAPTOP_SIZES) == COUNTS[family]
    for size, budget in zip(models.LAPTOP_SIZES, COUNTS["gpt2"], strict=True):
        config = models.configure(family, size)
        assert models.count(family, size) == pytest.approx(budget, rel=0.02)
        assert config.num_layers >= 6
        assert config.vocab_size == (4_096 if size in ("nano", "micro") else 8_192)
        assert config.init_std == pytest.approx(0.02 * (576 / config.width) ** 0.5, abs=1e-4)


@every_family
def test_the_count_is_that_of_the_built_model(family: str) -> None:
    built = models.build(family, "nano")
    assert sum(array.size for array in built.state_dict().values()) == models.count(family, "nano")


@every_family
def test_the_largest_size_is_counted_without_memory(family: str) -> None:
    sizes = models.FAMILIES[family][2]
    largest = max(sizes, key=lambda size: models.count(family, size))
    tracemalloc.start()
    parameters = models.count(family, largest)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**21 < parameters


@every_size
def test_reading_the_published_form_gives_the_same_config(family: str, size: str) -> None:
    _, kind, sizes = models.FAMILIES[family]
    published = json.loads(json.dumps(sizes[size].published()))
    assert kind.from_published(published) == sizes[size]
    assert [name for name, (_, other, _) in models.FAMILIES.items() if other.recognises(published)] == [family]


@every_family
def test_no_field_is_lost_in_the_published_form(family: str) -> None:
    kind = models.FAMILIES[family][1]
    shape = {"vocab_size": 11, "num_layers": 3, "width": 24, "num_heads": 4, "context_length": 15}
    config = kind(**shape, norm_eps=0.1, init_std=0.3, end_of_text_id=9, begin_of_text_id=7, **UNUSUAL[family])
    assert [name for name, value in vars(kind()).items() if value == getattr(config, name)] == ["dropout"]
    assert kind.from_published(json.loads(json.dumps(config.published()))) == config


@every_size
def test_a_size_is_recognised_by_its_shape(family: str, size: str) -> None:
    config = models.configure(family, size)
    found, name, model = models.start_from(config.published(), Path("run/config.json"), None, "auto")
    assert (found, model.config) == (family, config)
    assert models.configure(family, name) == config


@every_family
def test_training_continues_only_from_the_given_family_and_size(family: str) -> None:
    published, path = models.configure(family, "micro", vocab_size=300).published(), Path("run/config.json")
    found, size, model = models.start_from(published, path, family, "micro", dropout=0.25)
    assert (found, size, model.config.vocab_size, model.config.dropout) == (family, "micro", 300, 0.25)
    other = next(name for name in models.FAMILIES if name != family)
    with pytest.raises(InputError, match=f"run holds a model of {family}, but --model {other} was given"):
        models.start_from(published, path, other, "auto")
    with pytest.raises(InputError, match=f"run holds a {family} micro, but --size nano was given"):
        models.start_from(published, path, family, "nano")
    custom = models.configure(family, "micro", num_layers=7).published()
    assert models.start_from(custom, path, None, "auto")[1] == CUSTOM


@pytest.mark.parametrize(
    ("family", "size", "fields", "message"),
    [
        ("vidya-v3", "nano", {}, "vidya-v2"),
        ("gpt2", "nanno", {}, "nano"),
        ("wiola", "360", {}, "360m"),
        ("vidya-v1", "nano", {"num_layer": 3}, "num_layers"),
        (
            "vidya-v2",
            "nano",
            {"width": "wide"},
            "width takes a whole number of at least 1 .*, not 'wide'",
        ),
        ("vidya-v2", "nano", {"width": 96.0}, r"width takes a whole number of at least 1 .*, not 96\.0"),
        ("gpt2", "nano", {"num_layers": True}, "num_layers takes a whole number of at least 1 .*, not True"),
        ("wiola", "nano", {"dropout": None}, "dropout takes a finite number of at least 0 and below 1, not None"),
        ("gpt2", "nano", {"tied_head": "maybe"}, "tied_head takes true or false, not 'maybe'"),
        ("gpt2", "nano", {"tied_head": 1}, "tied_head takes true or false, not 1"),
    ],
)
def test_unknown_names_and_values_out_of_range_are_refused(
    family: str, size: str, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        models.count(family, size, **fields)


def test_strings_are_converted_to_the_types_of_the_fields() -> None:
    given = {"width": "64", "dropout": "0.5", "tied_head": "False", "atm": "kv_only"}
    assert models.configure("wiola", **given) == models.configure(
        "wiola", width=64, dropout=0.5, tied_head=False, atm="kv_only"
    )
    assert models.configure("vidya-v2", rope_scaling="none") == models.configure("vidya-v2")
    assert models.configure("gpt2", dropout=0).dropout == 0  # an int is accepted for a float


@every_family
def test_fields_may_be_overridden_when_loading(family: str, tmp_path: Path) -> None:
    model = build(family)
    model.save(tmp_path)
    loaded = models.load(tmp_path, dtype="float64", dropout=0.5)
    assert (loaded.config.dropout, loaded.head().dtype) == (0.5, np.float64)
    ids = tokens(0, 1, 6)
    np.testing.assert_allclose(loaded.eval()(ids).data, model.eval()(ids).data, rtol=0, atol=1e-4)


@every_family
def test_a_longer_context_needs_positions_that_are_computed(family: str, tmp_path: Path) -> None:
    build(family).save(tmp_path)
    if models.FAMILIES[family][0].learns_positions:
        with pytest.raises(InputError, match=r"of another shape: wpe\.weight is \(24, 12\), should be \(48, 12\)"):
            models.load(tmp_path, context_length=2 * CONTEXT)
    else:
        longer = models.load(tmp_path, context_length=2 * CONTEXT)
        assert longer(tokens(0, 1, 2 * CONTEXT)).shape[1] == 2 * CONTEXT


def test_a_recipe_is_that_of_a_run_and_leaves_out_what_a_pipeline_cannot_send() -> None:
    assert models.recipe("vidya-v2") == {"key_shift": True, "value_residual": True}
    assert models.recipe("vidya-v2", divides_layers=True) == {"key_shift": True}
    assert models.recipe("gpt2") == {}


def test_what_a_laptop_size_was_before_is_trained_as_it_is_today() -> None:
    for size in ("nano", *EARLIER_SIZES):
        config: Any = models.for_training("vidya-v2", size).config
        assert (config.key_shift, config.value_residual) == (True, True)


def test_a_noted_shape_is_that_of_its_day() -> None:
    old: Any = models.configure("vidya-v2", "nano-32", key_shift=True, num_layers=2)
    assert models.start_from(old.published(), Path("minigrad.json"), "vidya-v2", "auto")[2].config == old
    # The type vidya-v2 was first written without an entry, for shifted keys.
    older = {name: value for name, value in old.published().items() if name not in ("key_shift", "value_residual")}
    assert models.start_from(older, Path("minigrad.json"), "vidya-v2", "auto")[2].config == old
    # A size of today may not go with what was set then, and what was set is no departure.
    old = models.configure("vidya-v2", "nano-32", num_kv_heads=3)
    changed = models.departures("vidya-v2", "nano", old, num_kv_heads="3")
    assert models.configure("vidya-v2", "nano", num_kv_heads=3, **changed) == old
    assert not {"num_kv_heads", "experts_per_token"} & changed.keys()


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({}, (True, True)),
        ({"key_shift": "false"}, (False, False)),
        ({"key_shift": False, "value_residual": True}, (False, True)),
        ({"value_residual": False}, (True, False)),
        ({"key_shift": True}, (True, True)),
    ],
)
def test_what_is_turned_off_turns_off_what_was_measured_beside_it(
    given: dict[str, Any], found: tuple[bool, bool]
) -> None:
    config: Any = models.for_training("vidya-v2", "nano", **given).config
    assert (config.key_shift, config.value_residual) == found
