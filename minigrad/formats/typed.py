"""JSON values from outside become dataclasses: every field is checked against its type and its declared bounds.

A file may have been edited, cut or written by another program. So each value must fit the annotation of its field
(`int`, `float`, `str`, `bool`, `list[...]`, `dict[str, ...]`, another dataclass, `Any`, or one of these `| None`) and,
for a field made by `option`, its bounds.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from minigrad.errors import InputError
from minigrad.options import Option, nearest, shown

Kind = TypeVar("Kind")


def read_dataclass(
    kind: type[Kind], values: Any, called: str = "", *, complete: bool = False, ignore_unknown: bool = False
) -> Kind:
    """Return an instance of the dataclass `kind` with the values of a JSON object.

    Raises InputError naming the field, its value and what was expected: for a value of another type or out of bounds,
    a missing field without a default (if `complete`, any missing field), or an unknown one (unless `ignore_unknown`).
    Objects inside are read in the same way. `called` is the path of the object, for the message.
    """
    if not isinstance(values, dict):
        raise InputError(f"{called or 'it'} is {shown(values)}, not an object")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(kind)
    for name, field in fields.items():
        no_default = field.default is field.default_factory  # both are MISSING
        if name not in values and (complete or no_default):
            raise InputError(f"{_path(called, name)} is missing")
    unknown = [name for name in values if name not in fields]
    if unknown and not ignore_unknown:
        guess = nearest(unknown[0], fields)
        raise InputError(f"{_path(called, unknown[0])} is unknown" + (f"; did you mean {guess}?" if guess else ""))
    reading = {"complete": complete, "ignore_unknown": ignore_unknown}
    checked = {
        name: _checked(hints[name], fields[name].metadata.get("option"), value, _path(called, name), reading)
        for name, value in values.items()
        if name in fields
    }
    return kind(**checked)


def read_values(declared: Mapping[str, Option], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values that fields declared by `option` accept; raises InputError for an unknown name or a bad value."""
    for name, value in values.items():
        if name not in declared:
            raise InputError(f"{shown(name)} is unknown")
        declared[name].check(value, name)
    return dict(values)


def _path(called: str, name: str) -> str:
    return f"{called}.{name}" if called else name


def _checked(hint: Any, option: Option | None, value: Any, called: str, reading: dict[str, bool]) -> Any:
    """Return `value` if its annotation and its option accept it; raises InputError, naming it as `called`.

    `reading` are the options of `read_dataclass` for the objects inside.
    """
    origin, members = typing.get_origin(hint), typing.get_args(hint)
    if origin is types.UnionType:
        (hint,) = (member for member in members if member is not types.NoneType)
        return None if value is None else _checked(hint, option, value, called, reading)
    if origin is list:
        if not isinstance(value, list):
            raise InputError(f"{called} is {shown(value)}, not a list")
        return [_checked(members[0], option, item, f"{called}[{index}]", reading) for index, item in enumerate(value)]
    if origin is dict:
        if not isinstance(value, dict):
            raise InputError(f"{called} is {shown(value)}, not an object")
        return {name: _checked(members[1], option, item, _path(called, name), reading) for name, item in value.items()}
    if dataclasses.is_dataclass(hint):
        return read_dataclass(hint, value, called, **reading)  # type: ignore[arg-type]
    if hint is Any:
        return value
    return dataclasses.replace(option or Option(""), kind=hint).check(value, called)
