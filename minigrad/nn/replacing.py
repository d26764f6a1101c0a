"""Replacing modules: how something is added to a model from outside.

`replace` puts a module into the place of another one, and a `Wrapper` keeps that other one inside, under its names:

    replace(model, {name: Doubled(layer) for name, layer in model.named_modules() if isinstance(layer, nn.Linear)})
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from minigrad.errors import InputError
from minigrad.nn.module import Module
from minigrad.nn.parameter import Parameter


class Wrapper(Module):
    """A module around another one, whose place it takes: the parameters of `inner` keep the names they had.

    >>> from minigrad import nn
    >>> model = nn.Sequential(nn.Linear(2, 1), nn.Linear(1, 1))
    >>> replace(model, {"1": Wrapper(model[1])})
    >>> list(model.state_dict())
    ['0.weight', '0.bias', '1.weight', '1.bias']
    """

    def __init__(self, inner: Module) -> None:
        self.inner = inner

    def _children(self) -> Iterator[tuple[str, Parameter | Module]]:
        return (("" if child is self.inner else name, child) for name, child in super()._children())

    def forward(self, *arguments: Any, **options: Any) -> Any:
        """Call the inner module; a wrapper that adds something to it overrides this."""
        return self.inner(*arguments, **options)


def replace(model: Module, replacements: Mapping[str, Module]) -> None:
    """Put modules into the places of others, given by name as in `Module.named_modules`.

    A module that is used in several places is replaced in all of them. Raises InputError for a name that the model
    lacks, and for the name of the model itself, "".
    """
    modules: dict[str, Module] = {}
    for name, module in model.named_modules():
        modules.setdefault(name, module)  # a wrapper comes before what it wraps
    if unknown := [name for name in replacements if not name or name not in modules]:
        raise InputError(f"the model has no module {unknown[0]!r} inside it that could be replaced")
    new = {id(modules[name]): module for name, module in replacements.items()}
    for _, module in list(model.named_modules()):  # a module inside a wrapper, too, which has its name
        for name, value in vars(module).items():
            vars(module)[name] = _with(value, new)


def _with(value: Any, new: Mapping[int, Module]) -> Any:
    """Return the value of an attribute with modules replaced, also those in lists, tuples and dictionaries."""
    if isinstance(value, Module):
        return new.get(id(value), value)
    if isinstance(value, list | tuple):
        items = [_with(item, new) for item in value]
        if all(item is old for item, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)  # of a named tuple
    if isinstance(value, dict):
        changed = {key: item for key, old in value.items() if (item := _with(old, new)) is not old}
        if not changed:
            return value
        found = copy.copy(value)  # of its own class
        found.update(changed)
        return found
    return value
