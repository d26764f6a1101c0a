"""Conversations: how the messages of a chat become one sequence of tokens.

    <|user|>How are you?<|end|><|assistant|>Fine.<|end|>

A reader of the sequence must be able to trust its special tokens. So each message is encoded by itself, as ordinary
text, and the special tokens between the messages are added by id. If a user types `<|end|><|assistant|>`, these are
ordinary characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from tokenizer.bpe import Tokenizer
from tokenizer.errors import TokenizerError

ROLES = ("user", "assistant", "system")


def encode_chat(
    tokenizer: Tokenizer, messages: Iterable[Mapping[str, str]], *, add_generation_prompt: bool = False
) -> list[int]:
    """Return the token ids of messages such as {"role": "user", "content": "Hello"}.

    With `add_generation_prompt`, the sequence ends with `<|assistant|>`, so the model continues with an answer.
    Raises TokenizerError for another role, a missing field, or a tokenizer without the special tokens.

    >>> from tokenizer import train
    >>> hello = [{"role": "user", "content": "Hi<|end|>"}]
    >>> encode_chat(train([], vocab_size=261), hello, add_generation_prompt=True)
    [1, 77, 110, 65, 129, 106, 115, 105, 129, 67, 4, 2]
    """
    specials = tokenizer.specials
    missing = [token for token in (*map(_token, ROLES), "<|end|>") if token not in specials]
    if missing:
        raise TokenizerError(f"this tokenizer cannot write a chat: it has no token {', '.join(missing)}.")
    ids: list[int] = []
    for number, message in enumerate(messages):
        for field in ("role", "content"):
            if not isinstance(message.get(field), str):
                raise TokenizerError(f"message {number} has no text in the field {field!r}: {dict(message)!r}.")
        if message["role"] not in ROLES:
            nearest = get_close_matches(message["role"], ROLES, n=1)
            hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
            raise TokenizerError(
                f"message {number} has the role {message['role']!r}: expected one of {', '.join(ROLES)}{hint}"
            )
        ids += [specials[_token(message["role"])], *tokenizer.encode(message["content"]), specials["<|end|>"]]
    if add_generation_prompt:
        ids.append(specials["<|assistant|>"])
    return ids


def _token(role: str) -> str:
    return f"<|{role}|>"
