"""Conversations: how the messages of a chat become one sequence of tokens.

    <|user|>How are you?<|end|><|assistant|>Fine.<|end|>

A reader of the sequence must be able to trust its special tokens. So each message is encoded by itself, as ordinary
text, and the special tokens between the messages are added by id. If a user types `<|end|><|assistant|>`, these are
ordinary characters.

Models of other authors were taught other forms. Their folders hold the form as a template in the language Jinja, which
jinja2 renders in a process with bounds (`tokenizer.templates`); there, too, what a user types is ordinary characters.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from tokenizer.bpe import Tokenizer
from tokenizer.disk import located, read_file, write_json
from tokenizer.errors import TokenizerError, did_you_mean
from tokenizer.formats.tokenizer_json import CHAT_TEMPLATE, CONFIG_FILE, named_tokens, read_config
from tokenizer.templates.renderer import Renderer
from tokenizer.text.added_tokens import special_pattern

SPEAKERS = ("user", "assistant", "system")


def encode_chat(
    tokenizer: Tokenizer, messages: Iterable[Mapping[str, str]], *, add_generation_prompt: bool = False
) -> list[int]:
    """Return the token ids of messages such as {"role": "user", "content": "Hello"}.

    With `add_generation_prompt`, the sequence ends with `<|assistant|>`, so the model continues with an answer.
    Errors are those of `render_conversation`.

    >>> from tokenizer import train
    >>> hello = [{"role": "user", "content": "Hi<|end|>"}]
    >>> encode_chat(train([], vocab_size=261), hello, add_generation_prompt=True)
    [1, 77, 110, 65, 129, 106, 115, 105, 129, 67, 4, 2]
    """
    ids, _ = render_conversation(tokenizer, messages)
    return [*ids, tokenizer.specials["<|assistant|>"]] if add_generation_prompt else ids


def render_conversation(tokenizer: Tokenizer, messages: Iterable[Mapping[str, str]]) -> tuple[list[int], list[str]]:
    """Return the token ids of messages, and the speaker of each token: the role of its message, or "" for the form.

    A model that is taught conversations learns the tokens of the assistant, including the `<|end|>` of each answer.
    Raises TokenizerError for another role, a missing field, or a tokenizer without the special tokens.

    >>> from tokenizer import train
    >>> talk = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ha"}]
    >>> ids, speakers = render_conversation(train([], vocab_size=261), talk)
    >>> [token for token, speaker in zip(ids, speakers) if speaker == "assistant"]
    [77, 102, 4]
    """
    specials = tokenizer.specials
    if missing := _missing(tokenizer):
        raise TokenizerError(f"this tokenizer cannot write a chat: it has no token {missing}.")
    ids: list[int] = []
    speakers: list[str] = []
    for number, message in enumerate(messages):
        _check_texts(number, message)
        if (role := message["role"]) not in SPEAKERS:
            expected = f"expected one of {', '.join(SPEAKERS)}{did_you_mean(role, SPEAKERS)}"
            raise TokenizerError(f"message {number} has the role {role!r}: {expected}")
        content = tokenizer.encode(message["content"])
        ids += [specials[f"<|{role}|>"], *content, specials["<|end|>"]]
        speakers += ["", *[role] * len(content), role if role == "assistant" else ""]
    return ids, speakers


def _check_texts(number: int, message: Mapping[str, object], *others: str) -> None:
    """Raise TokenizerError unless the role and the content of a message, and its `others` fields, are texts."""
    if not isinstance(message, Mapping):
        raise TokenizerError(
            f"message {number} is {message!r}; pass a list of messages, as in [{{'role': 'user', 'content': 'hello'}}]."
        )
    for field in ("role", "content", *others):
        if not isinstance(message.get(field), str):
            raise TokenizerError(f"message {number} has no text in the field {field!r}: {dict(message)!r}.")


def mark_speakers(
    encode: Callable[..., list[int]], messages: Sequence[Mapping[str, str]], ends: Collection[int]
) -> tuple[list[int], list[str]]:
    """Return what `render_conversation` returns, for any form of conversations.

    ``encode(messages, add_generation_prompt)`` writes the form. An answer reaches from the end of its prompt to its
    last special token, one of the ids `ends`. The words of another message are the tokens that change with its content.
    Raises TokenizerError if an answer cannot be found in the whole conversation.
    """
    ids = encode(messages, add_generation_prompt=False)
    speakers = [""] * len(ids)
    for number, message in enumerate(messages):
        if message["role"] != "assistant":
            for place in _words(ids, encode, messages, number):
                speakers[place] = message["role"]
    for number, message in enumerate(messages):  # last: if a form repeats a question after its answer, they overlap
        if message["role"] == "assistant":
            for place in _answer(ids, encode, messages[: number + 1], ends):
                speakers[place] = "assistant"
    return ids, speakers


def _answer(
    ids: list[int], encode: Callable[..., list[int]], messages: Sequence[Mapping[str, str]], ends: Collection[int]
) -> range:
    """Return the places of the last message among the tokens of a conversation that begins with `messages`."""
    prompt = encode(messages[:-1], add_generation_prompt=True)
    until = encode(messages, add_generation_prompt=False)
    last = max((place for place in range(len(prompt), len(until)) if until[place] in ends), default=None)
    if ids[: len(prompt)] != prompt or ids[: len(until)] != until or last is None:
        raise TokenizerError(
            "the chat template of this model changes earlier messages, ends no answer with a special token, or has "
            "a space before an answer that joins its first word, so its answers cannot be found among the tokens"
        )
    return range(len(prompt), last + 1)


def _words(
    ids: list[int], encode: Callable[..., list[int]], messages: Sequence[Mapping[str, str]], number: int
) -> range:
    """Return the places of the words of a message: the tokens of a conversation that change with its content."""
    text = messages[number]["content"].strip()  # a form may leave out spaces around it
    # A control character forms no token with a space of the form before it, as a letter would.
    mark = next(each for each in "\1\2\3" if each not in (text[:1], text[-1:]))
    other = [*messages[:number], {**messages[number], "content": mark}, *messages[number + 1 :]]
    changed = encode(other, add_generation_prompt=False)
    return range(_common(ids, changed), len(ids) - _common(ids[::-1], changed[::-1]))


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of tokens with which both sequences begin."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def _missing(tokenizer: Tokenizer) -> str:
    """Return the special tokens that `encode_chat` needs and a tokenizer lacks."""
    needed = (*(f"<|{role}|>" for role in SPEAKERS), "<|end|>")
    return ", ".join(token for token in needed if token not in tokenizer.specials)


TEMPLATE_FILE = "chat_template.jinja"
PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))  # without a meaning
PLACE = "the chat template of this model"


class ChatTemplate:
    """The form of conversations that a model was taught; `load_chat` makes one from the folder of the model.

    `source` is a template in Jinja, or None for the form of `encode_chat`; `names` are special tokens by the names that
    it uses; `place` is what errors call it.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        source: str | None = None,
        names: Mapping[str, str] | None = None,
        place: str = PLACE,
    ) -> None:
        self.tokenizer, self.source, self.names = tokenizer, source, dict(names or {})
        self._renderer = None if source is None else Renderer(source, place)

    def encode(self, messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = True) -> list[int]:
        """Return the ids of messages and of the beginning of an answer; raises TokenizerError if they are refused."""
        if self._renderer is None:
            return encode_chat(self.tokenizer, messages, add_generation_prompt=add_generation_prompt)
        for number, message in enumerate(messages):
            _check_texts(number, message, *message)
        # The name of a special token in a message is replaced by characters that occur nowhere. It comes back after the
        # special tokens of the template have been found, and so is encoded as the characters that it consists of.
        used = {*(self.source or ""), *"".join(value for message in messages for value in message.values())}
        used |= {*"".join(self.tokenizer.specials)}
        free = (each for each in map(chr, itertools.chain(*PRIVATE_USE)) if each not in used)
        edge, count = next(free, ""), next(free, "")
        if not count:
            raise TokenizerError("the messages hold every private-use character of Unicode; leave out two of them")
        pattern = special_pattern(self.tokenizer.specials)
        codes = {name: edge + count * number + edge for number, name in enumerate(self.tokenizer.specials)}
        meant = {code: name for name, code in codes.items()}
        guarded = [
            {key: pattern.sub(lambda found: codes[found[0]], value) for key, value in message.items()}
            for message in messages
        ]
        text = self._renderer.render(messages=guarded, add_generation_prompt=add_generation_prompt, **self.names)

        def encoded(part: str) -> list[int]:
            # A template may cut a message within a code, and what is left of it has no meaning.
            return self.tokenizer.encode(re.sub(f"{edge}{count}*{edge}", lambda code: meant.get(code[0], ""), part))

        ids: list[int] = []
        for i, part in enumerate(pattern.split(text)):  # text, special token, text, ...
            ids += [self.tokenizer.specials[part]] if i % 2 else encoded(part)
        return ids

    def render(self, messages: Sequence[Mapping[str, str]]) -> tuple[list[int], list[str]]:
        """Return the ids of messages, and the speaker of each; errors are those of `encode` and `mark_speakers`."""
        if self._renderer is None:
            return render_conversation(self.tokenizer, messages)
        return mark_speakers(self.encode, messages, self.tokenizer.specials.values())

    def save(self, path: str | Path) -> None:
        """Add a template of another form to a folder with its tokenizer, where `load_chat` finds it.

        The form of `encode_chat` is there already. Raises TokenizerError if the folder cannot be read, OSError if it
        cannot be written.
        """
        if self.source is not None:
            file = Path(path) / CONFIG_FILE
            write_json(file, {**self.names, **read_config(file.parent), "chat_template": self.source})


