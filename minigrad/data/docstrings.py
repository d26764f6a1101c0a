"""Docstrings and comments of Python source files as training text: one document for each module.

The files are read and parsed, never imported: importing all modules would run code and open windows.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from minigrad.data.split import digest_of
from minigrad.system.cache import cache_folder, store

TEST_FOLDERS = {"test", "tests", "idle_test"}
SHORTEST_DOCUMENT = 200  # characters: many modules have one line of docstring, too little for a document
SHORTEST_REPEAT = 40  # characters: "Example:" may occur in many places, a whole sentence may not

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Section = list[str]  # paragraphs, first the heading; a document is a list of sections


def definitions(tree: ast.AST, prefix: str) -> Iterator[tuple[str, Definition]]:
    """Yield the dotted name and the node of every class and function below `tree`, in source order.

    >>> [name for name, node in definitions(ast.parse("class List:\\n  def sort(self): pass"), "builtins")]
    ['builtins.List', 'builtins.List.sort']
    """
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            name = f"{prefix}.{node.name}"
            yield name, node
            yield from definitions(node, name)
        elif isinstance(node, ast.stmt | ast.ExceptHandler):  # definitions also hide in `if` and `try`
            yield from definitions(node, prefix)


def paragraphs(text: str) -> list[str]:
    """Split a text at its blank lines.

    >>> paragraphs("one\\n  line\\n\\n \\nanother")
    ['one\\n  line', 'another']
    """
    return [part.rstrip() for part in re.split(r"\n\s*\n", text.strip("\n")) if part.strip()]


def python_files(folder: Path) -> list[Path]:
    """Return the paths of all source files below a folder, relative to it, sorted."""
    paths = (path.relative_to(folder) for path in folder.rglob("*.py"))
    # Packages are identifiers; site-packages, lib-dynload and the like are not, nor are they the library.
    return sorted(path for path in paths if all(part.isidentifier() for part in path.parts[:-1]))


def read_source(path: Path) -> str:
    """Return the text of a file, or "" if it cannot be read: a broken link, a test of another encoding."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def modules(folder: Path, files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the source of each of these files below `folder`, without tests."""
    for path in files:
        parts = path.with_suffix("").parts
        if TEST_FOLDERS.isdisjoint(parts[:-1]):
            yield ".".join(parts).removesuffix(".__init__"), read_source(folder / path)


def docstrings_of(module: str, source: str) -> list[Section]:
    """Return the docstrings of a module: a section for each definition."""
    tree = ast.parse(source)
    sections = [_section(name, node) for name, node in ((module, tree), *definitions(tree, module))]
    return [*sections, *_docstrings_of_c(tree)]


def comments_of(source: str) -> list[str]:
    """Return the comments that fill whole lines of a source text; lines below each other are one comment.

    What looks like such a line within a string is taken for one too, which is the case of one in seventy.

    >>> comments_of("# one\\n# and more\\nx = 1  # not this\\n\\n    # two\\n")
    ['one\\nand more', 'two']
    """
    blocks: list[str] = re.findall(r"(?:^[ \t]*#.*\n?)+", source, re.MULTILINE)
    return [re.sub(r"^[ \t]*#+ ?", "", block, flags=re.MULTILINE).strip() for block in blocks]


def without_copies(documents: Iterable[list[Section]], seen: set[str]) -> Iterator[str]:
    """Yield the documents as texts, without the paragraphs that occurred before; those in `seen` did.

    Copied docstrings are common, and a copy of a training paragraph in text that is held out would be counted as
    learning. The paragraphs are added to `seen`, their words joined by single spaces.
    """

    def unseen(section: Section) -> list[str]:
        kept = []
        for paragraph in section:
            words = " ".join(paragraph.split())
            if len(words) < SHORTEST_REPEAT or words not in seen:
                kept.append(paragraph)
            seen.add(words)
        return kept if kept != section[:1] else []  # a heading with nothing left below it

    for document in documents:
        text = "\n\n".join(paragraph for section in document for paragraph in unseen(section))
        if len(text) >= SHORTEST_DOCUMENT:
            yield text


def words_of(texts: Iterable[str]) -> set[str]:
    """Return the paragraphs of some texts as `without_copies` has seen them: words joined by single spaces."""
    return {" ".join(paragraph.split()) for text in texts for paragraph in paragraphs(text)}


def kept(made_by: str, make: Callable[[], Iterable[str]]) -> list[str]:
    """Return the documents that `make` returns, from the cache folder if they were made there before.

    They are kept under a hash of `made_by`, which must change where the documents do, and of the code that makes them.
    """
    code = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("docstrings.py", "python_docs.py"))
    key = digest_of([made_by, *code])
    path = cache_folder() / "docstrings" / f"{key}.json"
    try:
        documents: list[str] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        documents = list(make())
        store(path, lambda file: file.write(json.dumps(documents).encode()))
    return documents


def _section(name: str, node: Definition) -> Section:
    docstring = ast.get_docstring(node)
    if docstring is None:
        return []
    arguments = "" if isinstance(node, ast.Module | ast.ClassDef) else f"({ast.unparse(node.args)})"
    return [name + arguments, *paragraphs(docstring)]


def _docstrings_of_c(tree: ast.Module) -> Iterator[Section]:
    """Yield what NumPy writes as add_newdoc(module, name, docstring): the docstrings of functions that are in C."""
    for statement in tree.body:
        match statement:
            case ast.Expr(ast.Call(ast.Name("add_newdoc"), [ast.Constant(str(place)), ast.Constant(str(name)), text])):
                match text:
                    case ast.Constant(str(docstring)):
                        yield [f"{place}.{name}", *paragraphs(inspect.cleandoc(docstring))]
                    case ast.Tuple([ast.Constant(str(method)), ast.Constant(str(docstring))]):
                        yield [f"{place}.{name}.{method}", *paragraphs(inspect.cleandoc(docstring))]
