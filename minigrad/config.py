"""Command-line flags generated from a frozen dataclass: one field, one flag, one rule.

A setting is written down once, as a dataclass field with its default, its help and the values it may take.
From that come the flag, the `--help` page and the check, which is the same whether the value arrives from the
command line or from Python (`validate`). Only the standard library is imported, so that `--help` and a
mistyped flag are answered at once, before NumPy and Numba are loaded.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import os
import shutil
import sys
import textwrap
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from minigrad.errors import InputError
from minigrad.interrupt import close_output

Config = TypeVar("Config")

REQUIRED: Any = dataclasses.MISSING  # the default of an option that must be given


@dataclasses.dataclass(frozen=True)
class Option:
    """What one field of a settings dataclass accepts, and how its flag reads on the command line."""

    help: str
    group: str = "options"  # the heading in --help under which the flag stands
    choices: Sequence[str] = ()  # where given, the only texts allowed
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    flag: str | None = None  # the spelling, where it is not the field's name with dashes
    value: str | None = None  # how the value is called in --help: DIR, PATH|URL
    bare: str | None = None  # the value meant by the flag standing alone, as in `--resume`
    none_means: str = "chosen automatically"  # how a default of None reads in --help
    positional: bool = False  # written without a flag, as in `generate.py runs/nano`
    # These four are filled in from the field itself:
    name: str = ""
    kind: type = str  # int, float, str or bool
    optional: bool = False  # None is allowed
    default: Any = None

    @property
    def spelling(self) -> str:
        """The flag as it is typed, or the name of the value for a positional argument."""
        if self.positional:
            return self.value or self.name.upper()
        return self.flag or "--" + self.name.replace("_", "-")

    @property
    def expectation(self) -> str:
        """The values it takes, in words: "a whole number of at least 1"."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        nouns = {int: "a whole number", float: "a finite number", str: "text", bool: "True or False"}
        bounds = [
            f"{words} {bound}"
            for words, bound in (
                ("of at least", self.at_least),
                ("above", self.above),
                ("at most", self.at_most),
                ("below", self.below),
            )
            if bound is not None
        ]
        return " ".join([nouns[self.kind], " and ".join(bounds)]).rstrip()

    def accepts(self, value: Any) -> bool:
        """Whether `value`, already of a Python type, is allowed here."""
        if value is None:
            return self.optional
        if self.kind is str:
            return isinstance(value, str | os.PathLike) and (not self.choices or value in self.choices)
        if self.kind is bool or isinstance(value, bool):  # to Python True is an int; as a number it is a slip
            return self.kind is bool and isinstance(value, bool)
        if not isinstance(value, int if self.kind is int else int | float):
            return False
        if isinstance(value, float) and not math.isfinite(value):
            return False
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def convert(self, text: str) -> Any:
        """Turn the `text` of the command line into a value, or raise InputError saying what was expected."""
        if self.kind is bool:
            raise InputError(f"{self.spelling} is a switch and takes no value, not {text!r}")
        try:
            value = self.kind(text)
        except ValueError:
            value = None
        if value is None or not self.accepts(value):
            raise self.refusal(self.spelling, text)
        return value

    def refusal(self, called: str, value: Any) -> InputError:
        """The error for a `value` that is not allowed."""
        guess = nearest(value, self.choices) if self.choices and isinstance(value, str) else None
        hint = f"; did you mean {guess!r}?" if guess else ""
        return InputError(f"{called} takes {self.expectation}, not {value!r}{hint}")


def option(default: Any, help: str, **rules: Any) -> Any:
    """Declare one setting: a dataclass field that knows its help, its flag and the values it may take.

    The field's type is int, float, str or bool (a switch, False by default), or one of these `| None`;
    `rules` are the other fields of `Option`, as in `steps: int = option(100, "updates to make", at_least=1)`.
    """
    return dataclasses.field(default=default, metadata={"option": Option(help, **rules)})


def options(settings: type[Any]) -> list[Option]:
    """Return the options of a settings dataclass, in the order in which its fields are written."""
    hints = typing.get_type_hints(settings)
    found = []
    for field in dataclasses.fields(settings):
        members = typing.get_args(hints[field.name]) or (hints[field.name],)
        kinds = [member for member in members if member is not types.NoneType]
        found.append(
            dataclasses.replace(
                field.metadata["option"],
                name=field.name,
                kind=kinds[0],
                optional=len(kinds) < len(members),
                default=field.default,
            )
        )
    return found


