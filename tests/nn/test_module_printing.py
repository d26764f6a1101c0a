"""A module prints as a tree; its weights are saved to a file and loaded from one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from minigrad import InputError, nn, ops
from minigrad.nn import Module, Parameter


class Model(Module):
    def __init__(self) -> None:
        self.table = nn.Embedding(5, 4)
        self.blocks = [nn.Residual(nn.LayerNorm(4), nn.Linear(4, 4), ops.relu) for _ in range(3)]
        self.scale = Parameter([1.0])
        self.head = self.table.weight


def test_the_tree_shows_names_shapes_counts_and_what_is_frozen() -> None:
    model = Model()
    model.blocks[2].freeze()
    assert repr(model).splitlines() == [
        "Model, 105 parameters: scale (1,), head (5, 4)",
        "  table: Embedding, 20 parameters: weight (5, 4)",
        "  blocks.0 to blocks.1: each Residual, 28 parameters",
        "    0: LayerNorm, 8 parameters: weight (4,), bias (4,)",
        "    1: Linear, 20 parameters: weight (4, 4), bias (4,)",
        "    2: relu",
        "  blocks.2: Residual, 28 parameters, frozen",
        "    0: LayerNorm, 8 parameters, frozen: weight (4,), bias (4,)",
        "    1: Linear, 20 parameters, frozen: weight (4, 4), bias (4,)",
        "    2: relu",
    ]


def test_attributes_that_are_equal_keep_their_lines() -> None:
    class Twins(Module):
        def __init__(self) -> None:
            self.first, self.second = nn.Linear(1, 1), nn.Linear(1, 1)

    assert [line.split(":")[0] for line in repr(Twins()).splitlines()[1:]] == ["  first", "  second"]


def test_modules_share_their_lines_only_if_their_names_follow_each_other() -> None:
    class Lists(Module):
        def __init__(self) -> None:
            self.encoder = [nn.Linear(4, 4) for _ in range(2)]
            self.decoder = [nn.Linear(4, 4), nn.Linear(4, 4), None, nn.Linear(4, 4)]
            self.fc1, self.fc2, self.fc4 = (nn.Linear(4, 4) for _ in range(3))

    rest = "Linear, 20 parameters: weight (4, 4), bias (4,)"
    assert repr(Lists()).splitlines()[1:] == [
        f"  encoder.0 to encoder.1: each {rest}",
        f"  decoder.0 to decoder.1: each {rest}",
        f"  decoder.3: {rest}",
        f"  fc1 to fc2: each {rest}",
        f"  fc4: {rest}",
    ]


def test_weights_are_saved_and_loaded_without_a_run(tmp_path: Path) -> None:
    model, other = Model(), Model()
    model.save_weights(tmp_path / "weights.safetensors")
    other.load_weights(str(tmp_path / "weights.safetensors"))
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(other.state_dict()[name], array)
    narrow = nn.Linear(4, 3)
    before = narrow.weight.data.copy()
    with pytest.raises(InputError, match=r"do not fit the model: missing: weight, bias; unexpected: blocks"):
        narrow.load_weights(tmp_path / "weights.safetensors")
    nn.Linear(3, 4).save_weights(tmp_path / "linear.safetensors")
    with pytest.raises(InputError, match=r"weight is \(4, 3\), should be \(3, 4\)"):
        narrow.load_weights(tmp_path / "linear.safetensors")
    with pytest.raises(InputError, match=r"cannot read .*nowhere\.safetensors"):
        narrow.load_weights(tmp_path / "nowhere.safetensors")
    np.testing.assert_array_equal(narrow.weight.data, before)
