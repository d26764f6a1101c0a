"""What a run trains on; and the two ways of reading a text: packed documents, or windows that cross them.

Several texts are read together (`minigrad.data.mixing`), each in the same way.
"""

from __future__ import annotations

from typing import Protocol

from minigrad.data.batches import Batch
from minigrad.data.documents import Documents
from minigrad.data.evaluation import Spans, tokens_read
from minigrad.data.mixing import Mixed
from minigrad.data.token_files import MixedTokens, TokenFile, Tokens
from minigrad.data.windows import Windows


class Source(Protocol):
    """Where the batches of a run come from.

    There is no position that a checkpoint would have to save, and nothing to rewind on resume.
    """

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the tokens of one step, about ``batch_size * context``, a function of the arguments alone."""

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens that the steps before `step` read."""

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens of one pass over everything there is to read."""

    def attended_length(self) -> float:
        """Return the length of the sequence of a token, averaged over the tokens."""

    def describe(self, batch_size: int) -> str:
        """Return what a step reads, in words that follow its tokens."""


class Reader(Source, Protocol):
    """A text with a context: batches of exactly ``batch_size * context`` tokens, and the spans to evaluate."""

    def blocks(self, seed: int, begin: int, end: int) -> Batch:
        """Return blocks `begin` to `end` of all that is read one after the other, each of `context` tokens."""

    def spans(self) -> Spans:
        """Return the texts that are evaluated one by one."""


def reader(documents: str, tokens: TokenFile | Tokens, context: int) -> Reader:
    """Return a text as ``"packed"`` documents or as ``"windows"``; raises InputError if it is too short."""
    return Documents(tokens, context) if documents == "packed" else Windows(tokens, context)


def tokens_evaluated(documents: str, tokens: TokenFile | Tokens, context: int) -> int:
    """Return how many tokens are read to evaluate a text."""
    return tokens_read(reader(documents, tokens, context).spans(), context=context)


def training_source(documents: str, tokens: TokenFile | MixedTokens, context: int) -> Source:
    """Return what a run trains on: a text, or several texts by their shares; errors as those of `reader`."""
    if isinstance(tokens, MixedTokens):
        return Mixed([reader(documents, file, context) for file in tokens.files], tokens.shares)
    return reader(documents, tokens, context)