_FORM = (
    "{% for message in messages %}BEGIN{{ message['role'] }}\n{{ message['content'] }}END\n{% endfor %}"
    "{% if add_generation_prompt %}BEGINassistant\n{% endif %}"
)


def _first_form(tokenizer: Tokenizer, names: dict[str, str]) -> ChatTemplate | None:
    """Return a form for a model that was trained on text alone; None if the tokenizer has no token to end a message.

    Text models of today have the tokens of ChatML. Others end a message with the token that ends a document, and their
    messages begin with the name of the speaker.
    """
    begin, end = "<|im_start|>", "<|im_end|>"
    if end not in tokenizer.specials:
        names, begin, end = names | {"eos_token": tokenizer.vocabulary.end_of_text}, "", "{{ eos_token }}"
        if names["eos_token"] not in tokenizer.specials:
            return None
    return ChatTemplate(tokenizer, _FORM.replace("BEGIN", begin).replace("END", end), names)


def template_of(folder: Path) -> tuple[str | None, Path]:
    """Return the chat template in a folder, or None, and the file that holds it; newer folders have one of its own.

    Raises TokenizerError if a file cannot be read.
    """
    if (file := folder / TEMPLATE_FILE).is_file():
        return read_file(file).decode("utf-8", "replace"), file
    source = read_config(folder).get("chat_template")
    if isinstance(source, list):  # of several templates, each with a name
        named = [each for each in source if isinstance(each, dict) and each.get("name") == "default"]
        source = named[-1].get("template") if named else None
    return source if isinstance(source, str) else None, folder / CONFIG_FILE


def load_chat(path: str | Path, tokenizer: Tokenizer, *, is_untaught: bool = False) -> ChatTemplate:
    """Return the form of conversations that the model in a folder was taught.

    A model that `is_untaught` gets a first form, if it has neither a template nor the tokens of `encode_chat`.
    Raises TokenizerError for a folder without a chat template whose tokenizer lacks the tokens of `encode_chat`; for a
    damaged template; and for a template of another form where jinja2 is not installed.
    """
    folder = located(path)
    folder = folder.parent if folder.is_file() else folder  # of a tokenizer.json, as `load` takes it
    (source, file), names = template_of(folder), named_tokens(read_config(folder))
    if source not in (None, CHAT_TEMPLATE):
        return ChatTemplate(tokenizer, source, names, f"the chat template in {file}")
    if not (missing := _missing(tokenizer)):
        return ChatTemplate(tokenizer)
    if is_untaught and (first := _first_form(tokenizer, names)) is not None:
        return first
    raise TokenizerError(f"{folder} holds no chat model: it has no chat template, and its tokenizer lacks {missing}.")
