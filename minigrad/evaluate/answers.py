"""Ask a model questions whose answers are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from minigrad.generation.decoding import stream
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.typing import Tokenizer

_MOST_ASKED = 500  # questions; if there are more, this many are chosen at even distances
_TOGETHER = 64  # questions that are answered at once


class Question(NamedTuple):
    """A question and its answer as texts, and as tokens: the prompt, and the answer with its end token."""

    text: str
    answer: str
    prompt: list[int]
    tokens: list[int]


Judge = Callable[[Question, list[int]], bool]
"""Tells whether the tokens that the model wrote answer a question."""


class Answered(NamedTuple):
    """A question, its known answer, what the model says, and whether that is right."""

    question: str
    expected: str
    said: str
    exact: bool


def ask(
    model: LanguageModel, tokenizer: Tokenizer, questions: Sequence[Question], judge: Judge | None = None
) -> list[Answered]:
    """Let the model answer by its most likely tokens; exact answers are the known ones, or any that `judge` accepts."""
    count = min(len(questions), _MOST_ASKED)
    asked = [questions[number * len(questions) // count] for number in range(count)]
    asked.sort(key=lambda each: len(each.tokens))  # answers of one length are written together
    answered = []
    for first in range(0, count, _TOGETHER):
        group = asked[first : first + _TOGETHER]
        said: list[list[int]] = [[] for _ in group]
        longest = max(len(each.tokens) for each in group)
        space = judge is not None  # a right answer may begin with one
        greedy = Sampling(temperature=0, top_p=None, tokens=longest + space)
        for token in stream(model, [each.prompt for each in group], greedy, tokenizer=tokenizer):
            said[token.prompt].append(int(token))
        for each, ids in zip(group, said, strict=True):
            exact = ids == each.tokens if judge is None else judge(each, ids)
            answered.append(Answered(each.text, each.answer, tokenizer.decode(ids), exact))
    return answered


def share_exact(answered: Sequence[Answered]) -> float:
    """Return the share of the exact answers."""
    return sum(each.exact for each in answered) / max(len(answered), 1)
