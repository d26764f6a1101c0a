"""A Wiola of parts and controls has the parameters of a Llama, and each control changes what it names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.evaluation.studies.wiola import Parts
from minigrad import no_grad
from minigrad.errors import InputError
from minigrad.typing import Array
from models.wiola import WiolaConfig

_TOKENS = np.random.default_rng(0).integers(0, 13, (2, 7))


def arm_of(**attributes: Any) -> Parts:
    shape: dict[str, Any] = {"width": 12, "num_heads": 3, "num_kv_heads": 1}
    kind = type("Arm", (Parts,), attributes)
    model = kind(WiolaConfig(vocab_size=13, num_layers=2, dsff_narrow=8, dsff_wide=22, **shape))
    model.initialise(1)
    assert isinstance(model, Parts)
    return model


def logits_of(model: Parts) -> Array:
    with no_grad():
        return model(_TOKENS).data


@pytest.mark.parametrize("control", ["gelu", "squared relu", "values", "embedding", "1.125 p", "biases"])
def test_a_control_has_about_as_many_parameters_and_other_outputs(control: str) -> None:
    plain, changed = arm_of(parts=[]), arm_of(parts=[], controls=[control])
    assert abs(changed.num_parameters() - plain.num_parameters()) < 60
    for name, parameter in changed.named_parameters():
        if name.endswith(("share", "stream", "embedding")) and parameter.size == 1:
            parameter.data[...] = 0.5
    assert not np.allclose(logits_of(changed), logits_of(plain))


def test_positions_times_1_125_are_the_spiral_without_its_radius() -> None:
    faster, spiral = arm_of(parts=[], controls=["1.125 p"]), arm_of(parts=["spiral"])
    assert spiral.config.srpe_spiral_divisor == 8
    spiral._angles.amplitude = 0.0
    np.testing.assert_allclose(logits_of(faster), logits_of(spiral), atol=1e-6)


@pytest.mark.parametrize(
    ("parts", "control"), [([], "swish"), (["streams"], "gelu"), (["streams"], "squared relu"), (["spiral"], "1.125 p")]
)
def test_a_control_without_effect_is_refused(parts: list[str], control: str) -> None:
    with pytest.raises(InputError, match="is not a control"):
        arm_of(parts=parts, controls=[control])


def test_layers_share_the_values_of_the_first() -> None:
    model = arm_of(parts=[], controls=["values"])
    assert [name for name, _ in model.named_parameters() if name.endswith("share")] == [
        "model.layers.1.attn.v_proj.share"
    ]
