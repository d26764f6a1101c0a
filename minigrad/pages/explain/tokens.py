"""How a token is written on a page: a special token by its name, what cannot be shown by its bytes."""

from __future__ import annotations

from minigrad.pages.page import escape
from minigrad.typing import Tokenizer

_SIGNS = str.maketrans({"\n": "↵", "\r": "␍", "\t": "⇥"})


class TokenNames:
    """The text of each token of a tokenizer, as markup."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self._specials = {number: name for name, number in tokenizer.specials.items()}
        self._used = set(tokenizer.ids)

    def running(self, token: int) -> str:
        """Return a token as a part of running text: spaces stay spaces, and a line break becomes a symbol."""
        return escape(self._plain(token))

    def alone(self, token: int) -> str:
        """Return a token that stands by itself, with a dot for each space.

        >>> import tokenizer
        >>> names = TokenNames(tokenizer.train(["a b a b a b"], vocab_size=262))
        >>> print(*(names.alone(token) for token in names.tokenizer.encode(" b\\né")))
        ·b ↵ \\xc3 \\xa9
        """
        return self.running(token).replace(" ", "·")

    def _plain(self, token: int) -> str:
        if token in self._specials:
            return self._specials[token]
        if token not in self._used:
            return f"[{token}]"
        content = self.tokenizer.decode_bytes([token])
        try:
            text = content.decode("utf-8").translate(_SIGNS)
        except UnicodeDecodeError:
            return "".join(f"\\x{byte:02x}" for byte in content)
        written = (each if each.isprintable() or not each.isascii() else f"\\x{ord(each):02x}" for each in text)
        return "".join(written) or f"[{token}]"
