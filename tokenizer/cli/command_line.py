"""The command line: the commands and their flags, and the exit codes.

Bad input ends with one sentence on standard error and exit code 2, a fault of the machine with 1, Ctrl-C with 130; no
user sees a traceback. commands.py has the commands themselves.
"""

from __future__ import annotations

import argparse
import errno
import sys
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from tokenizer import jit
from tokenizer.bpe import FORMATS
from tokenizer.cli import commands
from tokenizer.cli.output import complain, discard_output, prepare_output
from tokenizer.errors import TokenizerError
from tokenizer.learn.count import MIN_MEMORY
from tokenizer.text.added_tokens import SPECIAL_TOKENS
from tokenizer.text.split import SPLITS
from tokenizer.vidya_v1 import KINDS

PROGRAM = "python -m tokenizer"


class _Parser(argparse.ArgumentParser):
    """argparse, with errors in one sentence and the closest flag for a misspelled one."""

    def error(self, message: str) -> NoReturn:
        """Print the message without the usage of all flags, and exit with code 2."""
        complain(f"{self.prog}: {message}; see {self.prog} --help")
        sys.exit(2)

    def refuse(self, unknown: str) -> NoReturn:
        """Print an unknown argument and the closest flag, and exit with code 2."""
        flag = unknown.partition("=")[0]
        known = [name for action in self._actions for name in action.option_strings]
        nearest = get_close_matches(flag.replace("_", "-"), known, n=1)
        kind = "unknown flag" if flag.startswith("-") else "unexpected argument"
        self.error(f"{kind} {flag!r}" + (f", did you mean {nearest[0]}?" if nearest else ""))


_MOST_DIGITS = 12


def _count(smallest: int) -> Callable[[str], int]:
    """Return a type for flags whose value is a whole number of at least `smallest`."""

    def count(text: str) -> int:
        if len(text) > _MOST_DIGITS:
            raise argparse.ArgumentTypeError(f"expected a number with at most {_MOST_DIGITS} digits, not {text[:80]!r}")
        if not text.isdecimal() or int(text) < smallest:
            raise argparse.ArgumentTypeError(f"expected a whole number of at least {smallest}, not {text!r}")
        return int(text)

    return count


_SEVERAL: dict[str, Callable[[str], object]] = {"files": Path, "texts": Path, "tokenizers": str}
"""The positional words that a command may take several of, and their types."""


def _parsers() -> tuple[_Parser, dict[str, _Parser]]:
    """Return the parser of the command line, and that of each command."""
    parser = _Parser(prog=PROGRAM, description="Byte-level byte-pair encoding: text to token ids and back.")
    subparsers = parser.add_subparsers(dest="command", metavar="train|encode|decode|show|compare", required=True)

    def command(name: str, description: str) -> _Parser:
        added: _Parser = subparsers.add_parser(name, help=description, description=description, allow_abbrev=False)
        return added

    train = command("train", "learn a tokenizer from text files, and print the hash of the result")
    _add_train_flags(train)
    encode = command("encode", "print the token ids of texts, one line for each")
    _add_files(encode, "texts; a byte-level tokenizer keeps any bytes, unless it composes characters (NFC)")
    _add_allow_special(encode)
    encode.add_argument("--document", action="store_true", help="with the special tokens that surround a document")
    decode = command("decode", "write the bytes of token ids, exactly")
    _add_files(decode, "token ids between spaces or line ends")
    show = command("show", "print a text with its tokens in colours, or write a page that shows how they were built")
    _add_files(show, "the text")
    _add_allow_special(show)
    show.add_argument("--html", type=Path, metavar="PAGE", help="write a page that opens offline; never overwritten")
    compare = command("compare", "compare tokenizers on a text: bytes per token, tokens per word, speed")
    compare.add_argument("tokenizers", nargs="+", metavar="TOKENIZER", help="a folder or file; see encode --help")
    repeated: dict[str, Any] = {"action": "append", "required": True, "help": "repeat for more; - is standard input"}
    compare.add_argument("--text", type=Path, metavar="FILE", **repeated)
    _add_split(compare)
    return parser, {"train": train, "encode": encode, "decode": decode, "show": show, "compare": compare}


