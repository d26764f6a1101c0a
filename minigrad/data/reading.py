"""The two ways of reading a text: packed documents, or windows that cross them."""

from __future__ import annotations

from typing import Protocol

from minigrad.data.batches import Batch
from minigrad.data.documents import Documents
from minigrad.data.evaluation import Spans
from minigrad.data.token_files import TokenFile, Tokens
from minigrad.data.windows import Windows


class Reader(Protocol):
    """A text with a context: the batches to train on, and the spans to evaluate.

    There is no position that a checkpoint would have to save, and nothing to rewind on resume.
    """

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the ``batch_size * context`` tokens of one step, a function of the arguments alone."""

    def spans(self) -> Spans:
        """Return the texts that are evaluated one by one."""

    def attended_length(self) -> float:
        """Return the length of the sequence of a token, averaged over the tokens."""


def reader(documents: str, tokens: TokenFile | Tokens, context: int) -> Reader:
    """Return a text as ``"packed"`` documents or as ``"windows"``; raises InputError if it is too short."""
    return Documents(tokens, context) if documents == "packed" else Windows(tokens, context)
