"""What a report says of a taught model: the share of right answers, and the validation text before and after."""

from __future__ import annotations

from typing import Any

import pytest

from minigrad.evaluate.answers import Answered, Question
from minigrad.finetuning import teaching
from minigrad.finetuning.teaching import Student


class Parrot(Student):
    """A student that answers every question with "yes" and takes 2 bits per byte of text."""

    def __init__(self) -> None:
        model: Any = None
        super().__init__(model, model, lambda model: 2.0)

    def ask(self, questions: Any, judge: Any = None) -> list[Answered]:
        return [Answered(each.text, each.answer, "yes", each.answer == "yes") for each in questions]


ASKED = [Question("a <b>", "yes", [1], [2]), Question("c\nd", "no", [1], [3])]


def test_the_figures_before_the_first_step_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert teaching.measure_answers(Parrot(), ASKED) == {"bits_per_byte": 2.0, "recall": 0.5}
    assert capsys.readouterr().out == (
        "before the lessons: 50.0% of the answers exact, validation text 2.000 bits per byte\n"
    )


def test_the_report_says_among_how_many_questions_the_asked_ones_were_chosen() -> None:
    class Brief(Parrot):
        def ask(self, questions: Any, judge: Any = None) -> list[Answered]:
            return super().ask(questions[:1])

    before = {"bits_per_byte": 1.6, "recall": 0.0}
    found = teaching.examine_answers(Brief(), before, 2.0, questions=ASKED, asked="taught questions")
    assert "1 of 1 taught questions, chosen among 2, are answered token for token" in found.section


def test_the_answers_are_compared_with_those_before_and_the_wrong_ones_are_shown_first() -> None:
    before = {"bits_per_byte": 1.6, "recall": 0.0}
    found = teaching.examine_answers(
        Parrot(), before, 2.0, questions=ASKED, asked="taught questions", reworded=ASKED[:1]
    )
    assert found.figures == {"recall": 0.5, "recall_reworded": 1.0, "bits_per_byte_before": 1.6}
    assert found.verdict == (
        "after the lessons: 50.0% of the answers exact, 100.0% to reworded questions, validation text 2.000 bits per "
        "byte (+25.0%)"
    )
    assert "1 of 2 taught questions are answered token for token (50%; before: 0%)" in found.section
    assert found.section.index("c<br>d") < found.section.index("a &lt;b&gt;")


def test_the_mean_gain_of_chosen_answers_is_said_with_its_sign() -> None:
    figures = {"preferred": 0.6, "margin": -0.3, "chosen": 0.1}
    found = teaching.finding("Some pairs moved apart.", figures, 1.6, 2.0)
    assert found.verdict == (
        "after the lessons: 60.0% of the pairs further apart, -0.30 nats on average, validation text 2.000 bits per "
        "byte (+25.0%)"
    )
    assert "needed 1.600 bits per byte for the validation text of the pre-training before, and needs 2.000 now" in (
        found.section
    )
