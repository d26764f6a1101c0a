"""The scheduler: which texts a model reads and writes next.

Texts join and leave between two tokens. A turn lets waiting texts in, reads the next piece of a few prompts in one
pass, and writes one token of each text whose prompt is read. So a long prompt holds up the others by one piece a turn,
and no text waits for another to end, unless all places are taken.

**A text is a function of the model, the prompt, the settings and the seed, alone and among others.** This holds bit
for bit, because three computations are functions of one text alone:

* The pieces of a prompt begin at fixed positions (`minigrad.serving.places`). The pieces of several prompts are read in
  one pass whose products keep rows apart (`minigrad.kernels.gemm.backend.rows_apart`), and attention works text by
  text. Where that is not possible, on a processor without loops of our own, for some models and in float64, each piece
  is a pass by itself: its shapes follow from the prompt.
* The last token of the prompt, and every token after it, goes through the decoding program, whose sums have one order
  whatever texts are multiplied together (`minigrad.kernels.codegen.line_products`). A model without a program is called
  for one text at a time.
* Each draw is a function of the logits, the settings, and the seed, sample and position.
"""

from __future__ import annotations

import queue
from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minigrad.autograd.graph import no_grad
from minigrad.errors import InputError
from minigrad.generation.continuation import Continuation, Token
from minigrad.generation.sampling import check_logits, log_probabilities, most_likely
from minigrad.kernels.gemm.backend import can_keep_rows_apart, rows_apart
from minigrad.nn.language_model import LanguageModel
from minigrad.programs.decoder import Decoder
from minigrad.serving.places import PIECE, Beginnings, Places
from minigrad.typing import Array

TOGETHER = 4
"""Whole pieces of prompts that one pass reads, at most: more take longer, and texts that are written wait meanwhile."""


class Scored(NamedTuple):
    """A token of a prompt, as the model expected it."""

    token: int
    log_probability: float | None
    alternatives: tuple[tuple[int, float], ...]


Event = Token | Scored | Exception | None
"""News of a text: a token, an error that ends it, or None at the end of a prompt that is only scored."""


@dataclass(eq=False)
class Text:
    """A text that a client waits for; `continuation` knows its prompt and draws its tokens.

    With `scored`, the tokens of the prompt from the second on are scored; with `writes` false, that is all.
    """

    continuation: Continuation
    client: str = ""
    scored: bool = False
    writes: bool = True
    gone: bool = False  # the client no longer waits
    place: int = -1
    read: int = 0  # the tokens of the prompt that were read
    last: int = -1  # the newest token, which the model has not read

    def __post_init__(self) -> None:
        self.beginnings = Beginnings(self.prompt)

    @property
    def prompt(self) -> list[int]:
        """The ids of the prompt, at least one."""
        return self.continuation.prompt


class Waiting:
    """Texts that wait for a place; clients take turns, so that one with many texts gets no more places than others."""

    def __init__(self) -> None:
        self.count = 0  # of texts; other threads may read it
        self._texts = dict[str, deque[Text]]()  # by client

    def add(self, text: Text) -> None:
        """Add a text after the others of its client."""
        self._texts.setdefault(text.client, deque()).append(text)
        self.count += 1

    def leave_gone(self) -> None:
        """Take out the texts whose client no longer waits."""
        for client, texts in list(self._texts.items()):
            if left := deque(text for text in texts if not text.gone):
                self._texts[client] = left
            else:
                del self._texts[client]
        self.count = sum(map(len, self._texts.values()))

    def next(self) -> Text | None:
        """Return the next text; its client is then the last."""
        if not self._texts:
            return None
        client = next(iter(self._texts))
        texts = self._texts.pop(client)
        if len(texts) > 1:
            self._texts[client] = texts
        self.count -= 1
        return texts.popleft()


