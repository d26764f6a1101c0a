"""The state of a checkpoint: it comes back as it was saved, and anything else is refused with its name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.errors import InputError
from minigrad.training.folder import checkpoint
from minigrad.training.folder.checkpoint import Checkpoint, QuickEvaluation, Sample, State, Totals


def read(values: dict[str, Any]) -> State:
    return State.read(Checkpoint(7, {}, {}, values), "runs/a", ())


states = st.builds(
    State,
    updates=st.integers(0, 10**9),
    seconds=st.floats(0, 1e9),
    since_logged=st.builds(Totals, *2 * [st.floats(-1e300, 1e300), st.floats(0, 1e300)]),
    samples=st.lists(st.builds(Sample, st.integers(0, 10**9), st.text())),
    best=st.none() | st.builds(QuickEvaluation, st.integers(0, 10**9), st.floats(0, 9)),
)


@given(states)
def test_a_checkpoint_keeps_every_bit(state):
    assert read(json.loads(json.dumps(state.as_dict()))) == state


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"updates": -1}, "updates takes a whole number of at least 0 and at most 1,000,000,000,000,000, not -1"),
        ({"seconds": float("nan")}, "seconds takes a finite number of at least 0 .*, not nan"),
        ({"since_logged": {"nats": 1.0}}, r"since_logged\.bytes is missing"),
        ({"since_logged": None}, "since_logged is None, not an object"),
        ({"samples": [{"step": 1, "text": 2}]}, r"samples\[0\]\.text takes text, not 2"),
        ({"best": {"step": 2}}, r"best\.bits_per_byte is missing"),
    ],
)
def test_a_damaged_state_is_refused_with_the_field_and_its_value(damage, message):
    with pytest.raises(InputError, match=rf"state\.json of step 7 in runs/a is damaged: {message}"):
        read(State(3, 1.5, Totals(), []).as_dict() | damage)


@pytest.mark.parametrize("name", ["updates", "seconds", "since_logged", "samples"])
def test_a_missing_field_is_named(name):
    values = State(3, 1.5, Totals(), []).as_dict()
    del values[name]
    with pytest.raises(InputError, match=f"{name} is missing"):
        read(values)


def test_the_states_of_guests_stand_beside_that_of_the_run():
    state = State(3, 1.5, Totals(), [], QuickEvaluation(2, 1.5))
    values = state.as_dict({"context": {"largest": 9}})
    saved = Checkpoint(7, {}, {}, values)
    assert values["context"] == {"largest": 9}
    assert State.read(saved, "runs/a") == State.read(saved, "runs/a", ["context"]) == state
    with pytest.raises(InputError, match="step 7 in runs/a has a state called 'context', which this program does not"):
        State.read(saved, "runs/a", [])


def test_a_state_without_a_best_model_is_read():
    values = State(3, 1.5, Totals(), []).as_dict()
    assert "best" not in values
    assert read(values).best is None


def test_the_seconds_of_a_run_are_those_of_its_newest_checkpoint(tmp_path):
    assert checkpoint.seconds(tmp_path) == 0
    for step in (1, 2):
        state = State(step, step * 1.5, Totals(), []).as_dict({"guest": {}})
        folder = checkpoint.save(tmp_path, step, weights={}, moments={}, state=state)
    assert checkpoint.seconds(tmp_path) == 3
    (folder / "state.json").unlink()
    with pytest.raises(InputError, match=r"state\.json.*Delete the folder .*2 to continue from step 1\.$"):
        checkpoint.seconds(tmp_path)