def _add_train_flags(train: _Parser) -> None:
    """Add what `train` takes."""
    train.add_argument("texts", nargs="+", type=Path, metavar="FILE|FOLDER", help="one document per file")
    train.add_argument("--out", required=True, type=Path, help="the folder or file to write; never overwritten")
    by_line = "vidya-v1: no split into words, merges cross spaces, learns line by line"
    train.add_argument("--kind", choices=KINDS, default="byte-level", help=f"{by_line} (default: byte-level)")
    written = "gpt2 writes a folder, tiktoken a file that ends in .tiktoken (default: tokenizer.json, or by the suffix)"
    train.add_argument("--format", choices=FORMATS, help=written)
    number: dict[str, Any] = {"type": _count(256), "default": 4096, "metavar": "N"}
    train.add_argument(*("--vocab", "--vocab-size"), dest="vocab_size", help="number of ids (default: 4096)", **number)
    train.add_argument("--split", help=f"how text is cut into words: {', '.join(SPLITS)} (default: gpt2)")
    train.add_argument("--min-frequency", type=_count(1), metavar="N", help="merge no pair that is rarer (default: 2)")
    names = f"a special token, in place of {' '.join(SPECIAL_TOKENS)}; repeat for more"
    train.add_argument("--special", dest="special_tokens", action="append", metavar="TOKEN", help=names)
    train.add_argument("--nfc", action="store_true", help="compose the text first: e and an accent become é")
    train.add_argument("--threads", type=_count(1), metavar="N", help="default: all processors; the result is the same")
    least, tables = _count(MIN_MEMORY >> 20), "memory for counting words and pairs (default: 1024)"
    train.add_argument("--max-memory", type=least, default=1024, metavar="MIB", help=tables)
    train.add_argument("--glob", metavar="PATTERN", help="which files of a folder to read (default: *)")
    broken = "bytes that are not UTF-8 are refused, or replaced by U+FFFD (default: strict)"
    train.add_argument("--errors", choices=("strict", "replace"), default="strict", help=broken)


def _add_files(parser: _Parser, content: str) -> None:
    """Add the tokenizer to load and the files to read; `content` says what they contain."""
    places = "a folder, a name in models/pretrained, a tokenizer.json, GPT-2's vocab.json, or a .tiktoken file"
    parser.add_argument("tokenizer", metavar="TOKENIZER", help=places)
    _add_split(parser)
    read = f"{content} (default: standard input)"
    parser.add_argument("files", nargs="*", default=[], type=Path, metavar="FILE", help=read)  # none are required


def _add_split(parser: _Parser) -> None:
    """Add the split of a rank file."""
    parser.add_argument("--split", help="how text is cut into words, for a .tiktoken file, which does not say it")


def _add_allow_special(parser: _Parser) -> None:
    """Add the special tokens that count as such in the text."""
    more = "let the text contain this special token, and not only its characters; repeat for more"
    parser.add_argument("--allow-special", action="append", metavar="TOKEN|all", help=more)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    prepare_output()
    parser, known = _parsers()
    arguments = sys.argv[1:] if arguments is None else arguments
    for word in arguments:
        if word.startswith("--") and word.endswith("=--"):  # argparse drops the value, or takes it, by its version
            parser.error(f"{word.removesuffix('=--')} cannot be --, which ends the flags")
    chosen, unknown = parser.parse_known_args(arguments)
    # argparse takes positional words from one place alone; the others come back as unknown.
    several, kind = next(each for each in _SEVERAL.items() if hasattr(chosen, each[0]))
    end = unknown.index("--") if "--" in unknown else len(unknown)
    for word in unknown[:end]:
        if word.startswith("-") and word != "-":
            known[chosen.command].refuse(word)
    getattr(chosen, several).extend(map(kind, unknown[:end] + unknown[end + 1 :]))
    if jit.FOLDER is None:
        complain(
            f"{PROGRAM}: nothing can be kept in the cache folder, so every start compiles for about a minute: set "
            "MINIGRAD_CACHE to a folder that can be written to"
        )
    program = f"{PROGRAM} {chosen.command}"
    try:
        getattr(commands, chosen.command)(chosen)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader needs no more, as in `... | head`
        discard_output()
    except TokenizerError as error:
        complain(f"{program}: {error}")
        return 2
    except OSError as error:
        reason = error.strerror or str(error)
        complain(f"{program}: {reason}" + (f": {error.filename}" if error.filename is not None else ""))
        discard_output()  # it may be what cannot be written
        return 2 if error.errno == errno.ENAMETOOLONG else 1  # such a name was given by the user
    except MemoryError:
        complain(f"{program}: out of memory")
        return 1
    except KeyboardInterrupt:
        complain("interrupted")
        return 130
    return 0
