"""The arguments of an operation: which it takes, and errors that explain a call it cannot answer."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

from minigrad.errors import InputError


class Signature(NamedTuple):
    """The arguments that an operation takes (see `minigrad.autograd.op`)."""

    name: str
    positional: tuple[str, ...]  # the names of the positional arguments, without those of *arrays
    required: int  # the number of positional arguments without a default
    most: float  # the number of positional arguments at most
    options: tuple[str, ...]  # the names of the keyword-only arguments
    integers: tuple[str, ...]  # the arguments that are never converted
    integer_dtype: str | None  # the dtype to compute in if no argument is a float

    @classmethod
    def of(cls, function: Callable[..., Any], integers: tuple[str, ...], integer_dtype: str | None) -> Signature:
        """Return the signature of the function that an operation is made of."""
        parameters = inspect.signature(function).parameters.values()
        positional = [each for each in parameters if each.kind is each.POSITIONAL_OR_KEYWORD]
        return cls(
            function.__name__,
            tuple(each.name for each in positional),
            sum(each.default is each.empty for each in positional),
            math.inf if any(each.kind is each.VAR_POSITIONAL for each in parameters) else len(positional),
            tuple(each.name for each in parameters if each.kind is each.KEYWORD_ONLY),
            integers,
            integer_dtype,
        )

    def accept(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
        """Check a call, and return its positional arguments without optional ones at the end that are None."""
        if options and (unknown := options.keys() - self.options):
            raise self._unknown_option(unknown)
        if len(arguments) > self.most:
            raise self._too_many(len(arguments))
        while self.required < len(arguments) <= len(self.positional) and arguments[-1] is None:
            arguments = arguments[:-1]
        return arguments

    def argument(self, position: int) -> str:
        """Return the name of an argument, for messages."""
        return self.positional[position] if position < len(self.positional) else f"argument {position}"

    def is_converted(self, position: int) -> bool:
        """Whether an argument is converted to the dtype of the others."""
        return position >= len(self.positional) or self.positional[position] not in self.integers

    def _unknown_option(self, unknown: set[str]) -> InputError:
        usual = {"dim": "axis", "keepdim": "keepdims"}
        names = ", ".join(f"{name} (here it is {usual[name]})" if name in usual else name for name in sorted(unknown))
        known = f"its options are {', '.join(sorted(self.options))}" if self.options else "it has no options"
        return InputError(f"{self.name} has no option {names}; {known}")

    def _too_many(self, count: int) -> InputError:
        number, names = len(self.positional), ", ".join(self.positional)
        by_name = f"; options are given by name: {', '.join(f'{each}=...' for each in self.options)}"
        return InputError(
            f"{self.name} takes {number} argument{'s' * (number != 1)} ({names}), not {count}"
            f"{by_name if self.options else ''}"
        )
