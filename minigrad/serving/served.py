"""A model that is served: its tokenizer, the form of its conversations, and the texts that a request asks it for."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from minigrad.errors import InputError
from minigrad.generation.continuation import Continuation, DrawingRules
from minigrad.generation.decoding import document, drawing_rules
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.options import shown
from minigrad.serving.bodies import Body, ChatBody, CompletionBody, RefusedError
from minigrad.serving.scheduler import Scheduler, Text
from minigrad.serving.settings import PlaceSettings
from minigrad.system.units import format_bytes
from minigrad.typing import ChatForm, Tokenizer


@dataclass
class Served:
    """A model under a name.

    `form` is None if its tokenizer has no form of conversations. `taught` says whether it was taught to converse; None
    means that this is unknown.
    """

    name: str
    model: LanguageModel
    tokenizer: Tokenizer
    scheduler: Scheduler
    form: ChatForm | None = None
    taught: bool | None = None
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self._rules = drawing_rules(self.model, Sampling(), self.tokenizer, None)
        self.beginning = len(document(self.tokenizer, ""))  # tokens that begin every document

    @classmethod
    def within(
        cls,
        name: str,
        model: LanguageModel,
        tokenizer: Tokenizer,
        form: ChatForm | None,
        config: PlaceSettings,
        budget: int,
    ) -> Self:
        """Return a model with as many places as fit in `budget` bytes.

        Raises InputError if none does, or if a text would be longer than the model's context.
        """
        longest = model.config.context_length
        capacity = config.context or longest
        if capacity > longest:
            raise InputError(f"--context {capacity:,} is more than the {longest:,} of {name}")
        each = model.new_cache(1, capacity).num_bytes
        if each > budget:
            raise InputError(
                f"a text of {capacity:,} tokens of {name} takes {format_bytes(each)} of cache, but "
                f"{format_bytes(budget)} are allowed; give a smaller --context or more --cache-megabytes"
            )
        return cls(name, model, tokenizer, Scheduler(model, min(config.texts, budget // each), capacity), form)

    @property
    def converses(self) -> bool:
        """Whether conversations with the model may make sense."""
        return self.form is not None and self.taught is not False

    def encode(self, prompt: str | list[int]) -> tuple[list[int], int]:
        """Return the ids of a prompt, and how many of them begin every document.

        Raises RefusedError for ids that the model does not have.
        """
        if isinstance(prompt, str):
            return document(self.tokenizer, prompt), self.beginning
        most = min(self.model.config.vocab_size, self.tokenizer.vocab_size) - 1
        if min(prompt) < 0 or max(prompt) > most:
            raise RefusedError(
                f"prompt takes token ids from 0 to {most}, not {shown(min(prompt))} to {shown(max(prompt))}",
                field="prompt",
            )
        return prompt, 0

    def encode_messages(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Return the ids of a conversation and the beginning of an answer; raises RefusedError for a wrong form."""
        if self.form is None:
            raise RefusedError(
                f"the tokenizer of {self.name} has no form of conversations; use /v1/completions", field="model"
            )
        try:
            ids = self.form.encode(messages, add_generation_prompt=True)
        except ValueError as error:
            raise RefusedError(str(error), field="messages") from None
        if not ids:
            raise RefusedError("the chat template writes nothing for these messages", field="messages")
        return ids

    def texts(self, body: Body, prompts: Sequence[list[int]], client: str, most: int | None) -> list[Text]:
        """Return `n` texts for each prompt, none of more than `most` tokens; raises RefusedError if it is too long."""
        echo = isinstance(body, CompletionBody) and body.echo
        found = []
        for number, prompt in enumerate(prompts):
            tokens = self._tokens(body, len(prompt), most)
            # A draw depends on the seed and not on the prompt: equal prompts without a seed need one each.
            seed = secrets.randbits(48) if body.seed is None else body.seed % (1 << 63)  # may be negative
            rules = self._drawn_by(body, max(tokens, 1), seed)
            for sample in range(body.n):
                text = Text(Continuation(rules, prompt, number, sample), client)
                text.scored, text.writes = echo and rules.sampling.alternatives is not None, tokens > 0
                found.append(text)
        return found

    def _tokens(self, body: Body, prompt: int, most: int | None) -> int:
        """Return how many tokens a text may have after a prompt of this many."""
        wanted, name = body.max_tokens, "max_tokens"
        if isinstance(body, ChatBody) and body.max_completion_tokens is not None:
            wanted, name = body.max_completion_tokens, "max_completion_tokens"
        if wanted == 0 and isinstance(body, ChatBody):
            raise RefusedError(f"{name} takes a whole number of at least 1 here, not 0", field=name)
        if wanted == 0 and not (isinstance(body, CompletionBody) and body.echo):
            raise RefusedError("max_tokens takes a whole number of at least 1, or 0 with echo", field="max_tokens")
        if most is not None and wanted is not None and wanted > most:
            raise RefusedError(f"{name} takes at most {most:,} here, not {wanted:,}", field=name)
        room = self.scheduler.capacity - prompt
        if room < (1 if wanted is None else wanted):
            found = f"has {prompt:,}, and {name} is {wanted:,}" if wanted else f"alone has {prompt:,}"
            raise RefusedError(
                f"a prompt and its text have at most {self.scheduler.capacity:,} tokens here; the prompt {found}",
                field="messages" if isinstance(body, ChatBody) else "prompt",
                code="context_length_exceeded",
            )
        usual = room if isinstance(body, ChatBody) else 16
        return min(usual, room, most or room) if wanted is None else wanted

    def _drawn_by(self, body: Body, tokens: int, seed: int) -> DrawingRules:
        if isinstance(body, ChatBody):
            alternatives = (body.top_logprobs or 0) if body.logprobs else None
        else:
            alternatives = body.logprobs if isinstance(body, CompletionBody) else None
        same = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "repetition_penalty")
        given = {name: getattr(body, name) for name in same}
        if body.top_k is not None and body.top_k < 1:  # other servers turn it off by 0 or -1
            given["top_k"] = None
        given["min_p"] = body.min_p or None
        if body.top_p == 0:  # OpenAI's API allows it: only the most likely token is left
            given |= {"temperature": 0.0, "top_p": 1.0}
        sampling = Sampling(tokens=tokens, seed=seed, stop=body.stop, alternatives=alternatives, **given)
        return replace(self._rules, sampling=sampling)


def warm_up(scheduler: Scheduler) -> None:
    """Write one token after a prompt of two pieces, if they fit, so that all kernels are compiled."""
    prompt = [0] * max(1, min(scheduler.places.piece + 2, scheduler.capacity - 1))
    rules = drawing_rules(scheduler.model, Sampling(tokens=1), None, None)
    scheduler.submit(Text(Continuation(rules, prompt, 0, 0)))
    while scheduler.num_waiting + scheduler.num_served:
        scheduler.turn()
