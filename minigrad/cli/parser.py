"""A settings dataclass read from the command line: one field is one flag, declared by `minigrad.options`."""

from __future__ import annotations

import argparse
import contextlib
import functools
import itertools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from minigrad.cli.exits import complain, explain_system_error
from minigrad.errors import InputError
from minigrad.options import REQUIRED, Option, nearest, options
from minigrad.system.terminal import close_output, quoted, say

Settings = TypeVar("Settings")


class Parser(Generic[Settings]):
    """Reads a command line into an instance of a settings dataclass.

    For an unknown flag, `aliases` suggests the field ("lr") of a name that people type ("learning_rate"). For a word
    without a flag, `stray` returns the field to suggest.
    """

    def __init__(
        self,
        settings: type[Settings],
        *,
        prog: str,
        description: str,
        aliases: Mapping[str, str] | None = None,
        stray: Callable[[str], str] | None = None,
    ) -> None:
        self.settings, self.prog, self.aliases, self.stray = settings, prog, aliases or {}, stray
        self.options = options(settings)
        self._flags = {each.name: each.spelling for each in self.options if not each.positional}
        self._positionals = [each for each in self.options if each.positional]
        words = [f"{each.spelling} ..." if each.many else each.spelling for each in self._positionals]
        usage = " ".join([prog, *words, "[flags]", "[--help]"])
        self._parser = argparse.ArgumentParser(
            prog=prog, description=description, usage=usage, add_help=False, allow_abbrev=False, exit_on_error=False
        )
        titles = dict.fromkeys([*(each.group for each in (*self._positionals, *self.options)), "other"])
        groups = {title: self._parser.add_argument_group(title) for title in titles}
        for each in (*self._positionals, *(each for each in self.options if not each.positional)):
            _declare(groups[each.group], each)
        groups["other"].add_argument(
            "-h", "--help", action=_Help, nargs=0, default=argparse.SUPPRESS, help="print this page and stop"
        )

    def read(self, arguments: Sequence[str] | None = None) -> tuple[Settings, set[str]]:
        """Return the settings and the names of the fields that were given; `arguments` default to the process's.

        `--help` prints the help and exits with 0. Raises InputError for a command line that cannot be read:
        `minigrad.cli.exits.exit_code` makes a paragraph of it.
        """
        arguments = sys.argv[1:] if arguments is None else arguments
        end = arguments.index("--") if "--" in arguments else len(arguments)
        before, behind = arguments[:end], arguments[end + 1 :]
        for word in before:
            if word.startswith("--") and word.endswith("=--"):  # argparse drops the value, or takes it, by its version
                raise InputError(f"{word.removesuffix('=--')} cannot be --, which ends the flags")
        try:
            namespace, surplus = self._parser.parse_known_args(before)
        except argparse.ArgumentError as error:
            raise self._refusal(error, before) from None
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in vars(namespace).items()}
        # argparse takes positional words from one place alone; the others come back as surplus.
        words = [*(word for each in self._positionals for word in values.pop(each.name, ())), *surplus]
        for word in filter(_looks_like_a_flag, words):
            raise self._unknown(word)
        words += behind
        for each in self._positionals:
            taken = len(words) if each.many else 1
            if given := [each.convert(word) for word in words[:taken]]:
                values[each.name] = tuple(given) if each.many else given[0]
            elif each.default is REQUIRED:
                raise InputError(f"{each.spelling} is missing: {each.help}. See {self.prog} --help")
            words = words[taken:]
        if words:
            raise self._unexpected(words)
        return self.settings(**values), set(values)

    def _refusal(self, error: argparse.ArgumentError, arguments: Sequence[str]) -> InputError:
        """Return an error of argparse as InputError, with the option's own description of its values."""
        option = next((each for each in self.options if each.spelling == error.argument_name), None)
        if option is None:  # --help with a value
            return InputError(f"{error}; see {self.prog} --help")
        if isinstance(error.__context__, argparse.ArgumentTypeError):
            return InputError(str(error.__context__))
        for word in arguments:
            if option.kind is bool and word.startswith(f"{option.spelling}="):
                value = word.partition("=")[2]
                return InputError(f"{option.spelling} is a switch and takes no value, not {value!r}")
        message = f"{option.spelling} needs a value: {option.expectation}"
        pairs = itertools.pairwise(arguments)
        refused = (after for flag, after in pairs if flag == option.spelling and _looks_like_a_flag(after))
        if (meant := next(refused, None)) is not None:
            with contextlib.suppress(InputError):
                option.convert(meant)
                message += f"; to give it {meant} write {option.spelling}={meant}"
        return InputError(message)

    def _unknown(self, flag: str) -> InputError:
        """Return the error for a flag that argparse did not take, with the nearest one."""
        name = flag.partition("=")[0]
        return self._hinted(f"unknown flag {name}", self._nearest(name))

    def _unexpected(self, words: Sequence[str]) -> InputError:
        """Return the error for words that are not flags and have no place, with what they may have been meant for."""
        word, guess = words[0], None
        if not word.startswith("-"):  # that word is a negative number, has a space or comes after --: no flag was meant
            guess = self._flags.get(word.replace("-", "_")) or self._flag_before(words)
        return self._hinted(f"unexpected argument {word!r}", guess)

    def _flag_before(self, words: Sequence[str]) -> str | None:
        """Return a word with the flag that was probably forgotten: the one with this choice, or that of `stray`.

        For a flag of several texts, such as prompts, the words are one text that lacks its quotation marks.
        """
        word = words[0]
        name = next((each.name for each in self.options if word in each.choices), None)
        name = name or (self.stray(word) if self.stray else None)
        option = next((each for each in self.options if each.name == name and not each.positional), None)
        return f"{option.spelling} {quoted(' '.join(words) if option.many else word)}" if option else None

    def _nearest(self, word: str) -> str | None:
        # Without their dashes, which would make any two flags look alike.
        meant = {alias.replace("_", "-"): self._flags[name] for alias, name in self.aliases.items()}
        meant |= {flag.lstrip("-"): flag for flag in self._flags.values()}
        return meant.get(nearest(word.lstrip("-").replace("_", "-"), meant) or "")

    def _hinted(self, said: str, guess: str | None) -> InputError:
        return InputError(f"{said}; did you mean {guess}?" if guess else f"{said}; see {self.prog} --help")


