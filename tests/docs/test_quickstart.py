"""The programs of docs/quickstart.md run as they stand, in an empty folder, and do what the page says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from minigrad.nn import parameter
from tests.docs.python_blocks import number_of_lines, python_blocks, run

PROGRAMS = python_blocks("docs/quickstart.md")


def program(words: str) -> str:
    """Return the only program that contains `words`."""
    (found,) = [each for each in PROGRAMS if words in each]
    return found


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(parameter, "_drawn", 0)  # a reader's process has drawn no parameters before


def test_the_gradient_is_the_derivative() -> None:
    x = run(program("y.backward()"))["x"]
    t, (a, b) = np.tanh(x.data), (x.data, x.data**2)
    np.testing.assert_allclose(x.grad, t * 2 * a + (1 - t**2) * b, rtol=1e-5)


def test_the_spirals_are_separated(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(program("accuracy"))["accuracy"].item() >= 0.98
    assert "Sequential, 4,482 parameters" in capsys.readouterr().out


def test_a_tiny_gpt_predicts_far_better_than_a_bigram_model(capsys: pytest.CaptureFixture[str]) -> None:
    bigram = run(program("nn.Embedding(256, 256)"))["loss"].item()
    gpt = run(program("nn.SelfAttention"))
    assert 1.8 < bigram < 2.6
    assert gpt["loss"].item() < bigram - 0.5
    assert len(gpt["written"]) == 204
    assert "def " in capsys.readouterr().out


def test_weights_are_saved_loaded_and_frozen(capsys: pytest.CaptureFixture[str]) -> None:
    names = run(program("save_weights"))
    for name, array in names["model"].state_dict().items():
        np.testing.assert_array_equal(names["other"].state_dict()[name], array)
    assert "192 parameters, frozen" in capsys.readouterr().out


def test_the_state_of_an_optimizer_is_taken_over() -> None:
    names = run(program("optim.SGD"))
    assert names["same"].steps == 10
    assert names["norm"] > 0
    for name, array in names["optimizer"].state_dict().items():
        np.testing.assert_array_equal(names["same"].state_dict()[name], array)


def test_a_mask_hides_keys_and_can_be_learned() -> None:
    names = run(program("scaled_dot_product_attention"))
    assert names["causal"].shape == names["local"].shape == (2, 4, 10, 8)
    np.testing.assert_allclose(names["causal"].data[:, :, 0], names["v"].data[:, :, 0])
    assert names["distance"].grad.any()


def test_a_model_writes(capsys: pytest.CaptureFixture[str]) -> None:
    run(program("generation.write"))
    assert capsys.readouterr().out.startswith("to be")


def test_a_program_has_at_most_twenty_lines() -> None:
    assert max(map(number_of_lines, PROGRAMS)) <= 20
