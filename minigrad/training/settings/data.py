"""The settings of the data: the text, how it is split and read, and its tokenizer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from minigrad.errors import InputError
from minigrad.options import Group, option

TOKENIZERS = ("byte-level", "vidya-v1")
"""The kinds of tokenizers that can be trained on the text (`tokenizer.KINDS`)."""


@dataclass(frozen=True)
class DataSettings(Group):
    """What a model is trained and evaluated on."""

    heading: ClassVar[str] = "data"

    data: str = option(
        "python-docs",
        "python-docs, python-source, shakespeare, a file, a folder or a URL; several with their shares of the tokens, "
        "as in wiki.jsonl:0.7,books:0.3; with --objective a file of conversations, or task:arithmetic, task:copying, "
        "task:reversing, task:brackets, task:sorting, task:facts",
        value="TEXT",
    )
    held_out: str | None = option(
        None,
        "validation text, given like --data; training leaves out the paragraphs that are in both, and the test part of "
        "a text with a name, such as python-docs, whose validation part is used",
        value="TEXT",
        none_means="a sixteenth of --data, chosen by hashes",
    )
    test: bool = option(False, "at the end, also evaluate the test text, a sixteenth of --data")
    documents: str = option(
        "packed",
        "packed: whole documents, and pieces of long ones, fill a step without padding, and none continues another; "
        "windows: pieces of --context tokens, which may begin in one document and end in another",
        choices=("packed", "windows"),
    )
    tokenizer: str | None = option(
        None, "use this tokenizer.json, or train a vidya-v1", value="PATH", none_means="a new one"
    )
    vocab: int | None = option(
        None,
        "size of a new tokenizer: 256 bytes, 5 special tokens (3 of vidya-v1) and merged pairs",
        at_least=261,
        at_most=2**24,
        none_means="that of the size",
    )

    def check(self) -> None:
        """Raise InputError for the size of a tokenizer that is not trained here."""
        if self.vocab is not None and self.tokenizer and not self.trains_tokenizer:
            raise InputError("--vocab is for training a tokenizer, but --tokenizer brings one; give one of them")

    @property
    def trains_tokenizer(self) -> bool:
        """Whether `tokenizer` names a kind to train and not a file."""
        return self.tokenizer in TOKENIZERS
