"""The commands of `python -m tokenizer`; command_line.py reads their flags."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from shlex import quote
from typing import Any

from tokenizer.bpe import load
from tokenizer.cli.comparison import measure, table
from tokenizer.cli.output import say
from tokenizer.cli.show import coloured, page, separated
from tokenizer.disk import open_file, read_file, write_file
from tokenizer.errors import TokenizerError
from tokenizer.formats.pre_tokenizer import check_pattern
from tokenizer.formats.rank_files import SUFFIX
from tokenizer.text.split import SPLITS
from tokenizer.text.unicode import decode_utf8
from tokenizer.vidya_v1 import KINDS

# The arguments of `tokenizer.train` that other kinds of tokenizers do not have, and their flags.
BYTE_LEVEL_FLAGS = {"split": "split", "special_tokens": "special", "min_frequency": "min-frequency", "nfc": "nfc"}

STANDARD_INPUT = Path("-")
_END = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"
READ_SIZE = 2**24  # bytes; a file is read in parts of about this size, each ending at a line end
MAX_DIGITS = 20  # a longer number is not a token id, and Python reads none of more than 4,300 digits


def train(options: Namespace) -> None:
    """Learn a tokenizer from files, write it, and print its hash."""
    _check_place(options.out, as_file=options.out.suffix in (".json", SUFFIX))
    given = {name: value for name in BYTE_LEVEL_FLAGS if (value := getattr(options, name)) not in (None, False)}
    format = _checked_format(options, given)
    files = list(_text_files(options.texts, options.glob))
    sizes: list[int] = []
    texts = (text for file in files for text in _texts(file, options.errors, sizes))
    given |= {"threads": options.threads, "max_memory": options.max_memory << 20, "progress": True}
    start = time.perf_counter()
    tokenizer = KINDS[options.kind](texts, options.vocab_size, **given)
    seconds = time.perf_counter() - start
    if not any(sizes):
        raise TokenizerError(f"there is no text to learn from in {', '.join(map(str, options.texts))}.")
    tokenizer.save(options.out, format=format)
    if format == "tiktoken":  # the hash is that of what the file brings back
        tokenizer = load(options.out, split=tokenizer.vocabulary.split)
    read = f"{len(files):,} file{'s' * (len(files) != 1)}"
    say(
        f"{len(tokenizer.vocabulary.merges):,} merges learned from {read}, {sum(sizes):,} bytes, in "
        f"{seconds:.1f} s\n{tokenizer.used:,} of {tokenizer.vocab_size:,} ids used, written to {options.out}\n"
        f"hash {tokenizer.fingerprint()}"
    )
    if format == "tiktoken":
        split = quote(tokenizer.vocabulary.split)
        say(f"the file contains neither the split nor the special tokens: commands that load it need --split {split}")


def _checked_format(options: Namespace, given: Mapping[str, Any]) -> str:
    """Return the format to write, before anything is read; raises TokenizerError for flags that exclude each other."""
    if given and options.kind != "byte-level":
        flags = " and ".join(f"--{BYTE_LEVEL_FLAGS[name]}" for name in given)
        raise TokenizerError(f"--kind {options.kind} takes no {flags}: leave out one of the two.")
    if options.split is not None and options.split not in SPLITS:
        check_pattern(options.split)
    if options.glob is not None and not any(path.is_dir() for path in options.texts):
        raise TokenizerError(f"--glob {options.glob!r} chooses among the files of a folder: leave it out, or name one.")
    format = KINDS[options.kind]([], options.vocab_size, **given).format_of(options.out, options.format)
    if format == "tiktoken" and options.special_tokens:
        raise TokenizerError(
            f"a file that ends in {SUFFIX} contains no special tokens: leave out --special, or choose another --out."
        )
    return format


def encode(options: Namespace) -> None:
    """Print the ids of each file, one line per file."""
    tokenizer, allowed = load(options.tokenizer, split=options.split), _allowed(options.allow_special)
    for data in _inputs(options.files):
        before, after = tokenizer.borders if options.document else ([], [])
        say(" ".join(map(str, [*before, *tokenizer.encode_bytes(data, allow_special=allowed), *after])))


def decode(options: Namespace) -> None:
    """Write the bytes of all ids to the standard output."""
    tokenizer = load(options.tokenizer, split=options.split)
    for data in _inputs(options.files):
        ids = []
        for place, word in enumerate(data.split(), start=1):
            if not word.isdigit() or len(word) > MAX_DIGITS:
                raise TokenizerError(f"word {place} is {word!r:.40}: expected token ids, which are whole numbers.")
            ids.append(int(word))
        sys.stdout.buffer.write(tokenizer.decode_bytes(ids))


def show(options: Namespace) -> None:
    """Print the tokens of a text, or write them as a page if --html is given."""
    tokenizer, allowed = load(options.tokenizer, split=options.split), _allowed(options.allow_special)
    if options.html:
        _check_place(options.html, as_file=True)
    ids = [number for data in _inputs(options.files) for number in tokenizer.encode_bytes(data, allow_special=allowed)]
    if options.html:
        write_file(options.html, page(tokenizer, ids).encode())
        say(f"written to {options.html}")
    else:  # the codes of colours are the only control characters in it
        sys.stdout.write((coloured if sys.stdout.isatty() else separated)(tokenizer, ids) + "\n")


def compare(options: Namespace) -> None:
    """Print a table of several tokenizers on the same text; --split is for the rank files among them."""
    splits = {path: options.split if Path(path).suffix == SUFFIX else None for path in options.tokenizers}
    tokenizers = {path: load(path, split=split) for path, split in splits.items()}
    data = b"".join(_inputs(options.text))
    if not data.strip():
        raise TokenizerError("there is no text to compare the tokenizers on.")
    text = data.decode("utf-8", "replace")
    say(table({name: measure(tokenizer, text) for name, tokenizer in tokenizers.items()}, text))


def _allowed(names: list[str] | None) -> bool | list[str]:
    """Return the value of `allow_special` for the names of --allow-special: True if `all` is among them."""
    return True if names and "all" in names else names or False


def _inputs(files: Iterable[Path]) -> Iterator[bytes]:
    """Yield the bytes of each file, or of the standard input if there are no files."""
    for file in files or [STANDARD_INPUT]:
        if file == STANDARD_INPUT and sys.stdin is None:
            raise TokenizerError("standard input is closed: name a file.")
        if file == STANDARD_INPUT and sys.stdin.isatty():
            say(f"[type the input, then end it with {_END} on a line of its own]", sys.stderr)
        yield sys.stdin.buffer.read() if file == STANDARD_INPUT else read_file(file, may_be_pipe=True)


def _check_place(path: Path, *, as_file: bool) -> None:
    """Raise TokenizerError if nothing can be written at the path, or if something is there already.

    An empty folder may be there unless the path is written `as_file`. A pipe or a link is not replaced either. Folders
    are made only when something is written into them, so the nearest one is tried.
    """
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        place = next(parent for parent in path.absolute().parents if os.path.lexists(parent))
        try:
            with tempfile.TemporaryFile(dir=place):
                return
        except OSError as error:
            raise TokenizerError(f"cannot write {path}: {error.strerror}: {place}.") from error
    if as_file or not path.is_dir() or any(path.iterdir()):
        raise TokenizerError(f"{path} exists already, and nothing is ever overwritten: choose another name.")


def _text_files(paths: Iterable[Path], pattern: str | None) -> Iterator[Path]:
    """Yield the files, and those in the folders in the order of their names, without hidden ones.

    Raises TokenizerError for a path that is not there, and for a folder that cannot be read.
    """
    for path in paths:
        if not path.exists():
            raise TokenizerError(f"cannot read {path}: there is no such file or folder.")
        if not path.is_dir():
            yield path
            continue
        _check_folders(path)
        try:
            found = sorted(path.rglob("*" if pattern is None else pattern))
        except (ValueError, NotImplementedError) as error:
            raise TokenizerError(f"--glob {pattern!r} is not a pattern of file names: {error}") from None
        for file in found:
            if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield file


def _check_folders(top: Path) -> None:
    """Raise TokenizerError if a folder that is not hidden cannot be read: `Path.rglob` would leave it out."""

    def refuse(error: OSError) -> None:
        raise TokenizerError(f"cannot read {error.filename}: {error.strerror}.") from error

    for _, folders, _ in os.walk(top, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]


def _texts(file: Path, errors: str, sizes: list[int]) -> Iterator[str]:
    """Yield a file in parts of whole lines, and append the size of each part to `sizes`."""
    first = 0
    try:
        with open_file(file) as lines:
            while data := b"".join(lines.readlines(READ_SIZE)):
                sizes.append(len(data))
                way_out = "leave the file out, or replace such bytes: --errors replace"
                yield decode_utf8(data, errors, way_out=way_out, first=first)
                first += len(data)
    except OSError as error:
        raise TokenizerError(f"cannot read {file}: {error.strerror}.") from error
    except TokenizerError as error:
        raise TokenizerError(f"{file}: {error}") from error
