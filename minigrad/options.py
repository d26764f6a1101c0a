"""Dataclass fields that carry their help text and the values they accept.

A setting is declared once, as a dataclass field with its default, its help and its bounds. The command line, the
`--help` page and the check of values that come from Python or from a file (`validate`) all read that declaration. Only
the standard library is imported, so that `--help` and the error for a mistyped flag do not wait for NumPy and Numba.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import numbers
import os
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from minigrad.errors import InputError

REQUIRED: Any = dataclasses.MISSING  # the default of an option that must be given


@dataclasses.dataclass(frozen=True)
class Option:
    """What one field of a settings dataclass accepts, and how its flag reads on the command line."""

    help: str
    group: str = ""  # the heading above the flag in --help, if it is not that of the `Group`
    choices: Sequence[str] = ()  # the only strings allowed, if given
    at_least: float | None = None
    above: float | None = None
    at_most: float | None = None
    below: float | None = None
    value: str | None = None  # the name of the value in --help: DIR, PATH|URL
    filled: bool = False  # an empty text is not allowed
    bare: str | None = None  # the value of the flag without an argument, as in `--resume`
    none_means: str = "chosen automatically"  # the text in --help for a default of None
    positional: bool = False  # written without a flag, as in `generate.py runs/nano`
    published: str | None = None  # the key in a config.json, for a field of a model's config
    absent: Any = False  # whether that key may be absent, which means the default; or a function of the file's content
    # These are filled in from the field itself, as is `group` where it is empty:
    name: str = ""
    kind: type = str  # int, float, str or bool
    optional: bool = False  # None is allowed
    many: bool = False  # the field is a tuple of values, and the flag may be given several times
    default: Any = None

    @property
    def spelling(self) -> str:
        """The flag as it is typed, or the name of the value for a positional argument."""
        if self.positional:
            return self.value or self.name.upper()
        return flag_of(self.name)

    @property
    def single(self) -> Option:
        """The option for one of several values."""
        return dataclasses.replace(self, many=False)

    @property
    def expectation(self) -> str:
        """The values it accepts, in words: "a whole number of at least 1"."""
        if self.choices:
            return "one of " + ", ".join(self.choices)
        text = "text that is not empty" if self.filled else "text"
        nouns = {int: "a whole number", float: "a finite number", str: text, bool: "true or false"}
        bounds = [
            f"{words} {_written(bound)}"
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
        """Whether the Python value `value` is allowed."""
        if value is None:
            return self.optional
        if self.many:
            return isinstance(value, list | tuple) and all(map(self.single.accepts, value))
        if self.kind is str:
            allowed = (not self.choices or value in self.choices) and (not self.filled or value != "")
            return isinstance(value, str | os.PathLike) and allowed
        if self.kind is bool or isinstance(value, bool):  # in Python True is an int; as a number it is a mistake
            return self.kind is bool and isinstance(value, bool)
        if not isinstance(value, int if self.kind is int else int | float):
            return False
        if self.kind is float and not _is_finite(value):
            return False
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
            and (self.at_most is None or value <= self.at_most)
            and (self.below is None or value < self.below)
        )

    def convert(self, text: str, called: str | None = None) -> Any:
        """Return the value of a string; raises InputError, naming the option as `called`, if it is not allowed.

        "none" means None where that is allowed, "true" and "false" are the values of a switch. Where several values are
        allowed, the string is one of them.
        """
        called = called or self.spelling
        if self.optional and text.lower() == "none" and (self.kind is not str or self.choices):
            return None
        if self.kind is bool:
            return self.check({"true": True, "false": False}.get(text.lower(), text), called)
        try:
            value = self.kind(text)
        except ValueError:
            raise self.refusal(called, text) from None
        if not self.single.accepts(value):
            raise self.refusal(called, text)
        return value

    def check(self, value: Any, called: str) -> Any:
        """Return a Python value if it is allowed; raises InputError, naming the option as `called`, otherwise.

        A number of NumPy's becomes one of Python's, and a list becomes a tuple.
        """
        if self.many and isinstance(value, list | tuple):
            return tuple(self.single.check(each, called) for each in value)
        plain = value.item() if isinstance(value, numbers.Number) and hasattr(value, "item") else value
        if not self.accepts(plain):
            raise self.refusal(called, value)
        return plain

    def refusal(self, called: str, value: Any) -> InputError:
        """Return the error for a `value` that is not allowed."""
        if self.many and not isinstance(value, str):
            return InputError(
                f"{called} takes a list or a tuple, not {shown(value)}; each element is {self.expectation}"
            )
        guess = nearest(value, self.choices) if self.choices and isinstance(value, str) else None
        hint = f"; did you mean {guess!r}?" if guess else ""
        return InputError(f"{called} takes {self.expectation}, not {shown(value)}{hint}")


def flag_of(name: str) -> str:
    """Return the flag of a setting, by its name.

    >>> flag_of("save_every")
    '--save-every'
    """
    return "--" + name.replace("_", "-")


def checked_number(called: str, value: Any, kind: type = float, **bounds: Any) -> Any:
    """Return a number if it lies within `bounds` (see `Option`).

    Raises InputError, naming the number as `called`, otherwise.

    >>> checked_number("dropout's probability", 0.5, at_least=0, below=1)
    0.5
    """
    return _rule(kind, **bounds).check(value, called)


@functools.cache
def _rule(kind: type, **bounds: Any) -> Option:
    return Option("", kind=kind, **bounds)


def shown(value: Any) -> str:
    """Return a value as an error message shows it, cut if it is long.

    >>> shown("to be " * 30)
    "'to be to be to be to be to be to be to be to be to be to be..."
    """
    text = repr(value)
    return text if len(text) <= 80 else text[:60] + "..."


def _written(bound: float) -> str:
    """Return a bound as a reader counts it: 1,000,000 and 1e+15, and never rounded."""
    return f"{bound:,}" if isinstance(bound, int) else f"{bound:,.15g}"


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number beyond the range of float
        return False


@dataclasses.dataclass(frozen=True)
class Group:
    """Settings that belong together: one heading in --help, and one check.

    The settings of a program inherit its groups; a function that needs one group takes it as the type.
    """

    heading: ClassVar[str] = "options"

    def check(self) -> None:
        """Raise InputError for settings of this group that exclude each other."""

    def is_changed(self, name: str) -> bool:
        """Whether a setting has another value than by default."""
        return bool(getattr(self, name) != getattr(type(self), name))


def option(default: Any, help: str, **rules: Any) -> Any:
    """Declare one setting: a dataclass field with its help text, its flag and the values it accepts.

    The field's type is int, float, str or bool (a switch, False by default), one of these `| None`, or a tuple of any
    number of them, as in `tuple[str, ...]`; `rules` are the other fields of `Option`, as in
    `steps: int = option(100, "training steps", at_least=1)`.
    """
    return dataclasses.field(default=default, metadata={"option": Option(help, **rules)})


def options(settings: Any) -> tuple[Option, ...]:
    """Return the options of a settings dataclass, in the order in which its fields are written."""
    return _options(settings)


@functools.cache
def _options(settings: Any) -> tuple[Option, ...]:
    hints = typing.get_type_hints(settings)
    found = []
    for field in dataclasses.fields(settings):
        members = typing.get_args(hints[field.name]) or (hints[field.name],)
        kinds = [member for member in members if member not in (types.NoneType, ...)]
        declared, heading = _declaration(settings, field.name)
        found.append(
            dataclasses.replace(
                declared,
                group=declared.group or heading,
                name=field.name,
                kind=kinds[0],
                optional=types.NoneType in members,
                many=... in members,
                default=field.default,
            )
        )
    return tuple(found)


def _declaration(settings: type[Any], name: str) -> tuple[Option, str]:
    """Return the declaration of a field, and the heading of the class that introduces the field.

    A subclass that narrows the type of a field inherits its declaration.
    """
    owners = [base for base in settings.__mro__ if name in base.__dict__.get("__dataclass_fields__", {})]
    fields = [base.__dict__["__dataclass_fields__"][name] for base in owners]
    found: Option = next(field.metadata["option"] for field in fields if "option" in field.metadata)
    return found, getattr(owners[-1], "heading", Group.heading)


def validate(settings: Any) -> None:
    """Check every field of a settings instance by its declaration; raises InputError for the first bad value.

    The field then holds what `Option.check` returns.
    """
    for each in options(type(settings)):
        object.__setattr__(settings, each.name, each.check(getattr(settings, each.name), each.name))


_LONGEST_NAME = 100  # characters; the time for a comparison grows faster than the word


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the one of `names` that is closest to `word`, or None if none is close.

    >>> nearest("Vidia_v2", ["vidya-v2", "gpt2"])
    'vidya-v2'
    """
    by_lower = {name.lower(): name for name in names}
    close = difflib.get_close_matches(word.lower()[:_LONGEST_NAME], by_lower, n=1)
    return by_lower[close[0]] if close else None


def unknown(kind: str, word: str, names: Iterable[str]) -> InputError:
    """Return the error for an unknown name, with the closest known one.

    >>> print(unknown("model", "vidya-v3", ["vidya-v2", "gpt2"]))
    unknown model 'vidya-v3'; did you mean 'vidya-v2'? Known: vidya-v2, gpt2
    """
    known = list(names)
    guess = nearest(word, known)
    hint = f"; did you mean {guess!r}?" if guess else "."
    return InputError(f"unknown {kind} {shown(word)}{hint} Known: {', '.join(known)}")


def assignments(text: str | None) -> dict[str, str]:
    """Read "name=value,name=value".

    >>> assignments("atm=off, rope_factor=4")
    {'atm': 'off', 'rope_factor': '4'}
    """
    found: dict[str, str] = {}
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    for part in parts or ([text] if text else []):  # of a text of commas alone, the whole is refused
        name, sign, value = map(str.strip, part.partition("="))
        if not name or not sign:
            raise InputError(f"--set takes NAME=VALUE, with commas between several, not {part!r}")
        if name in found:
            raise InputError(f"--set gives {name} twice: {found[name]} and {value}")
        found[name] = value
    return found
