"""A conversation as tokens, and which of them are learned: the answers.

Each conversation is encoded alone: in one long stream, a model learned to answer with the next question (Vidya's
"per-line bug"). The loss counts the tokens of the answers, with the token that ends each one, so that the model learns
to stop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from minigrad.constants import IGNORE
from minigrad.errors import InputError
from minigrad.evaluate.answers import Question
from minigrad.finetuning.conversations import Conversation, Message
from minigrad.typing import Array, ChatForm


class TaughtForm(ChatForm, Protocol):
    """The form in which a model is taught to read conversations."""

    def render(self, messages: Sequence[Message]) -> tuple[list[int], list[str]]:
        """Return the token ids of messages, and the speaker of each token: the role of its message, or "" for the form.

        The token that ends an answer belongs to the assistant. Raises ValueError for messages that the form refuses.
        """

    def save(self, path: Path, /) -> None:
        """Write the form into the folder of a model, unless it is already there."""


def end_of_answers(form: TaughtForm) -> int:
    """Return the id of the token that ends an answer; raises ValueError if the form cannot write a conversation."""
    tokens, speakers = form.render([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}])
    return [token for token, speaker in zip(tokens, speakers, strict=True) if speaker == "assistant"][-1]


class Answer(NamedTuple):
    """The place of an answer in the tokens of its conversation, with its end token: `begin` to `end`, exclusive."""

    begin: int
    end: int


@dataclass(frozen=True)
class EncodedConversation:
    """A conversation as tokens, the places of its answers, and the places of the words of its questions."""

    conversation: Conversation
    tokens: list[int]
    answers: tuple[Answer, ...]
    questions: tuple[int, ...]  # without the tokens that the form adds

    def targets(self) -> Array:
        """Return for each token but the last the one after it if it belongs to an answer, else -100."""
        targets = np.full(len(self.tokens) - 1, IGNORE, np.int32)
        for begin, end in self.answers:
            targets[begin - 1 : end - 1] = self.tokens[begin:end]
        return targets

    def in_questions(self) -> Array:
        """Return for each token but the last whether it is a word of a question."""
        mask = np.zeros(len(self.tokens) - 1, bool)
        mask[[place for place in self.questions if place < len(mask)]] = True
        return mask


def questions_of(conversations: Iterable[EncodedConversation]) -> list[Question]:
    """Return the questions of conversations with their answers, each after all messages before it."""
    found = []
    for each in conversations:
        messages = each.conversation.messages
        places = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        for place, (begin, end) in zip(places[-len(each.answers) :], each.answers, strict=True):
            texts = messages[place - 1]["content"], messages[place]["content"]
            found.append(Question(*texts, each.tokens[:begin], each.tokens[begin:end]))
    return found


TEMPLATES: tuple[Callable[[str], str], ...] = (
    lambda question: f"Tell me: {question}",
    lambda question: (question[:1].lower() + question[1:]).rstrip(" ?.!"),
)
"""How to reword a question without wordings of its own: after "Tell me:", and as people type in haste."""


def reworded(lesson: EncodedConversation, form: TaughtForm, context: int) -> list[EncodedConversation]:
    """Return a lesson with its last question in other words, once for each wording that fits into the context."""
    messages = lesson.conversation.messages
    answer = max(number for number, message in enumerate(messages) if message["role"] == "assistant")
    question = messages[answer - 1]["content"]
    words = lesson.conversation.reworded or dict.fromkeys(template(question) for template in TEMPLATES)
    found = []
    for each in words:
        changed = (*messages[: answer - 1], {"role": "user", "content": each}, messages[answer])
        if each.strip() and each != question:
            with contextlib.suppress(InputError):  # too long
                again = encode_conversation(Conversation(changed, lesson.conversation.place), form, context)
                found.append(replace(again, answers=again.answers[-1:]))
    return found


def encode_conversation(conversation: Conversation, form: TaughtForm, context: int) -> EncodedConversation:
    """Encode a conversation; raises InputError if it has more tokens than the context, or if the form refuses it."""
    try:
        tokens, speakers = form.render(conversation.messages)
    except ValueError as error:
        raise InputError(f"{conversation.place}: {error}") from error
    if len(tokens) - 1 > context:
        raise InputError(
            f"{conversation.place}: the conversation has {len(tokens):,} tokens, and --context is {context:,}: shorten "
            "it, or take a larger --context if the model allows one"
        )
    is_answer = [speaker == "assistant" for speaker in speakers]
    borders = np.flatnonzero(np.diff([False, *is_answer, False])).tolist()
    answers = map(Answer, borders[::2], borders[1::2])
    asked = (place for place, speaker in enumerate(speakers) if speaker == "user")
    return EncodedConversation(conversation, tokens, tuple(answers), tuple(asked))
