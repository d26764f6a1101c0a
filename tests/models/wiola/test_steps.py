"""The steps of Wiola: its mechanisms have a program, and what depends on the data or reorders heads has none."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from minigrad.kernels.decoding import program as codes
from minigrad.programs.decoder import Decoder
from minigrad.programs.lower import program_of
from tests.models.tiny import build


def test_each_mechanism_is_a_step() -> None:
    program = program_of(build("wiola"))
    assert program is not None
    counts = Counter(step.code for step in program.steps)
    assert counts[codes.BLEND] == counts[codes.SIGMOID_GATE] == 6
    assert counts[codes.SUMMARISE] == counts[codes.ATTEND_TO_FEW] == 5
    assert counts[codes.OFFSET_RMS_NORM] == 13


@pytest.mark.parametrize(
    "changes", [{"atm_at_generation": True}, {"gcla_summary": "paper"}, {"gqa_layout": "interleaved"}]
)
def test_some_variants_are_left_to_the_model(changes: dict[str, Any]) -> None:
    assert not Decoder(build("wiola", **changes)).has_program
    assert Decoder(build("wiola", atm="off")).has_program