class Scheduler:
    """The texts of one model.

    `check`, `submit`, `num_waiting` and `num_served` may be used from any thread, everything else from one; the two
    numbers may lag behind by a text. At most `count` texts are read and written at once, each of up to `capacity`
    tokens with its prompt.
    """

    def __init__(self, model: LanguageModel, count: int, capacity: int, piece: int = PIECE) -> None:
        model.eval()
        self.model, self.decoder = model, Decoder(model)
        self.places = Places(model, count, capacity, piece)
        self.count, self.capacity = count, capacity
        # Other caches hold more than keys and values, and a model without a program may mix what lies in one pass.
        is_plain = self.decoder.has_program and self.places.copies
        self.reads_together = is_plain and can_keep_rows_apart(model.head().dtype)
        self._submitted: queue.SimpleQueue[Text] = queue.SimpleQueue()
        self._waiting, self._reading, self._writing = Waiting(), deque[Text](), list[Text]()
        self._news = list[tuple[Text, Event]]()  # of the current turn, even if it fails

    @property
    def num_waiting(self) -> int:
        """The number of texts without a place."""
        return self._submitted.qsize() + self._waiting.count

    @property
    def num_served(self) -> int:
        """The number of texts that are read or written."""
        return len(self._reading) + len(self._writing)

    def check(self, text: Text) -> None:
        """Raise InputError if a text could outgrow its place, or has no prompt to read."""
        if not text.prompt:
            raise InputError("a text has a prompt of at least one token")
        if (most := len(text.prompt) + text.writes * text.continuation.left) > self.capacity:
            raise InputError(f"a text has at most {self.capacity} tokens here with its prompt, not {most}")

    def submit(self, text: Text) -> None:
        """Let a text wait for a place; it was checked before."""
        self._submitted.put(text)

    def turn(self) -> list[tuple[Text, Event]]:
        """Let texts in, read, and write a token of each text; return the new tokens, and the errors of texts."""
        self._let_in()
        self._read()
        self._write()
        return self._told()

    def fail(self, error: Exception) -> list[tuple[Text, Event]]:
        """End every text that is read or written with an error; return what the failed turn found, and the errors."""
        failed = [*self._reading, *self._writing]
        for text in failed:
            self._leave(text)
        return self._told() + [(text, error) for text in failed]

    def _told(self) -> list[tuple[Text, Event]]:
        news, self._news = self._news, []
        return news

    def _let_in(self) -> None:
        for text in [text for text in (*self._reading, *self._writing) if text.gone]:
            self._leave(text)
        while not self._submitted.empty():
            self._waiting.add(self._submitted.get())
        self._waiting.leave_gone()
        while self.places.num_free and (following := self._waiting.next()) is not None:
            following.place = self.places.take(following.beginnings)
            self._reading.append(following)

    def _leave(self, text: Text) -> None:
        self.places.leave(text.place)
        (self._reading if text in self._reading else self._writing).remove(text)

    def _read(self) -> None:
        """Read the next piece of each prompt, as many as a pass may have tokens; let texts whose prompt is read go on.

        The last token of a prompt is left to `_write`.
        """
        for texts in self._passes():
            self._news += self._read_pieces(texts)
        for text in list(self._reading):
            self._copy_pieces(text)
            if text.read == len(text.prompt) - 1:
                self._reading.remove(text)
                if text.writes:
                    text.last = text.prompt[-1]
                    self._writing.append(text)
                else:
                    self.places.leave(text.place)
                    self._news.append((text, None))

    def _passes(self) -> list[list[Text]]:
        """Return the texts of each pass over prompts in this turn. If others must wait, these move behind them.

        Of texts with the same piece, the first reads it, and the others copy it afterwards, where pieces can be copied.
        """
        chosen, begun, left = list[Text](), set[bytes](), self.places.piece * (TOGETHER if self.reads_together else 1)
        for text in list(self._reading):
            self._copy_pieces(text)
            stop = self._stop(text)
            if left <= 0 or stop == text.read:
                continue
            piece = text.beginnings[stop]
            if text.scored or not self.places.copies or piece not in begun:
                begun.add(piece)
                chosen.append(text)
                left -= stop - text.read
        if left <= 0:
            for text in chosen:
                self._reading.remove(text)
                self._reading.append(text)
        alone = [text for text in chosen if text.scored or not self.reads_together]
        together = sorted((text for text in chosen if text not in alone), key=lambda text: text.place)
        return [[text] for text in alone] + [together] * bool(together)

    def _stop(self, text: Text) -> int:
        """Return the end of the next piece of a prompt."""
        return min(text.read + self.places.piece, len(text.prompt) - 1)

    def _copy_pieces(self, text: Text) -> None:
        """Copy the next pieces of a prompt, as long as a place holds them."""
        while text.read < (stop := self._stop(text)) and not text.scored:
            if not self.places.copy(text.place, text.beginnings[stop], text.read, stop):
                return
            text.read = stop

    def _read_pieces(self, texts: list[Text]) -> list[tuple[Text, Event]]:
        """Read the next piece of each of these texts; of a single text that wants them, return the scores."""
        begins, stops = [text.read for text in texts], [self._stop(text) for text in texts]
        counts = [stop - begin for begin, stop in zip(begins, stops, strict=True)]
        tokens = np.concatenate([text.prompt[text.read : stop] for text, stop in zip(texts, stops, strict=True)])
        layout, last = self.places.layout([text.place for text in texts], counts), counts[0] * texts[0].scored
        with no_grad(), rows_apart():
            logits = self.model(tokens, cache=self.places.cache, layout=layout, last=last).data
        for text, stop in zip(texts, stops, strict=True):
            text.read = stop
            self.places.hold(text.place, text.beginnings[stop])
        try:
            return [(texts[0], _score(texts[0], number, row)) for number, row in enumerate(logits[0], begins[0] + 1)]
        except InputError as error:  # logits that are not finite
            self._leave(texts[0])
            return [(texts[0], error)]

    def _write(self) -> None:
        """Write a token of each text whose prompt is read."""
        texts = sorted(self._writing, key=lambda text: text.place)
        for text, logits in zip(texts, self._logits(texts), strict=True):
            try:
                event: Event = text.continuation.next(logits)
            except InputError as error:  # logits that are not finite
                event = error
            self._news.append((text, event))
            if isinstance(event, Token) and not event.ended:
                text.last = int(event)
            else:
                self._leave(text)

    def _logits(self, texts: list[Text]) -> list[Array]:
        """Read the newest token of each text; return the logits (V,) after it."""
        together = [texts] if self.decoder.has_program and texts else [[text] for text in texts]
        found = list[Array]()
        for some in together:
            layout = self.places.layout([text.place for text in some])
            found += list(self.decoder.step([text.last for text in some], self.places.cache, layout))
        return found


def _score(text: Text, number: int, logits: Array) -> Scored:
    """Return a token of a prompt, by its number, with its log-probability, and the most likely ones in its place."""
    check_logits(logits)
    known, token = log_probabilities(logits), text.prompt[number]
    likely = most_likely(known, text.continuation.rules.sampling.alternatives or 0)
    return Scored(token, float(known[token]), tuple((int(i), float(known[i])) for i in likely))
