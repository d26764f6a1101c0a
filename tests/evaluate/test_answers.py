"""Asking again: greedy answers are compared to the token, in the order and the number in which they were taught."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from minigrad.evaluate import answers
from minigrad.evaluate.answers import Question, ask, share_exact
from minigrad.finetuning.encoding import EncodedConversation, questions_of
from tests.finetuning.conftest import TOK, lesson

__all__ = ["lesson"]

Make = Callable[..., EncodedConversation]


def test_an_answer_is_exact_if_it_has_the_same_tokens_and_ends(lesson: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    end = TOK.specials["<|end|>"]
    lessons = [lesson("a", "x"), lesson("b", "y", "c", "zz"), lesson("d", "w")]
    said = {"a": [*TOK.encode("x"), end], "b": [*TOK.encode("y"), end], "c": TOK.encode("zzz"), "d": [end]}
    asked = []

    class Drawn(int):
        prompt: int

    def stream(model, prompts, settings, *, tokenizer):
        assert (settings.temperature, settings.tokens) == (0, 3)  # of the longest answer, with its end
        for number, prompt in enumerate(prompts):
            question = TOK.decode([token for token in prompt[:-2] if token > 4])[-1]
            asked.append(question)
            for token in said[question][: settings.tokens]:
                drawn = Drawn(token)
                drawn.prompt = number
                yield drawn

    monkeypatch.setattr(answers, "stream", stream)
    found = ask(None, TOK, questions_of(lessons))  # type: ignore[arg-type]
    assert {(each.question, each.expected): each.exact for each in found} == {
        ("a", "x"): True,
        ("b", "y"): True,
        ("c", "zz"): False,
        ("d", "w"): False,
    }
    assert share_exact(found) == 0.5
    assert sorted(asked) == ["a", "b", "c", "d"]
    last = dataclasses.replace(lessons[1], answers=lessons[1].answers[-1:])
    assert [each[:2] for each in ask(None, TOK, questions_of([last]))] == [("c", "zz")]  # type: ignore[arg-type]


def test_of_many_questions_some_are_asked_evenly(lesson: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_MOST_ASKED", 4)
    monkeypatch.setattr(answers, "_TOGETHER", 3)
    monkeypatch.setattr(answers, "stream", lambda *_, **__: iter(()))
    found = ask(None, TOK, questions_of(lesson(chr(97 + n), "x") for n in range(8)))  # type: ignore[arg-type]
    assert [each.question for each in found] == ["a", "c", "e", "g"]
    assert share_exact([]) == 0


def test_a_judge_accepts_other_answers_which_may_have_one_more_token(
    lesson: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths, judged = list[int](), list[tuple[str, list[int]]]()
    monkeypatch.setattr(answers, "stream", lambda *given, **_: lengths.append(given[2].tokens) or iter(()))

    def judge(question: Question, tokens: list[int]) -> bool:
        judged.append((question.text, tokens))
        return question.text == "a"

    questions = questions_of([lesson("a", "x"), lesson("b", "yy")])
    found = ask(None, TOK, questions, judge)  # type: ignore[arg-type]
    assert {each.question: each.exact for each in found} == {"a": True, "b": False}
    assert judged == [("a", []), ("b", [])]
    assert lengths == [1 + max(len(each.tokens) for each in questions)]
