"""Take a module, class or function from the source by its dotted name, and part its prose from its code.

Prose is what the source says in words: docstrings, and comments that have a line of their own. Everything else is code,
and stays as it is, with its line numbers. A part is a stretch of code and the prose that belongs beside it: a docstring
stands beside the line that begins its function, a comment beside the lines below it.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class NotFoundError(LookupError):
    """The source has no object of this name."""


@dataclass(frozen=True)
class Excerpt:
    """Lines of a file: the whole of it, or one definition in it."""

    path: Path
    text: str  # of the whole file
    first: int  # line number, counted from 1
    last: int
    tree: ast.Module | Definition


@dataclass
class Part:
    """Prose as Markdown, and the numbers of the lines of code that stand beside it."""

    prose: str = ""
    lines: list[int] = field(default_factory=list)


def find(name: str, root: Path) -> Excerpt:
    """Return the lines of a dotted name, such as minigrad.ops.softmax.softmax, below the folder `root`.

    Raises NotFoundError if there is no such file, or nothing of that name in it.
    """
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        base = root.joinpath(*parts[:length])
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if path.is_file():
                return _in_file(path, parts[length:])
    raise NotFoundError(f"{name}: there is no file of this name")


def _in_file(path: Path, names: list[str]) -> Excerpt:
    text = path.read_text(encoding="utf-8")
    tree: Any = ast.parse(text)
    for name in names:
        found = [
            node for node in tree.body if isinstance(node, Definition) and node.name == name and not _is_setter(node)
        ]
        if not found:
            raise NotFoundError(f"{path.name} has no {'.'.join(names)}")
        tree = found[-1]  # of several overloads the last one is the function
    if not names:
        return Excerpt(path, text, 1, len(text.splitlines()), tree)
    first = min([tree.lineno, *(decorator.lineno for decorator in tree.decorator_list)])
    return Excerpt(path, text, first, tree.end_lineno, tree)


def _is_setter(node: Definition) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "setter" for each in node.decorator_list)


def definitions(module: Excerpt, name: str) -> dict[int, str]:
    """Return the dotted names of the constants, functions, classes and methods of a module, by the first line of each.

    Of overloads, and of a property with a setter, the first definition has the name.
    """
    found: dict[str, int] = {}
    pending: list[tuple[str, ast.stmt]] = [(name, node) for node in module.tree.body]
    for owner, node in pending:
        if isinstance(node, Definition):
            found.setdefault(f"{owner}.{node.name}", min([node.lineno, *(each.lineno for each in node.decorator_list)]))
            if isinstance(node, ast.ClassDef):
                pending += [(f"{owner}.{node.name}", each) for each in node.body if isinstance(each, Definition)]
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    found.setdefault(f"{owner}.{target.id}", node.lineno)
    return {line: dotted for dotted, line in found.items()}


def parts_of(excerpt: Excerpt) -> list[Part]:
    """Return the parts of an excerpt in order; together they hold every line of code once."""
    lines = excerpt.text.splitlines()
    docstrings, comments = _docstrings(excerpt.tree), _comments(excerpt.text)
    begins = {begin: prose for begin, _, prose in docstrings}
    inside = {line for _, own_lines, _ in docstrings for line in own_lines}
    found, part, after_comment = [], Part(), False
    for number in range(excerpt.first, excerpt.last + 1):
        if number in comments:
            if not after_comment:
                found.append(part)
                part = Part()
            part.prose += comments[number] + "\n"
        elif number in begins:
            if part.lines or number not in inside:
                found.append(part)
                part = Part()
            part.prose += ("\n" if part.prose else "") + begins[number]
        if number not in inside and number not in comments:
            part.lines.append(number)
        after_comment = number in comments
    for each in (found := [*found, part]):
        each.lines = _without_blank_ends(each.lines, lines)
    return [each for each in found if each.prose or each.lines]


def _without_blank_ends(numbers: list[int], lines: list[str]) -> list[int]:
    """Leave out blank lines at the beginning and the end."""

    def is_blank(number: int) -> bool:
        return not lines[number - 1].strip()

    forward = list(itertools.dropwhile(is_blank, numbers))
    return list(itertools.dropwhile(is_blank, forward[::-1]))[::-1]


def _docstrings(tree: ast.AST) -> list[tuple[int, range, str]]:
    """Return of each docstring: the line that its prose stands beside, its own lines, and its Markdown."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, Definition | ast.Module) or (text := ast.get_docstring(node)) is None:
            continue
        own = range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
        begin = own.start
        if not isinstance(node, ast.Module):
            begin = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        found.append((begin, own, markdown(text)))
    return found


def _comments(text: str) -> dict[int, str]:
    """Return the comments that have a line of their own, by line number."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {
        token.start[0]: escaped(token.string.removeprefix("#").removeprefix(" "))
        for token in tokens
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip()
    }


def markdown(docstring: str) -> str:
    r"""Return a docstring as Markdown: examples as blocks of code, shapes and errors as paragraphs of their own.

    >>> markdown("Add a*b.\nShapes: (T,) -> ().\n\n>>> add(1)\n1").splitlines()
    ['Add a\\*b.', '', 'Shapes: (T,) -> ().', '', '```pycon', '>>> add(1)', '1', '```']
    """
    paragraphs = []
    for paragraph in docstring.split("\n\n"):
        if paragraph.startswith(">>> "):
            paragraphs.append(f"```pycon\n{paragraph}\n```")
        else:
            paragraphs.append(re.sub(r"\n(?=Shapes?: |Raises )", "\n\n", escaped(paragraph)))
    return "\n\n".join(paragraphs)


def escaped(text: str) -> str:
    r"""Escape what is arithmetic in a comment and markup in Markdown, and mark flags as code; code and formulas stay.

    >>> print(escaped("x**2 of `a*b` and $a*b$ with --seed"))
    x\*\*2 of `a*b` and $a*b$ with `--seed`
    >>> print(escaped("files in __pycache__"))
    files in \_\_pycache\_\_
    """
    pieces = re.split(r"(``.+?``|`[^`]+`|\$[^$]+\$)", text, flags=re.DOTALL)
    for place in range(0, len(pieces), 2):
        words = re.sub(r"[*<]|_(?=_)|(?<=_)_", r"\\\g<0>", pieces[place])
        pieces[place] = re.sub(r"(?<![\w-])--[a-z][a-z-]*", r"`\g<0>`", words)
    return "".join(pieces)
