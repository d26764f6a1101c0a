"""Rotary settings: contradictions, the changes that a longer context implies, and the published form."""

from __future__ import annotations

import json
from typing import Any

import pytest

import models
from minigrad import InputError, nn
from minigrad.nn import rotary_settings
from models.registry import override
from models.vidya_v2 import VidyaV2Config

SCALED: dict[str, dict[str, Any]] = {
    kind: {"rope_scaling": kind, "rope_factor": 4.0, "rope_original_context": 2_048, "context_length": 8_192}
    for kind in rotary_settings.SCALINGS
}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"rope_theta": 1.0}, "rope_theta takes a finite number above 1 .*, not 1.0"),
        ({"rope_theta": float("inf")}, "rope_theta takes a finite number above 1 .*, not inf"),
        ({"rope_scaling": "dynamic"}, "rope_scaling takes one of linear, ntk, yarn, not 'dynamic'"),
        ({"rope_factor": 4.0}, r"rope_factor \(4.0\) needs a rope_scaling"),
        ({"rope_original_context": 64}, r"rope_original_context \(64\) needs a rope_scaling"),
        (SCALED["linear"] | {"rope_factor": 0.5}, "rope_factor takes a finite number of at least 1 .*, not 0.5"),
        (
            SCALED["linear"] | {"rope_factor": float("nan")},
            "rope_factor takes a finite number of at least 1 .*, not nan",
        ),
        (SCALED["yarn"] | {"rope_original_context": None}, "rope_original_context must be at least 1"),
        (SCALED["yarn"] | {"rope_original_context": 0}, "rope_original_context must be at least 1"),
        (SCALED["ntk"] | {"head_dim": 2}, "head_dim must be at least 4 with rope_scaling 'ntk', not 2"),
        (SCALED["yarn"] | {"rope_beta_slow": 33.0}, r"rope_beta_slow \(33.0\) must be .* below rope_beta_fast"),
        (SCALED["yarn"] | {"rope_beta_slow": 0.0}, "rope_beta_slow takes a finite number above 0, not 0.0"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        VidyaV2Config(**fields)


@pytest.mark.parametrize("kind", rotary_settings.SCALINGS)
def test_a_scaling_makes_the_context_longer_unless_a_context_is_given(kind: str) -> None:
    changes: dict[str, Any] = {"rope_scaling": kind, "rope_factor": "4"}
    config = models.configure("vidya-v2", "2.0", **changes)
    assert (config.context_length, config.rope_original_context, config.rope_factor) == (8_192, 2_048, 4.0)
    given = models.configure("vidya-v2", "2.0", **changes, context_length=4_096)
    assert (given.context_length, given.rope_original_context) == (4_096, 2_048)
    again = override(config, {"rope_factor": 2.0})
    assert (again.context_length, again.rope_original_context, again.rope_scaling) == (4_096, 2_048, kind)
    assert override(config, {"rope_scaling": "none"}) == models.configure("vidya-v2", "2.0")


@pytest.mark.parametrize("factor", ["0.5", "nan", "inf", "-2"])
def test_factors_below_one_or_not_finite_are_refused(factor: str) -> None:
    with pytest.raises(InputError, match="rope_factor takes a finite number of at least 1"):
        models.configure("vidya-v2", "2.0", rope_scaling="linear", rope_factor=factor)


def test_a_factor_without_a_scaling_is_refused() -> None:
    with pytest.raises(InputError, match="needs a rope_scaling"):
        models.configure("vidya-v2", "2.0", rope_factor=4.0)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"rope_theta": 777.0, "tied_head": False},
        *SCALED.values(),
        SCALED["yarn"] | {"rope_beta_fast": 20.0, "rope_beta_slow": 2.0, "rope_attention_factor": 1.1},
        SCALED["yarn"] | {"context_length": 300},
        SCALED["ntk"] | {"rope_theta": 12_345.678, "rope_factor": 3.7},
    ],
)
def test_reading_the_published_form_gives_the_same_settings(fields: dict[str, Any]) -> None:
    config = VidyaV2Config(**fields)
    published = json.loads(json.dumps(config.published()))
    assert VidyaV2Config.from_published(published) == config


def test_ntk_is_published_as_a_larger_theta() -> None:
    published = VidyaV2Config(**SCALED["ntk"]).published()
    assert published["rope_theta"] == pytest.approx(100_000 * 4 ** (64 / 62))
    assert "rope_scaling" not in published
    with pytest.raises(InputError, match=r"rope_theta = 5\.0, which does not follow from rope_ntk"):
        VidyaV2Config.from_published(published | {"rope_theta": 5.0})


YARN = {"rope_type": "yarn", "factor": 4.0}


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        ({"rope_theta": 9.0}, {"rope_theta": 9.0}),
        ({}, {"rope_theta": 10_000.0}),
        ({"rope_scaling": {"type": "linear", "factor": 4.0}}, {"rope_scaling": "linear", "rope_original_context": 512}),
        (
            {"rope_parameters": {"rope_theta": 9.0, "rope_type": "linear", "factor": 2.0}},
            {"rope_theta": 9.0, "rope_scaling": "linear", "rope_factor": 2.0, "rope_original_context": 1_024},
        ),
        ({"rope_scaling": YARN}, {"rope_scaling": "yarn", "rope_factor": 4.0, "rope_original_context": 2_048}),
        (
            {"rope_scaling": YARN | {"original_max_position_embeddings": 100, "beta_fast": 9.0, "beta_slow": None}},
            {"rope_original_context": 100, "rope_beta_fast": 9.0, "rope_beta_slow": 1.0},
        ),
        ({"rope_parameters": YARN | {"attention_factor": 1.5}}, {"rope_attention_factor": 1.5, "rope_factor": 4.0}),
    ],
)
def test_files_of_other_programs_are_read(values: dict[str, Any], fields: dict[str, Any]) -> None:
    published = VidyaV2Config().published()
    del published["rope_theta"]
    config = VidyaV2Config.from_published(published | values)
    assert {name: getattr(config, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_type = 'dynamic'"),
        ({"rope_parameters": {"rope_type": "llama3", "factor": 8.0}}, "rope_type = 'llama3'; .* default, linear, yarn"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "rope_type = 'longrope'"),
        ({"rope_scaling": YARN | {"mscale": 0.7, "mscale_all_dim": 0.7}}, "mscale = 0.7, mscale_all_dim = 0.7"),
        ({"rope_scaling": YARN | {"truncate": False}}, "truncate = False, which .* for the rope_type 'yarn'"),
        ({"rope_scaling": {"factor": 2.0}}, "factor = 2.0, which .* for the rope_type 'default'"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor = 0.5"),
        ({"rope_parameters": "default"}, "rope_parameters = 'default', which should be an object"),
    ],
)
def test_unknown_rope_types_and_settings_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        VidyaV2Config.from_published(VidyaV2Config().published() | values)


@pytest.mark.parametrize("kind", ["linear", "yarn"])
def test_a_scaling_without_its_factor_is_refused(kind: str) -> None:
    with pytest.raises(InputError, match="factor takes a finite number of at least 1"):
        VidyaV2Config.from_published(VidyaV2Config().published() | {"rope_scaling": {"rope_type": kind}})


def test_each_scaling_has_its_angles() -> None:
    kinds = {None: nn.RotaryAngles, "linear": nn.LinearAngles, "ntk": nn.NTKAngles, "yarn": nn.YarnAngles}
    for kind, angles in kinds.items():
        config = VidyaV2Config(**(SCALED[kind] if kind else {}))
        assert type(rotary_settings.angles(config)) is angles
