"""A tokenizer of bytes with the special tokens of conversations, and lessons in its form."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import tokenizer
from minigrad.finetuning.conversations import Conversation
from minigrad.finetuning.encoding import EncodedConversation, encode_conversation
from tokenizer.chat import ChatTemplate

TOK = tokenizer.train([], vocab_size=261)


@pytest.fixture
def lesson() -> Callable[..., EncodedConversation]:
    """Encode a conversation given as questions and answers in turn."""

    def lesson(*contents: str, context: int = 64) -> EncodedConversation:
        roles = ("user", "assistant") * len(contents)
        messages = [{"role": role, "content": each} for role, each in zip(roles, contents, strict=False)]
        conversation = Conversation(tuple(messages), "book.txt, line 1")
        return encode_conversation(conversation, ChatTemplate(TOK), context)

    return lesson