def _looks_like_a_flag(word: str) -> bool:
    """Whether a flag was meant: its name begins with a dash, has no space and is not a negative number."""
    name = word.partition("=")[0]
    return name.startswith("-") and name != "-" and " " not in name and not re.fullmatch(r"-\d*\.?\d+", name)


class _Help(argparse.Action):
    """Prints the help page, also to a pipe that is closed early (`train.py --help | head`)."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        try:
            say(parser.format_help(), end="")
        except BrokenPipeError:
            close_output()
        except OSError as error:  # a full disk
            close_output()
            sys.exit(complain(parser.prog, explain_system_error(error)))
        sys.exit(0)


class _Continued(argparse.Action):
    """Joins the comma-separated lists of a repeated flag, as in ``--set experts=8 --set width=64``."""

    def __call__(self, parser: Any, namespace: argparse.Namespace, value: Any, option_string: Any = None) -> None:
        before = getattr(namespace, self.dest, None)
        setattr(namespace, self.dest, value if before is None else f"{before},{value}")


def _declare(group: Any, option: Option) -> None:
    """Declare one option to argparse. An option that is not given stays out of the result (SUPPRESS)."""
    words: dict[str, Any] = {"help": _help(option).replace("%", "%%"), "default": argparse.SUPPRESS}
    if option.positional:
        group.add_argument(option.name, metavar=option.spelling, nargs="*", **words)  # `Parser.read` converts them
        return
    if option.kind is bool:
        words["action"] = "store_true"
    else:
        fallback = {int: "N", float: "X", str: "TEXT"}[option.kind]
        words["type"] = functools.partial(_convert, option)
        words["metavar"] = option.value or "|".join(option.choices) or fallback
    if option.many:
        words["action"] = "append"
    elif (option.value or "").endswith(",..."):
        words["action"] = _Continued
    if option.bare is not None:
        words |= {"nargs": "?", "const": option.bare}
    group.add_argument(option.spelling, dest=option.name, **words)


def _convert(option: Option, text: str) -> Any:
    try:
        return option.convert(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _help(option: Option) -> str:
    if option.default is None:
        return f"{option.help} (default: {option.none_means})" if option.none_means else option.help
    if option.default is REQUIRED or option.kind is bool or option.default in ("", ()):
        return option.help
    default = f"{option.default:g}" if option.kind is float else option.default
    return f"{option.help} (default: {default})"
