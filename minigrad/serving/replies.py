"""The replies to requests, as OpenAI's clients read them: whole ones, and the chunks of a stream."""

from __future__ import annotations

import codecs
import secrets
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minigrad.generation.continuation import Token, last_tokens
from minigrad.serving.bodies import ChatBody, CompletionBody
from minigrad.serving.scheduler import Scored
from minigrad.typing import Tokenizer

Json = dict[str, Any]
_REASONS = {"end": "stop", "stop": "stop", "length": "length"}


@dataclass
class ReplyPart:
    """What is new of one text: characters, tokens, and at the end the reason."""

    index: int
    text: str = ""
    tokens: list[Token | Scored] = field(default_factory=list)
    ended: str = ""

    def add(self, token: Token | Scored | None) -> None:
        """Add the next token; None ends a text if only its prompt was wanted."""
        if token is None:
            self.ended = "length"
            return
        self.tokens.append(token)
        if isinstance(token, Token):
            self.text += token.text
            self.ended = token.ended

    def join(self, later: ReplyPart) -> None:
        """Add the part after this one."""
        self.text, self.ended = self.text + later.text, later.ended
        self.tokens += later.tokens

    @property
    def num_written(self) -> int:
        """The number of its tokens that were written, not read."""
        return sum(isinstance(token, Token) for token in self.tokens)


class Echo(NamedTuple):
    """A prompt that is shown before its text; the first `hidden` of its tokens begin every document."""

    text: str
    first: int
    hidden: int


