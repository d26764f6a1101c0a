"""Text files in parts, so that a file may be larger than the memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from tokenizer.errors import TokenizerError
from tokenizer.text import chunks
from tokenizer.text.added_tokens import SPECIAL_TOKENS


def read_files(paths: Iterable[str | Path], *, special_tokens: Iterable[str] = SPECIAL_TOKENS) -> Iterator[str]:
    """Yield the text of UTF-8 files in parts.

    A part ends where every rule of word_rules.py ends a word, and never inside one of the `special_tokens`, so the
    words are those of the whole file. With the split "none" or a pattern of your own, no token crosses from one part to
    the next. Line ends are not changed.
    Raises TokenizerError for a file that cannot be read or is not UTF-8.
    """
    names = list(special_tokens)
    for path in map(Path, paths):
        try:
            with path.open(encoding="utf-8", newline="") as file:
                cutter = chunks.Cutter(names)
                while piece := file.read(chunks.CHUNK_SIZE):
                    if complete := cutter.push(piece):
                        yield complete
                yield cutter.flush()
        except OSError as error:
            raise TokenizerError(f"cannot read {path}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise TokenizerError(
                f"{path} is not UTF-8: {error.reason}; convert it, or read it with errors='replace' and pass its text."
            ) from error
