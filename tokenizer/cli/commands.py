"""What the commands of `python -m tokenizer` do; command_line.py reads their flags."""

from __future__ import annotations

import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

from tokenizer import bpe
from tokenizer.bpe import Tokenizer
from tokenizer.cli.comparison import measure, table
from tokenizer.cli.show import coloured, page, separated
from tokenizer.disk import read_file, write_file
from tokenizer.errors import TokenizerError
from tokenizer.formats import registry
from tokenizer.formats.pre_tokenizer import check_pattern
from tokenizer.text.alphabet import text_of
from tokenizer.text.split import SPLITS
from tokenizer.vocabulary import SPECIAL_TOKENS

STANDARD_INPUT = Path("-")
LOT = 2**24
"""A file is read in pieces of about this many bytes, cut at the end of a line."""

LONGEST_ID = 20
"""A number of more digits than this is no token id, and Python refuses to read one of more than 4,300."""


def train(options: Namespace) -> None:
    """Learn a tokenizer from files, write it, and print its hash."""
    _refuse_to_overwrite(options.out)
    if options.split not in SPLITS:
        check_pattern(options.split)  # not first after the training
    files = list(_text_files(options.texts, options.glob))
    sizes: list[int] = []
    start = time.perf_counter()
    tokenizer = bpe.train(
        (text for file in files for text in _texts(file, options.errors, sizes)),
        options.vocab_size,
        split=options.split,
        special_tokens=SPECIAL_TOKENS if options.special is None else options.special,
        min_frequency=options.min_frequency,
        nfc=options.nfc,
        threads=options.threads,
        max_memory=options.max_memory << 20,
        progress=True,
    )
    seconds = time.perf_counter() - start
    if not any(sizes):
        raise TokenizerError(f"there is no text to learn from in {', '.join(map(str, options.texts))}.")
    tokenizer.save(options.out, format=options.format)
    print(
        f"{len(tokenizer.vocabulary.merges):,} merges learned from {len(files):,} files, {sum(sizes):,} bytes, in "
        f"{seconds:.1f} s\n{tokenizer.used:,} of {tokenizer.vocab_size:,} ids used, written to {options.out}\n"
        f"hash {tokenizer.fingerprint()}"
    )


def encode(options: Namespace) -> None:
    """Print the ids of each file on a line."""
    tokenizer, allowed = _load(options.tokenizer, options.split), _allowed(options.allow_special)
    for data in _inputs(options.files):
        before, after = tokenizer.borders if options.document else ([], [])
        print(*before, *tokenizer.encode_bytes(data, allow_special=allowed), *after)


def decode(options: Namespace) -> None:
    """Write the bytes of all ids."""
    tokenizer = _load(options.tokenizer, options.split)
    for data in _inputs(options.files):
        ids = []
        for place, word in enumerate(data.split(), start=1):
            if not word.isdigit() or len(word) > LONGEST_ID:
                raise TokenizerError(f"word {place} is {word!r:.40}: expected token ids, which are whole numbers.")
            ids.append(int(word))
        sys.stdout.buffer.write(tokenizer.decode_bytes(ids))


def show(options: Namespace) -> None:
    """Print the tokens of a text, and write the page if one is asked for."""
    tokenizer, allowed = _load(options.tokenizer, options.split), _allowed(options.allow_special)
    if options.html:
        _refuse_to_overwrite(options.html)
    ids = [number for data in _inputs(options.files) for number in tokenizer.encode_bytes(data, allow_special=allowed)]
    if options.html:
        write_file(options.html, page(tokenizer, ids).encode())
        print(f"written to {options.html}")
    else:
        print((coloured if sys.stdout.isatty() else separated)(tokenizer, ids))


def compare(options: Namespace) -> None:
    """Print a table of several tokenizers on the same text."""
    tokenizers = {path: _load(path, options.split) for path in options.tokenizers}
    data = b"".join(_inputs(options.text))
    if not data.strip():
        raise TokenizerError("there is no text to compare the tokenizers on.")
    text = text_of(data, "replace")
    print(table({name: measure(tokenizer, text) for name, tokenizer in tokenizers.items()}, text))


def _load(path: str, split: str | None) -> Tokenizer:
    return bpe.load(path, split=split if Path(path).suffix == registry.RANK_SUFFIX else None)


def _allowed(names: list[str] | None) -> bool | list[str]:
    return True if names and "all" in names else names or False


def _inputs(files: Iterable[Path]) -> Iterator[bytes]:
    """Go through the bytes of the files, or of the standard input if there are none."""
    for file in files or [STANDARD_INPUT]:
        yield sys.stdin.buffer.read() if file == STANDARD_INPUT else read_file(file)


def _refuse_to_overwrite(path: Path) -> None:
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise TokenizerError(f"{path} exists already, and nothing is ever overwritten: choose another name.")


def _text_files(paths: Iterable[Path], pattern: str) -> Iterator[Path]:
    """Go through the files, and those in the folders, in the order of their names; hidden ones are left out."""
    for path in paths:
        if not path.exists():
            raise TokenizerError(f"cannot read {path}: there is no such file or folder.")
        if not path.is_dir():
            yield path
            continue
        for file in sorted(path.rglob(pattern)):
            if file.is_file() and not any(part.startswith(".") for part in file.relative_to(path).parts):
                yield file


def _texts(file: Path, errors: str, sizes: list[int]) -> Iterator[str]:
    """Go through a file in lots of whole lines, and note their sizes."""
    with file.open("rb") as lines:
        while lot := b"".join(lines.readlines(LOT)):
            sizes.append(len(lot))
            try:
                text = text_of(lot, errors)
            except TokenizerError as error:
                raise TokenizerError(f"{file}: {error}") from error
            yield text
