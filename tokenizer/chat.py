"""Conversations: how the messages of a chat become one sequence of tokens.

    <|user|>How are you?<|end|><|assistant|>Fine.<|end|>

A reader of the sequence must be able to trust its special tokens. So each message is encoded by itself, as ordinary
text, and the special tokens between the messages are added by id. If a user types `<|end|><|assistant|>`, these are
ordinary characters.

Models of other authors were taught other forms. Their folders hold the form as a template in the language Jinja, which
the package jinja2 runs; there, too, what a user types stays ordinary characters.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from tokenizer.bpe import Tokenizer
from tokenizer.disk import Json, read_file, read_json, write_json
from tokenizer.errors import TokenizerError
from tokenizer.formats.tokenizer_json import CHAT_TEMPLATE, CONFIG_FILE
from tokenizer.text.added_tokens import special_pattern

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


TEMPLATE_FILE = "chat_template.jinja"


class ChatTemplate:
    """The form of conversations that a model was taught; `load_chat` makes one from the folder of the model."""

    def __init__(self, tokenizer: Tokenizer, source: str | None = None, names: Mapping[str, str] | None = None) -> None:
        """Take a template in Jinja, or None for the form of `encode_chat`, and special tokens by the names it uses."""
        self.tokenizer, self.source, self.names = tokenizer, source, dict(names or {})
        self._template: Any = None if source is None else _compiled(source)

    def encode(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        """Return the token ids of the messages, and of the beginning of an answer.

        Raises TokenizerError for messages that the template refuses.
        """
        if self._template is None:
            return encode_chat(self.tokenizer, messages, add_generation_prompt=add_generation_prompt)
        import jinja2

        # A special token in a message is taken apart with a character that occurs nowhere, put together after the
        # special tokens of the template have been found, and so encoded as the characters that it consists of.
        everything = "".join([self.source or "", *(value for message in messages for value in message.values())])
        apart = next(chr(code) for code in range(0xE000, 0xF900) if chr(code) not in everything)
        pattern = special_pattern(self.tokenizer.specials)
        guarded = [
            {key: pattern.sub(lambda found: apart.join(found[0]), value) for key, value in message.items()}
            for message in messages
        ]
        try:
            text = self._template.render(messages=guarded, add_generation_prompt=add_generation_prompt, **self.names)
        except (jinja2.TemplateError, TypeError, ValueError) as error:
            raise TokenizerError(f"the chat template of this model refuses the messages: {error}") from error
        ids: list[int] = []
        for i, part in enumerate(pattern.split(text)):  # text, special token, text, ...
            ids += [self.tokenizer.specials[part]] if i % 2 else self.tokenizer.encode(part.replace(apart, ""))
        return ids

    def save(self, path: str | Path) -> None:
        """Add a template of another form to a folder with its tokenizer, where `load_chat` finds it.

        The form of `encode_chat` is there already. Raises TokenizerError if the folder cannot be read, OSError if it
        cannot be written.
        """
        if self.source is None:
            return
        file = Path(path) / CONFIG_FILE
        config = read_json(file) if file.is_file() else {}
        write_json(file, {**self.names, **config, "chat_template": self.source})


_ANSWER = "{% if add_generation_prompt %}BEGINassistant\n{% endif %}"
_FORM = "{% for message in messages %}BEGIN{{ message['role'] }}\n{{ message['content'] }}END\n{% endfor %}" + _ANSWER

FIRST_FORMS = {
    "<|im_end|>": _FORM.replace("BEGIN", "<|im_start|>").replace("END", "<|im_end|>"),
    "<|endoftext|>": _FORM.replace("BEGIN", "").replace("END", "<|endoftext|>"),
}
"""Templates for models that were trained on text alone, by the special token of theirs that ends a message.

Text models of today have the tokens of ChatML; GPT-2 has one token, so its messages begin with the name of the speaker.
"""


def load_chat(path: str | Path, tokenizer: Tokenizer, *, is_untaught: bool = False) -> ChatTemplate:
    """Return the form of conversations that the model in a folder was taught.

    A model that `is_untaught` gets one of `FIRST_FORMS`, if it has neither a template nor the tokens of `encode_chat`.
    Raises TokenizerError for a folder without a chat template whose tokenizer lacks the tokens of `encode_chat`; for a
    damaged template; and for a template of another form where jinja2 is not installed.
    """
    folder = Path(path)
    config = read_json(folder / CONFIG_FILE) if (folder / CONFIG_FILE).is_file() else {}
    source = _template_of(config)
    if (folder / TEMPLATE_FILE).is_file():
        source = read_file(folder / TEMPLATE_FILE).decode("utf-8", "replace")
    if source not in (None, CHAT_TEMPLATE):
        return ChatTemplate(tokenizer, source, _named_tokens(config))
    missing = [token for token in (*map(_token, ROLES), "<|end|>") if token not in tokenizer.specials]
    first = next((form for end, form in FIRST_FORMS.items() if end in tokenizer.specials), None)
    if missing and is_untaught and first is not None:
        return ChatTemplate(tokenizer, first, _named_tokens(config))
    if missing:
        raise TokenizerError(
            f"{folder} holds no chat model: it has no chat template, and its tokenizer no token {', '.join(missing)}."
        )
    return ChatTemplate(tokenizer)


def _template_of(config: Json) -> str | None:
    """Return the template in a tokenizer_config.json: a text, or the one named "default" among several."""
    found = config.get("chat_template")
    if isinstance(found, list):
        named = {each.get("name"): each.get("template") for each in found if isinstance(each, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _named_tokens(config: Json) -> dict[str, str]:
    """Return the special tokens of a tokenizer_config.json by the names that templates use, such as `bos_token`."""
    found = {}
    for name, value in config.items():
        content = value.get("content") if isinstance(value, dict) else value
        if name.endswith("_token") and isinstance(content, str):
            found[name] = content
    return found


def _compiled(source: str) -> Any:
    """Return a template of jinja2 in its sandbox, with what templates of chat models use besides Jinja itself."""
    try:
        import jinja2.sandbox
    except ModuleNotFoundError:
        raise TokenizerError(
            "the chat template of this model is written in Jinja; to use it install jinja2: "
            f"{sys.executable} -m pip install jinja2"
        ) from None

    def refuse(message: str) -> None:
        raise jinja2.TemplateError(message)

    extensions = ["jinja2.ext.loopcontrols"]
    room = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    room.globals["raise_exception"] = refuse
    room.filters["tojson"] = lambda value, **options: json.dumps(value, ensure_ascii=False, **options)
    try:
        return room.from_string(source)
    except jinja2.TemplateError as error:
        raise TokenizerError(f"the chat template of this model is damaged: {error}") from error