def validate(settings: Any) -> None:
    """Check every field of a settings instance by the rule of its flag; InputError for the first bad one."""
    for each in options(type(settings)):
        value = getattr(settings, each.name)
        if not each.accepts(value):
            raise each.refusal(each.name, value)


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that `word` was probably meant to be, or None if it resembles none.

    >>> nearest("Vidia_v2", ["vidya-v2", "gpt2"])
    'vidya-v2'
    """
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower(), by_lower, n=1)
    return by_lower[close[0]] if close else None


def unknown(kind: str, word: str, names: Iterable[str]) -> InputError:
    """Return the error for a name that is not known, with the nearest one that is.

    >>> print(unknown("model", "vidya-v3", ["vidya-v2", "gpt2"]))
    unknown model 'vidya-v3'; did you mean 'vidya-v2'? Known: vidya-v2, gpt2
    """
    known = list(names)
    guess = nearest(word, known)
    hint = f"; did you mean {guess!r}?" if guess else "."
    return InputError(f"unknown {kind} {word!r}{hint} Known: {', '.join(known)}")


def complain(prog: str, error: Exception) -> int:
    """Print `error` as one paragraph on standard error and return the exit code: 2 for bad input, else 1."""
    print(f"{prog}: {error}", file=sys.stderr)
    return 2 if isinstance(error, InputError) else 1


@dataclasses.dataclass(frozen=True)
class Parser(Generic[Config]):
    """Reads a command line into an instance of a settings dataclass.

    argparse is not used: its errors say what it stumbled over, not which value was expected, and it treats
    optional positional arguments differently from one Python version to the next.
    """

    settings: type[Config]
    _: dataclasses.KW_ONLY
    prog: str
    description: str
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Words that people try ("learning_rate") with the field they mean ("lr"), to suggest the right flag."""

    def parse(self, arguments: Sequence[str] | None = None) -> tuple[Config, set[str]]:
        """Return the settings and the names of the fields given explicitly.

        `arguments` defaults to those of the process. `--help` prints the help and exits with 0; an error is
        printed as one paragraph on standard error and exits with 2.
        """
        arguments = sys.argv[1:] if arguments is None else arguments
        if "--help" in arguments or "-h" in arguments:
            try:
                print(self.help(), flush=True)
            except BrokenPipeError:  # the reader has seen enough, as in `train.py --help | head`
                close_output()
            sys.exit(0)
        try:
            return self.read(arguments)
        except InputError as error:
            sys.exit(complain(self.prog, error))

    def read(self, arguments: Sequence[str]) -> tuple[Config, set[str]]:
        """Do the work of `parse`, raising InputError instead of leaving the process."""
        flags = {each.spelling: each for each in options(self.settings) if not each.positional}
        awaited = [each for each in options(self.settings) if each.positional]
        values: dict[str, Any] = {}
        queue = list(arguments)
        while queue:
            word = queue.pop(0)
            flag, equals, text = word.partition("=")
            if not word.startswith("-"):
                if not awaited:
                    guess = nearest(f"--{word}", flags)
                    way_out = f"did you mean {guess}?" if guess else f"see {self.prog} --help"
                    raise InputError(f"unexpected argument {word!r}; {way_out}")
                each = awaited.pop(0)
                values[each.name] = each.convert(word)
            elif flag not in flags:
                raise self._unknown_flag(flag, flags)
            else:
                each = flags[flag]
                values[each.name] = each.convert(text) if equals else _following_value(each, queue)
        missing = [each for each in awaited if each.default is REQUIRED]
        if missing:
            raise InputError(f"{missing[0].spelling} is missing: {missing[0].help}. See {self.prog} --help")
        return self.settings(**values), set(values)

    def _unknown_flag(self, flag: str, flags: Mapping[str, Option]) -> InputError:
        spellings = {each.name: spelling for spelling, each in flags.items()}
        meant = {"--" + alias.replace("_", "-"): spellings[name] for alias, name in self.aliases.items()}
        meant |= {spelling: spelling for spelling in flags}
        guess = nearest(flag.replace("_", "-"), meant)
        way_out = f"did you mean {meant[guess]}?" if guess else f"see {self.prog} --help"
        return InputError(f"unknown flag {flag}; {way_out}")

    def help(self) -> str:
        """Return the help page: every flag under its group, aligned, wrapped to the width of the terminal."""
        width = min(100, max(40, shutil.get_terminal_size().columns))
        known = options(self.settings)
        positionals = [each.spelling for each in known if each.positional]
        usage = " ".join(["usage:", self.prog, *positionals, "[flags]", "[--help]"])
        page = [usage, "", textwrap.fill(self.description, width)]
        for group in dict.fromkeys(each.group for each in known):
            page += ["", f"{group}:"]
            for each in known:
                if each.group == group:
                    page += _help_lines(each, width)
        return "\n".join(page)


def _following_value(each: Option, queue: list[str]) -> Any:
    """Take the value of a flag written without `=` from the front of the `queue`."""
    if each.kind is bool:
        return True
    if queue and not queue[0].startswith("--"):
        return each.convert(queue.pop(0))
    if each.bare is not None:
        return each.bare
    way_out = f"; to give it {queue[0]} write {each.spelling}={queue[0]}" if queue and each.kind is str else ""
    raise InputError(f"{each.spelling} needs a value: {each.expectation}{way_out}")


def _help_lines(each: Option, width: int) -> list[str]:
    column = 24 if width >= 70 else 8  # on a narrow terminal the help stands below its flag
    left = "  " + each.spelling
    if not each.positional and each.kind is not bool:
        fallback = {int: "N", float: "X", str: "TEXT"}[each.kind]
        value = each.value or ("|".join(each.choices) if each.choices else fallback)
        left += f" [{value}]" if each.bare is not None else f" {value}"
    text = each.help
    if each.default is None:
        text += f" (default: {each.none_means})" if each.none_means else ""
    elif each.default is not REQUIRED and each.kind is not bool and each.default != "":
        text += f" (default: {each.default:g})" if each.kind is float else f" (default: {each.default})"
    wrapped = textwrap.wrap(text, width - column, break_on_hyphens=False)
    lines = [" " * column + line for line in wrapped]
    if len(left) + 2 <= column:
        lines[0] = left.ljust(column) + wrapped[0]
        return lines
    return [left, *lines]
