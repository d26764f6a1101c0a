"""A conversation as tokens: special tokens by id, and a loss on the answers with their end alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from minigrad import InputError
from minigrad.finetuning.conversations import Conversation, Message
from minigrad.finetuning.encoding import EncodedConversation, encode_conversation, end_of_answers, reworded
from tests.finetuning.conftest import TOK
from tokenizer.chat import ChatTemplate, mark_speakers

END = TOK.specials["<|end|>"]
CHATML = (  # with other tokens in the places of its own
    "{% for m in messages %}<|user|>{{ m.role }}\n{{ m.content }}<|system|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|user|>assistant\n{% endif %}"
)
Make = Callable[..., EncodedConversation]


def learned(lesson: EncodedConversation) -> list[str]:
    """Return the texts of the runs of tokens that are learned; a special token is shown by its id."""
    texts, before = list[str](), -100
    for target in lesson.targets().tolist():
        if target != -100:
            text = f"[{target}]" if target in TOK.specials.values() else TOK.decode([target])
            texts[-1:] = [texts[-1] + text] if before != -100 else [*texts[-1:], text]
        before = target
    return texts


def test_the_answers_are_learned_with_the_token_that_ends_them(lesson: Make) -> None:
    assert learned(lesson("How?", "So.", "Why?", "Because.")) == [f"So.[{END}]", f"Because.[{END}]"]


@pytest.mark.parametrize(("template", "name"), [(None, "<|end|>"), (CHATML, "<|system|>")])
def test_an_answer_ends_with_the_token_of_its_form(template: str | None, name: str) -> None:
    assert end_of_answers(ChatTemplate(TOK, template)) == TOK.specials[name]


def test_the_prompt_of_an_answer_is_what_a_chat_would_give(lesson: Make) -> None:
    found = lesson("How?", "So.", "Why?", "Because.")
    messages = found.conversation.messages
    for number, (begin, end) in zip((1, 3), found.answers, strict=True):
        assert found.tokens[:begin] == ChatTemplate(TOK).encode(messages[:number])
        assert found.tokens[begin:end] == [*TOK.encode(messages[number]["content"]), END]


def test_a_special_token_that_somebody_typed_is_letters(lesson: Make) -> None:
    found = lesson("a<|end|><|assistant|>b", "c")
    assert [token for token in found.tokens if token in TOK.specials.values()] == [1, END, 2, END]
    assert learned(found) == [f"c[{END}]"]


def test_a_conversation_longer_than_the_context_is_refused_with_its_place(lesson: Make) -> None:
    assert len(lesson("a", "b", context=5).tokens) == 6
    with pytest.raises(InputError, match=r"book.txt, line 1: the conversation has 6 tokens, and --context is 4"):
        lesson("a", "b", context=4)


def questions(lessons: Sequence[EncodedConversation]) -> list[list[str]]:
    return [[each["content"] for each in lesson.conversation.messages] for lesson in lessons]


def test_the_last_question_is_reworded_by_templates_or_as_the_data_says(lesson: Make) -> None:
    found = lesson("How?", "So.", "Why is it?", "Because.")
    again = reworded(found, ChatTemplate(TOK), 64)
    assert questions(again) == [
        ["How?", "So.", "Tell me: Why is it?", "Because."],
        ["How?", "So.", "why is it", "Because."],
    ]
    assert [learned(each) for each in again] == [[f"Because.[{END}]"]] * 2
    given = replace(found, conversation=replace(found.conversation, reworded=("And why?",)))
    assert questions(reworded(given, ChatTemplate(TOK), 64)) == [["How?", "So.", "And why?", "Because."]]
    assert questions(reworded(found, ChatTemplate(TOK), 33)) == [["How?", "So.", "why is it", "Because."]]
    assert not reworded(lesson("?", "b"), ChatTemplate(TOK), 8)  # nothing is left of it, or it is too long


class Rewriting:
    """A form that leaves out all messages but the last, or the end of an answer."""

    def __init__(self, ends: bool) -> None:
        self.ends = ends

    def encode(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> list[int]:
        kept = messages[-1:] if self.ends else messages
        ids = ChatTemplate(TOK).encode(kept, add_generation_prompt=add_generation_prompt)
        return ids if self.ends else [token for token in ids if token != END]

    def render(self, messages: Sequence[Message]) -> tuple[list[int], list[str]]:
        return mark_speakers(self.encode, messages, {END})

    def save(self, path: Path) -> None:
        pytest.fail("nothing is saved while a conversation is read")


@pytest.mark.parametrize("ends", [True, False])
def test_a_form_in_which_answers_cannot_be_found_is_refused(ends: bool) -> None:
    talk = Conversation(({"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}), "x, line 3")
    with pytest.raises(InputError, match="x, line 3: the chat template of this model changes earlier messages"):
        encode_conversation(talk, Rewriting(ends), 64)
