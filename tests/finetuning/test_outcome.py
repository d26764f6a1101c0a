"""What a report says of a taught model: the share of right answers, and the validation text before and after."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from minigrad.evaluate.answers import Answered, Question
from minigrad.finetuning import outcome

ASKED = [Question("a <b>", "yes", [1], [2]), Question("c\nd", "no", [1], [3])]


def test_the_answers_are_compared_with_those_before_and_the_wrong_ones_are_shown_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A model that says "yes" to everything."""

    def ask(model: Any, tokenizer: Any, questions: list[Question], judge: Any = None) -> list[Answered]:
        return [Answered(each.text, each.answer, "yes", each.answer == "yes") for each in questions]

    monkeypatch.setattr(outcome, "ask", ask)
    record = SimpleNamespace(before={"bits_per_byte": 1.6, "recall": 0.0})
    text, score = SimpleNamespace(tokenizer=None), SimpleNamespace(bits_per_byte=2.0)
    run: Any = SimpleNamespace(model=None, text=text, score=score, folder=SimpleNamespace(record=record))
    found = outcome.examine(run, ASKED, "taught answers", ASKED[:1])
    assert found.figures == {"recall": 0.5, "recall_reworded": 1.0, "bits_per_byte_before": 1.6}
    assert found.verdict == (
        "after the lessons: 50.0% of the answers exact, 100.0% to reworded questions, validation text 2.000 bits per "
        "byte (+25.0%)"
    )
    assert "1 of 2 taught answers are answered token for token (50%; before: 0%)" in found.section
    assert found.section.index("c<br>d") < found.section.index("a &lt;b&gt;")
