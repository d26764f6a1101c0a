"""The bodies of requests, as OpenAI's clients send them: JSON in, checked fields out.

A body that cannot be used raises `RefusedError`, whose sentence the client reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from minigrad.errors import InputError
from minigrad.formats.json_files import parse_json
from minigrad.options import Group, option, options, shown, unknown
from minigrad.system.terminal import printable

_MOST = 10**9
_SEEDS = 2**63 - 1


class RefusedError(InputError):
    """A request that is refused: a sentence, the status of the reply, the field, and OpenAI's name for the mistake."""

    def __init__(self, message: str, status: int = 400, *, field: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status, self.field, self.code = status, field, code

    def as_dict(self) -> dict[str, Any]:
        """Return the body of the reply."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        return {"error": {"message": str(self), "type": kind, "param": self.field, "code": self.code}}


@dataclass(frozen=True, kw_only=True)
class Body(Group):
    """What requests for texts have in common. The defaults are those of OpenAI's API."""

    model: str | None = option(None, "the name of a model; by default the first one that is served")
    max_tokens: int | None = option(None, "tokens of the text", at_least=0, at_most=_MOST)
    temperature: float = option(1.0, "0 always takes the most likely token", at_least=0, at_most=2)
    top_p: float = option(1.0, "choose among the most likely tokens, up to this probability", at_least=0, at_most=1)
    top_k: int | None = option(None, "choose among the k most likely tokens", at_least=-1, at_most=_MOST)
    min_p: float | None = option(None, "a share of the highest probability", at_least=0, at_most=1)
    n: int = option(1, "texts of each prompt", at_least=1, at_most=1024)
    seed: int | None = option(
        None, "the seed of the draws; by default a different one each time", at_least=-_SEEDS - 1, at_most=_SEEDS
    )
    presence_penalty: float = option(0.0, "lowers tokens that occur", at_least=-2, at_most=2)
    frequency_penalty: float = option(0.0, "lowers tokens each time they occur", at_least=-2, at_most=2)
    repetition_penalty: float = option(1.0, "divides the logits of tokens that occur", at_least=0.01, at_most=100)
    stream: bool = option(False, "send the text as it is written")
    user: str | None = option(None, "a name of the client: clients take turns")
    stop: tuple[str, ...] = option((), "strings that end the text", filled=True)
    include_usage: bool = option(False, "count the tokens at the end of a stream")


@dataclass(frozen=True, kw_only=True)
class CompletionBody(Body):
    """The body of /v1/completions."""

    logprobs: int | None = option(None, "log-probabilities, and those of this many others", at_least=0, at_most=20)
    echo: bool = option(False, "begin the text with the prompt")


@dataclass(frozen=True, kw_only=True)
class ChatBody(Body):
    """The body of /v1/chat/completions."""

    logprobs: bool = option(False, "log-probabilities of the tokens")
    top_logprobs: int | None = option(None, "and those of this many others", at_least=0, at_most=20)
    max_completion_tokens: int | None = option(None, "a newer name for max_tokens", at_least=1, at_most=_MOST)


IGNORED = {"metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key", "parallel_tool_calls"}
"""Fields without an effect on the text."""
NEUTRAL: dict[str, tuple[Any, ...]] = {
    "best_of": (1,),
    "logit_bias": ({},),
    "suffix": ("",),
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "reasoning_effort": ("none",),
}
"""Fields that this server understands only with these values, or null, which change nothing."""
_ROLES = {"user", "assistant", "system", "developer"}

Kind = TypeVar("Kind", bound=Body)


def read_completion(body: bytes) -> tuple[CompletionBody, list[str | list[int]]]:
    """Return the fields of a completion, and its prompts: texts, or token ids.

    >>> read_completion(b'{"prompt": "to be", "max_tokens": 5}')[1]
    ['to be']
    >>> read_completion(b'{"prompt": "to be", "temprature": 1}')
    Traceback (most recent call last):
    ...
    minigrad.serving.bodies.RefusedError: unknown field 'temprature'; did you mean 'temperature'? ...
    """
    given = _json(body)
    prompt = given.pop("prompt", None)
    several = isinstance(prompt, list) and bool(prompt) and all(isinstance(part, str | list) for part in prompt)
    prompts = prompt if several else [prompt]
    if not all(isinstance(part, str) or _are_ids(part) for part in prompts):
        raise RefusedError("prompt takes a text, a list of texts, or one or more lists of token ids", field="prompt")
    for part in prompts:
        _check_text(part, "prompt")
    return _fields(CompletionBody, given, "prompt"), prompts


def read_chat(body: bytes) -> tuple[ChatBody, list[dict[str, str]]]:
    """Return the fields of a chat, and its messages, each with a role and a content."""
    given = _json(body)
    messages = read_messages(given.pop("messages", None))
    fields = _fields(ChatBody, given, "messages")
    if fields.top_logprobs is not None and not fields.logprobs:
        raise RefusedError("top_logprobs needs logprobs: true", field="top_logprobs")
    return fields, messages


def read_tokenize(body: bytes) -> tuple[str | None, str | None, list[dict[str, str]]]:
    """Return the model's name, the text and the messages of a request to tokenize; one of the last two is empty."""
    given = _json(body)
    model, prompt, messages = (given.pop(name, None) for name in ("model", "prompt", "messages"))
    for name in given:
        raise RefusedError(str(unknown("field", name, ["messages", "model", "prompt"])), field=printable(name)[:60])
    if not isinstance(model, str | None):
        raise RefusedError(f"model takes text, not {shown(model)}", field="model")
    if (prompt is None) == (messages is None) or not isinstance(prompt, str | None):
        raise RefusedError("give a text as prompt, or messages", field="prompt")
    _check_text(prompt, "prompt")
    return model, prompt, [] if messages is None else read_messages(messages)


def read_messages(given: Any) -> list[dict[str, str]]:
    """Return messages with the roles that chat templates know; contents in parts of text become one text."""
    if not isinstance(given, list) or not given:
        raise RefusedError("messages takes a list of at least one message", field="messages")
    found = []
    for number, message in enumerate(given):
        place = f"messages[{number}]"
        if not isinstance(message, dict):
            raise RefusedError(
                f"{place} takes an object with a role and a content, not {shown(message)}", field="messages"
            )
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or role not in _ROLES:
            raise RefusedError(
                f"{place}.role takes one of {', '.join(sorted(_ROLES))}, not {shown(role)}", field="messages"
            )
        if isinstance(content, list) and all(
            isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
            for part in content
        ):
            content = "".join(part["text"] for part in content)
        if not isinstance(content, str):
            raise RefusedError(f"{place}.content takes text, not {shown(content)}", field="messages")
        if message.get("tool_calls"):
            raise RefusedError(f"{place} calls tools, which this server does not know", field="messages")
        _check_text(content, "messages")
        found.append({"role": "system" if role == "developer" else role, "content": content})
    return found


def _json(body: bytes) -> dict[str, Any]:
    try:
        given = parse_json(body)
    except InputError as error:
        raise RefusedError(f"the body of the request cannot be read as JSON: {error}") from None
    if not isinstance(given, dict):
        raise RefusedError(f"the body of the request takes an object, not {shown(given)}")
    return given


def _fields(kind: type[Kind], given: dict[str, Any], own: str) -> Kind:
    """Return the fields of a body; null counts as an absent field. Raises RefusedError, naming the field."""
    known, values = {each.name: each for each in options(kind)}, dict[str, Any]()
    names = sorted({*known, own, "stream_options", *IGNORED, *NEUTRAL} - {"include_usage"})
    for name, value in given.items():
        if name not in names:
            raise RefusedError(str(unknown("field", name, names)), field=printable(name)[:60])
        if value is None or name in IGNORED:
            continue
        if name in NEUTRAL:
            if value not in NEUTRAL[name]:
                raise RefusedError(f"this server does not support {name}; leave it out", field=name)
        elif name == "stream_options":
            values["include_usage"] = _include_usage(value)
        else:
            if name == "stop":
                value = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value
            try:
                values[name] = known[name].check(value, name)
            except InputError as error:
                raise RefusedError(str(error), field=name) from None
            for text in values[name] if name == "stop" else [value]:
                _check_text(text, name)
    if len(values.get("stop", ())) > 16:
        raise RefusedError("stop takes at most 16 strings", field="stop")
    return kind(**values)


def _include_usage(value: Any) -> bool:
    is_known = isinstance(value, dict) and value.keys() <= {"include_usage", "include_obfuscation"}
    if not is_known or not isinstance(found := value.get("include_usage"), bool | None):
        raise RefusedError(
            f"stream_options takes an object with include_usage, not {shown(value)}", field="stream_options"
        )
    return bool(found)


def _are_ids(part: Any) -> bool:
    return isinstance(part, list) and bool(part) and all(type(token) is int for token in part)


def _check_text(text: Any, name: str) -> None:
    """Raise RefusedError for a text with half of a surrogate pair, which no encoding can write."""
    try:
        if isinstance(text, str):
            text.encode("utf-8")
    except UnicodeEncodeError:
        raise RefusedError(f"{name} holds half of a surrogate pair, which is not a character", field=name) from None
