"""The public names of a module as they are when the pages are built: signature, docstring, fields, methods, and home.

A name is public if the module lists it in `__all__`; a module without that list offers what it defines, except names
that begin with an underscore. The home of a name is the file that defines it: `minigrad.Tensor` is at home in
minigrad/autograd/tensor.py. Signatures are those of the imported objects, docstrings those of the source.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from docs.extensions.source_parts import Definition, NotFoundError, find

ROOT = Path(__file__).parents[2]
WIDTH = 88  # characters of a signature on one line


@dataclasses.dataclass(frozen=True)
class PublicName:
    """One name with all that the reference says about it."""

    name: str  # as one writes it
    home: str  # the dotted name of its definition
    signature: str
    docstring: str
    bases: tuple[str, ...] = ()  # homes of the classes of the project that it inherits from
    fields: tuple[tuple[str, str], ...] = ()  # of a dataclass: the declaration, and what it means
    methods: tuple[PublicName, ...] = ()


def public_names(module: str) -> list[PublicName]:
    """Return all public names of a module, as a dictionary orders words.

    Raises NotFoundError for a name without a docstring or a home.
    """
    imported = importlib.import_module(module)
    defined = [node.name for node in _tree(imported.__name__).body if isinstance(node, Definition)]
    names = getattr(imported, "__all__", [name for name in defined if not name.startswith("_")])
    return [described(name, getattr(imported, name), module) for name in sorted(names, key=str.lower)]


def described(name: str, value: Any, module: str) -> PublicName:
    """Return what there is to say about a name of a module."""
    if isinstance(value, ModuleType):
        return PublicName(name, value.__name__, "", _docstring(value.__name__, _tree(value.__name__)))
    if not callable(value):
        home = _home_of_value(name, value, module)
        return PublicName(name, home, f"{name} = {_short(value)}", _docstring_below(home))
    home = f"{inspect.unwrap(value).__module__}.{value.__qualname__}"
    if not inspect.isclass(value):
        return PublicName(name, home, signature_of(name, value), _docstring(home, find(home, ROOT).tree))
    is_record = dataclasses.is_dataclass(value) or issubclass(value, tuple | int | Exception)
    return PublicName(
        name,
        home,
        f"class {name}" if is_record else signature_of(name, value),
        _docstring(home, find(home, ROOT).tree),
        tuple(f"{base.__module__}.{base.__qualname__}" for base in value.__bases__ if _is_ours(base)),
        tuple(_fields(value)) if is_record else (),
        tuple(_methods(value)),
    )


def signature_of(name: str, function: Any) -> str:
    """Return a name and its parameters as one would write them, on several lines if they are long.

    >>> def area(width: float, height: float = 1.0, *, unit: str | None = None) -> float: ...
    >>> print(signature_of("area", area))
    area(width: float, height: float = 1.0, *, unit: str | None = None) -> float
    """
    found = inspect.signature(function)
    is_operation = function.__module__.startswith(("minigrad.ops.", "models.")) and "Backward" in str(
        found.return_annotation
    )

    def plain(parameter: inspect.Parameter) -> Any:
        if not isinstance(parameter.annotation, str):
            return parameter.annotation
        takes_tensors = is_operation and parameter.kind is not parameter.KEYWORD_ONLY
        return _Annotation(parameter.annotation.replace("Array", "Tensor") if takes_tensors else parameter.annotation)

    kept = [each.replace(annotation=plain(each)) for each in found.parameters.values() if each.name != "self"]
    returned = "Tensor" if is_operation else found.return_annotation
    ending = "" if inspect.isclass(function) or returned is found.empty else f" -> {_text_of(returned)}"
    line = f"{name}{inspect.Signature(kept)}{ending}"
    if len(line) <= WIDTH:
        return line
    pieces, stars = [], False
    for each in kept:
        if each.kind is each.KEYWORD_ONLY and not stars:
            pieces.append("*")
        stars = stars or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        pieces.append(str(each))
    return f"{name}(\n" + "".join(f"    {piece},\n" for piece in pieces) + f"){ending}"


class _Annotation(str):
    """An annotation that a signature shows without quotes."""

    __slots__ = ()
    __repr__ = str.__str__


def _text_of(annotation: Any) -> str:
    """Return a type as it is written; a NamedTuple wraps it."""
    written = getattr(annotation, "__forward_arg__", annotation)
    return written.__name__ if inspect.isclass(written) else str(written)


def _is_ours(value: Any) -> bool:
    return value.__module__.split(".")[0] in ("minigrad", "models", "tokenizer", "train")


def _methods(cls: type) -> list[PublicName]:
    """Return the public methods and properties that a class defines itself, in the order of the source."""
    found = []
    for name, value in vars(cls).items():
        is_property = isinstance(value, property | functools.cached_property)
        if name.startswith("_") or not (is_property or inspect.isroutine(value)):
            continue
        home = f"{cls.__module__}.{cls.__qualname__}.{name}"
        shown = name if is_property else signature_of(name, getattr(cls, name))
        found.append(PublicName(name, home, shown, _docstring(home, find(home, ROOT).tree)))
    return found


def _fields(cls: type) -> list[tuple[str, str]]:
    """Return the declaration of each field of a dataclass or NamedTuple, and its help or the comment beside it."""
    declared = {field.name: field for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else {}
    found = []
    for name, owner in {each: base for base in cls.__mro__[::-1] for each in inspect.get_annotations(base)}.items():
        if name.startswith("_") or not _is_ours(owner) or (declared and name not in declared):
            continue
        option = declared[name].metadata.get("option") if declared else None
        default = (
            declared[name].default if declared else getattr(cls, "_field_defaults", {}).get(name, dataclasses.MISSING)
        )
        value = "" if default is dataclasses.MISSING else f" = {_short(default)}"
        kind = _text_of(inspect.get_annotations(owner)[name])
        meaning = option.help if option else _comment_beside(owner, name)
        if option and default is None and option.none_means:
            meaning += f" (None: {option.none_means})"
        found.append((f"{name}: {kind}{value}", meaning))
    return found


def _comment_beside(cls: type, field: str) -> str:
    excerpt = find(f"{cls.__module__}.{cls.__qualname__}", ROOT)
    for node in excerpt.tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == field:
            line = excerpt.text.splitlines()[(node.end_lineno or node.lineno) - 1]
            return line[(node.end_col_offset or 0) :].partition("#")[2].strip()
    return ""


def _short(value: Any) -> str:
    """Return a value as it would be written, cut if it is long."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: ..." for key in value) + "}"
    text = repr(value)
    return text if len(text) <= WIDTH and " at 0x" not in text else "..."


