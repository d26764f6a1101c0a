"""Generated tokens as text: whole characters only, up to a stop string."""

from __future__ import annotations

from collections.abc import Sequence

from minigrad.typing import Decoder


class TextStream:
    """The text of tokens that arrive one by one, up to the first of the `stops`.

    A character of several tokens is returned when it is complete, and text that may be the beginning of a stop string
    when it turns out not to be one.

    >>> from tokenizer import train
    >>> tok = train([], vocab_size=261)  # a token for each byte
    >>> stream = TextStream(tok.stream_decoder(), stops=["!?"])
    >>> [stream.push(token) for token in tok.encode("é!!?")], stream.stopped
    (['', 'é', '', '!', ''], True)
    """

    def __init__(self, decoder: Decoder, stops: Sequence[str] = ()) -> None:
        self._decoder, self._stops = decoder, stops
        self._held = ""  # a possible beginning of a stop string
        self.stopped = False

    def push(self, token: int) -> str:
        """Return the text that is certain with this token: often one or more characters, sometimes none."""
        return self._pass_on(self._decoder.push(token))

    def flush(self) -> str:
        """Return the rest of a text that ends here; an incomplete character becomes U+FFFD."""
        if self.stopped:
            return ""
        text, self._held = self._pass_on(self._decoder.flush()) + self._held, ""
        return text

    def _pass_on(self, part: str) -> str:
        text = self._held + part
        found = [(text.index(stop) + len(stop), text.index(stop)) for stop in self._stops if stop in text]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)[1]]  # before the string that is complete first, however the text was split
        longest = max((len(stop) - 1 for stop in self._stops), default=0)
        sizes = range(min(longest, len(text)), 0, -1)
        held = next((n for n in sizes if any(stop.startswith(text[-n:]) for stop in self._stops)), 0)
        self._held = text[len(text) - held :]
        return text[: len(text) - held]
