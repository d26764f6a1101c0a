"""The model in one file: its gradient is the right one, it learns, and it needs nothing but NumPy."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs.course import one_file
from tests.source_files import ROOT, imports_of

TOKENS = np.random.default_rng(3).integers(0, one_file.VOCABULARY, size=(2, 3, 5))  # inputs and targets, (B, T) each


@pytest.fixture
def parameters(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the parameters of a tiny model, none of them zero."""
    for name, value in {"WIDTH": 8, "LAYERS": 2, "HEADS": 2, "CONTEXT": 5, "STEPS": 60}.items():
        monkeypatch.setattr(one_file, name, value)
    rng = np.random.default_rng(0)
    return {name: 0.3 * rng.normal(size=w.shape) for name, w in one_file.new_parameters(rng).items()}


def loss_and_gradients(p: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    logits, backward = one_file.gpt(TOKENS[0], p)
    loss, loss_backward = one_file.cross_entropy(logits, TOKENS[1])
    return loss, backward(loss_backward())


def test_the_gradient_is_that_of_differences(parameters: dict[str, Any]) -> None:
    _, gradients = loss_and_gradients(parameters)
    rng, h = np.random.default_rng(1), 1e-6
    assert gradients.keys() == parameters.keys()
    for name, w in parameters.items():
        direction = rng.normal(size=w.shape)
        plus, minus = ({**parameters, name: w + step * direction} for step in (h, -h))
        slope = (loss_and_gradients(plus)[0] - loss_and_gradients(minus)[0]) / (2 * h)
        assert (gradients[name] * direction).sum() == pytest.approx(slope, rel=1e-6, abs=1e-8), name


def test_no_position_sees_a_later_one(parameters: dict[str, Any]) -> None:
    changed = TOKENS[0].copy()
    changed[:, 3] = (changed[:, 3] + 1) % one_file.VOCABULARY
    before, after = (one_file.gpt(tokens, parameters)[0] for tokens in (TOKENS[0], changed))
    np.testing.assert_array_equal(before[:, :3], after[:, :3])
    assert (before[:, 3:] != after[:, 3:]).any()


def test_the_loss_of_a_new_model_is_that_of_chance_and_falls(parameters: dict[str, Any]) -> None:
    p = {name: w.astype(np.float32) for name, w in one_file.new_parameters(np.random.default_rng(0)).items()}
    state: dict[str, Any] = {}
    first, _ = loss_and_gradients(p)
    assert first == pytest.approx(np.log(one_file.VOCABULARY))
    for step in range(one_file.STEPS):
        _, gradients = loss_and_gradients(p)
        one_file.adamw(p, gradients, state, step)
    assert loss_and_gradients(p)[0] < first - 1
    assert {w.dtype for w in (*p.values(), *gradients.values())} == {np.dtype(np.float32)}


def test_the_text_is_that_of_docstrings(tmp_path: Path, parameters: dict[str, Any]) -> None:
    for number in range(11):
        text = f'"""Module {number}."""\n\ndef f():\n    "é or not."\n'
        (tmp_path / f"m{number:02}.py").write_text(text, encoding="utf-8")
    text, validation = one_file.read_text(tmp_path)
    assert bytes(validation) == b"Module 0.\n\n or not.\n\nModule 10.\n\n or not."
    assert bytes(text).startswith(b"Module 1.\n\n or not.\n\nModule 2.")
    inputs, targets = one_file.draw_batch(text, 4, np.random.default_rng(0))
    assert inputs.shape == targets.shape == (4, 5)
    np.testing.assert_array_equal(inputs[:, 1:], targets[:, :-1])


def test_it_writes(parameters: dict[str, Any]) -> None:
    written = one_file.write(parameters, "Return ", 9, np.random.default_rng(0))
    assert written.startswith("Return ")
    assert len(written) == 16


def test_it_needs_nothing_but_numpy() -> None:
    names = {name.split(".")[0] for name, _ in imports_of(ROOT / "docs" / "course" / "one_file.py")}
    assert names - {"numpy"} <= sys.stdlib_module_names