@functools.cache
def _tree(module: str) -> Any:
    return find(module, ROOT).tree


def _docstring(home: str, tree: Any) -> str:
    text = ast.get_docstring(tree)
    if not text:
        raise NotFoundError(f"{home} is public and has no docstring")
    return text


def _home_of_value(name: str, value: Any, module: str) -> str:
    """Return the module of the project that assigns a value which does not say where it comes from."""
    package = module.split(".")[0]
    for other, imported in sorted(sys.modules.items()):
        if (
            other.split(".")[0] == package
            and vars(imported).get(name) is value
            and _assignment(other, name) is not None
        ):
            return f"{other}.{name}"
    raise NotFoundError(f"{module}.{name}: no file assigns it")


def _assignment(module: str, name: str) -> int | None:
    """Return the place of an assignment among the statements of a module."""
    for place, node in enumerate(_tree(module).body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            return place
    return None


def _docstring_below(home: str) -> str:
    """Return the text in quotes that stands below an assignment."""
    module, _, name = home.rpartition(".")
    body, place = _tree(module).body, _assignment(module, name)
    below = body[place + 1] if place is not None and place + 1 < len(body) else None
    if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
        return inspect.cleandoc(below.value.value)
    raise NotFoundError(f"{home} is public and has no text in quotes below it that says what it is")