class Reply:
    """The reply to one request: `whole` or `chunk` turn parts of its texts into JSON. `prompts` are their ids."""

    def __init__(
        self, name: str, tokenizer: Tokenizer, body: CompletionBody | ChatBody, prompts: Sequence[list[int]]
    ) -> None:
        self.body, self.is_chat, self._tokenizer = body, isinstance(body, ChatBody), tokenizer
        self._prompt_tokens, self._written = sum(map(len, prompts)), 0
        kind = "chat.completion" if self.is_chat else "text_completion"
        self._kind = f"{kind}.chunk" if self.is_chat and body.stream else kind
        prefix = "chatcmpl" if self.is_chat else "cmpl"
        self._head = {"id": f"{prefix}-{secrets.token_hex(12)}", "created": int(time.time()), "model": name}
        self._lengths = defaultdict[int, int](int)  # characters that the tokens of each text have completed so far
        ends = [tokenizer.decode_bytes(last_tokens(prompt, tokenizer)) for prompt in prompts]
        self._decoders = [_decoder(end) for end in ends for _ in range(body.n)]
        self._echoes = dict[int, Echo]()

    @property
    def has_logprobs(self) -> bool:
        """Whether log-probabilities are wanted."""
        return not (self.body.logprobs is None or self.body.logprobs is False)  # 0 wants them, without others

    def echo(self, index: int, prompt: Echo) -> None:
        """Show a prompt before its text."""
        self._echoes[index], self._decoders[index] = prompt, _decoder()

    def prompt_text(self, prompt: Sequence[int], *, goes_on: bool) -> str:
        """Return the text of a prompt of ids, without an incomplete character at its end if the text `goes_on`."""
        text = _decoder().decode(self._tokenizer.decode_bytes(prompt), final=not goes_on)
        return text[self._added_spaces(prompt) :]

    def count(self, part: ReplyPart) -> None:
        """Count the tokens of a part that is not shown."""
        self._written += part.num_written

    def opening(self, index: int) -> Json:
        """Return the first chunk of an answer in a chat, which names its role."""
        choice = {"index": index, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        return self._object([choice]) | self._no_usage

    def chunk(self, part: ReplyPart) -> Json:
        """Return a part of a text."""
        return self._object([self._choice(part, "delta")]) | self._no_usage

    @property
    def _no_usage(self) -> Json:
        """What each chunk but the last has in a stream that counts the tokens."""
        return {"usage": None} if self.body.include_usage else {}

    def whole(self, parts: Iterable[ReplyPart]) -> Json:
        """Return whole texts."""
        return self._object([self._choice(part, "message") for part in parts]) | {"usage": self.usage()}

    def last(self) -> Json:
        """Return the chunk at the end of a stream that counts the tokens."""
        return self._object([]) | {"usage": self.usage()}

    def usage(self) -> Json:
        """Return the numbers of tokens read and written."""
        total = self._prompt_tokens + self._written
        return {"prompt_tokens": self._prompt_tokens, "completion_tokens": self._written, "total_tokens": total}

    def _object(self, choices: list[Json]) -> Json:
        return {**self._head, "object": self._kind, "choices": choices}

    def _choice(self, part: ReplyPart, place: str) -> Json:
        self.count(part)
        if (echo := self._echoes.pop(part.index, None)) is not None:
            first = [Scored(echo.first, None, ())] if echo.hidden == 0 else []
            tokens = [*first, *part.tokens[max(echo.hidden - 1, 0) :]]
            part = ReplyPart(part.index, echo.text + part.text, tokens, part.ended)
            self._lengths[part.index] = -self._added_spaces(map(_id, tokens))
        reason = _REASONS[part.ended] if part.ended else None
        choice: Json = {"index": part.index, "logprobs": None, "finish_reason": reason}
        if not self.is_chat:
            return choice | {"text": part.text, "logprobs": self._logprobs(part)}
        assert isinstance(self.body, ChatBody)
        if self.body.logprobs:
            choice["logprobs"] = {"content": [self._described(token) for token in part.tokens], "refusal": None}
        content: Json = {"content": part.text}
        if place == "message":
            content = {"role": "assistant", "content": part.text, "refusal": None}
        return choice | {place: content}

    def _logprobs(self, part: ReplyPart) -> Json | None:
        """Return the log-probabilities of a completion; None if they are not wanted."""
        assert isinstance(self.body, CompletionBody)
        if self.body.logprobs is None:
            return None
        found: Json = {"tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []}
        for token in part.tokens:
            known = token.log_probability
            found["tokens"].append(self._shown(_id(token)))
            found["token_logprobs"].append(known)
            others = dict[str, float | None]()
            for other, value in (*token.alternatives, (_id(token), known)) if known is not None else ():
                others.setdefault(self._shown(other), value)
            found["top_logprobs"].append(others or None)
            data, decoder = self._bytes(_id(token)), self._decoders[part.index]
            broken = _broken(decoder.getstate()[0], data)
            found["text_offset"].append(max(self._lengths[part.index], 0) + broken)
            self._lengths[part.index] += len(decoder.decode(data))
        return found

    def _added_spaces(self, tokens: Iterable[int]) -> int:
        """Return how many spaces the tokens of a text begin with that the text does not: byte fallback adds one."""
        ids = [token for token in tokens if token < self._tokenizer.vocab_size]
        data, text = self._tokenizer.decode_bytes(ids), self._tokenizer.decode(ids)
        return (len(data) - len(data.lstrip(b" "))) - (len(text) - len(text.lstrip(" ")))

    def _described(self, token: Token | Scored) -> Json:
        """Return a token of a chat with its log-probability and its alternatives."""
        others = [self._entry(other, value) for other, value in token.alternatives]
        return self._entry(_id(token), token.log_probability) | {"top_logprobs": others}

    def _entry(self, token: int, log_probability: float | None) -> Json:
        return {"token": self._shown(token), "logprob": log_probability, "bytes": list(self._bytes(token))}

    def _shown(self, token: int) -> str:
        """Return the text of a token; of incomplete characters the bytes, as in `bytes:\\xe2\\x82`."""
        data = self._bytes(token)
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)

    def _bytes(self, token: int) -> bytes:
        """Return the bytes of a token; rows of a model beyond those of its tokenizer have none."""
        return self._tokenizer.decode_bytes([token]) if token < self._tokenizer.vocab_size else b""


def _decoder(before: bytes = b"") -> codecs.IncrementalDecoder:
    """Return a decoder of the bytes after those `before`, whose last character may be incomplete."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(before)
    return decoder


def _broken(pending: bytes, data: bytes) -> int:
    """Return how many characters the bytes of an incomplete one become, because `data` does not continue it."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(pending + data[:1])
    except UnicodeDecodeError:
        return len(pending.decode("utf-8", "replace"))
    return 0


def _id(token: Token | Scored) -> int:
    return token.token if isinstance(token, Scored) else int(token)
