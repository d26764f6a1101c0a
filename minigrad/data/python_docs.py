"""The default text: the documentation of the running Python, and docstrings and comments of Python, NumPy and Numba.

Every installation has these sources. Validation text comes from Python's own documentation alone and is chosen by the
hash of each document, so it does not change with the versions of packages, and hardly with that of Python. The test
text is as long, and has the same share of each source of documentation as the training text; comments are only trained
on. The files are read and parsed, never imported: importing all modules would run code and open windows.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import itertools
import json
import os
import platform
import re
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from minigrad.data.split import SHARE, digest_of, first_by_hash, hash_of, num_bytes
from minigrad.system.cache import cache_folder, store

PACKAGES = ("numpy", "numba")  # the docstrings of the other packages have less than 0.1 MB each
SHORTEST_COMMENT = 60  # characters: shorter ones are remarks on the line below them, which is not there
LARGEST_IN_TEST = 1 / 8  # of the test text: no document decides alone
TEST_FOLDERS = {"test", "tests", "idle_test"}
SHORTEST_DOCUMENT = 200  # characters: many modules have one line of docstring, too little for a document
SHORTEST_REPEAT = 40  # characters: "Example:" may occur in many places, a whole sentence may not
_TABLES = {"encodings", "pydoc_data"}  # tables of numbers, and one literal of 800 kB

Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Section = list[str]  # paragraphs, first the heading; a document is a list of sections


@dataclass(frozen=True)
class PythonDocs:
    """The default text: all documents (no comments of held-out modules), and which of them are held out."""

    description: str
    documents: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @property
    def train(self) -> tuple[str, ...]:
        """The documents that are not held out."""
        held_out = {*self.validation, *self.test}
        return tuple(text for text in self.documents if text not in held_out)


def read() -> PythonDocs:
    """Return the default text; it is empty if this Python has no source of its standard library.

    Every paragraph of 40 characters or more occurs once. The first call parses for some seconds; the cache folder keeps
    the documents.
    """
    library = library_documentation()
    name = f"documentation and docstrings of Python {platform.python_version()}"
    if not library:
        return PythonDocs(name, (), (), ())
    sources, before = {name: library}, library
    for package in PACKAGES:
        found = package_docstrings(package, before)
        sources[f"docstrings of {package} {version(package)}"] = found
        before = [*before, *found]
    validation = tuple(text for text in library if hash_of(text) < SHARE)
    test = _test(sources.values(), validation)
    sources["comments in the source of all three"] = comments(before, (*validation, *test))
    total = sum(map(num_bytes, sources.values()))
    description = ", ".join(f"{name} ({num_bytes(texts) / total:.0%})" for name, texts in sources.items())
    documents = tuple(text for texts in sources.values() for text in texts)
    return PythonDocs(description, documents, validation, test)


def _test(sources: Collection[list[str]], validation: tuple[str, ...]) -> tuple[str, ...]:
    """Return test text of about as many bytes as validation text, each source with its share of them."""
    wanted, total = num_bytes(validation), sum(map(num_bytes, sources))
    known, chosen = set(validation), set[str]()
    for documents in sources:
        left = [text for text in documents if text not in known and len(text.encode()) <= LARGEST_IN_TEST * wanted]
        chosen.update(first_by_hash(left, wanted * num_bytes(documents) / total))
    return tuple(text for documents in sources for text in documents if text in chosen)


@cache
def library_folder() -> Path:
    """Return the folder of the standard library, which need not be where the interpreter is."""
    return Path(sysconfig.get_path("stdlib"))


def library_documentation() -> list[str]:
    """Return the language reference, one document per topic, then the docstrings, one document per module: 2.4 MB.

    Paragraphs that occurred before are dropped.
    """
    folder = library_folder()

    def documents() -> Iterator[list[Section]]:
        yield from _topics()
        yield from itertools.starmap(docstrings_of, modules(folder, python_files(folder)))

    return kept(f"{sys.version} {folder}", lambda: without_copies(documents(), set()))


def library_source(held_out: Iterable[str]) -> list[str]:
    """Return the source files, exact copies once: 28 MB, or 9 MB where the library has no tests installed.

    A module gives none if a document in `held_out` begins with its name, because its source contains its docstrings.
    """
    folder, is_held_out = library_folder(), _is_named_in(held_out)
    paths = (path for path in python_files(folder) if path.parts[0] not in _TABLES)
    texts = (read_source(folder / path) for path in paths if not is_held_out(module_at(path)))
    return list(dict.fromkeys(text for text in texts if text.strip()))


def _is_named_in(documents: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tells whether one of the documents begins with the name of a module."""
    headings = tuple(text.partition("\n")[0] + "." for text in documents)
    return lambda module: any(heading.startswith(f"{module}.") for heading in headings)


def _topics() -> Iterator[list[Section]]:
    module = ast.parse(read_source(library_folder() / "pydoc_data" / "topics.py"))
    for statement in module.body:
        if isinstance(statement, ast.Assign):  # topics = {name: text, ...}
            topics: dict[str, str] = ast.literal_eval(statement.value)
            for _, text in sorted(topics.items()):
                yield [paragraphs(text)]


def package_docstrings(package: str, before: Iterable[str]) -> list[str]:
    """Return the docstrings of an installed package without its tests, one document per module.

    Paragraphs that occurred before, also in the documents `before`, are dropped. NumPy has 1.8 MB, Numba 0.7 MB. A
    package that is not installed as source files gives no documents.
    """
    folder, before = package_folder(package), tuple(before)
    if folder is None:
        return []
    documents = itertools.starmap(docstrings_of, modules_of(package))
    made_by = f"{folder} {version(package)} {digest_of(before)}"
    return kept(made_by, lambda: without_copies(documents, words_of(before)))


def version(package: str) -> str:
    """Return the version of an installed package."""
    from importlib import metadata  # which takes 30 ms, and only a plan needs it

    return metadata.version(package)


def package_folder(package: str) -> Path | None:
    """Return the folder of an installed package, or None if it is not there as source files."""
    found = importlib.util.find_spec(package)
    places = found.submodule_search_locations if found else None
    return Path(places[0]) if places else None


def comments(before: Iterable[str], held_out: Iterable[str]) -> list[str]:
    """Return the comments of the standard library and of `PACKAGES` without tests, one document per module: 1.3 MB.

    They are only trained on: a module gives none if a document in `held_out` begins with its name, because its
    comments explain the same things. Paragraphs that occurred before, also in the documents `before`, are dropped.
    """
    before, held_out = tuple(before), tuple(held_out)
    is_held_out = _is_named_in(held_out)

    def documents() -> Iterator[list[Section]]:
        library = modules(library_folder(), python_files(library_folder()))
        for module, source in itertools.chain(library, *map(modules_of, PACKAGES)):
            if not is_held_out(module):
                long = (comment for comment in comments_of(source) if len(comment) >= SHORTEST_COMMENT)
                yield [[module, *itertools.chain.from_iterable(map(paragraphs, long))]]

    places = [str(library_folder()), *(f"{package_folder(each)} {version(each)}" for each in PACKAGES)]
    made_by = digest_of([sys.version, *places, digest_of(before), digest_of(held_out)])
    return kept(made_by, lambda: without_copies(documents(), words_of(before)))


def modules_of(package: str) -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the source of each module of an installed package; none if it has no source files."""
    if (folder := package_folder(package)) is not None:
        yield from modules(folder.parent, [Path(package) / file for file in python_files(folder)])


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
    found = []
    for place, folders, files in os.walk(folder):
        # Packages are identifiers; site-packages, lib-dynload and the like are not, nor are they the library.
        folders[:] = filter(str.isidentifier, folders)
        found += [Path(place, file).relative_to(folder) for file in files if file.endswith(".py")]
    return sorted(found)


def read_source(path: Path) -> str:
    """Return the text of a file, or "" if it cannot be read: a broken link, or a test in another encoding."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def modules(folder: Path, files: Iterable[Path]) -> Iterator[tuple[str, str]]:
    """Yield the dotted name and the source of each of these files below `folder`, without tests."""
    for path in files:
        if TEST_FOLDERS.isdisjoint(path.parts[:-1]):
            yield module_at(path), read_source(folder / path)


def module_at(path: Path) -> str:
    """Return the dotted name of the module in a file, whose path is relative to the library.

    >>> module_at(Path("json/decoder.py")), module_at(Path("json/__init__.py"))
    ('json.decoder', 'json')
    """
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def docstrings_of(module: str, source: str) -> list[Section]:
    """Return the docstrings of a module: a section for each definition; none of a file that this Python cannot read."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):  # another version's syntax, or a NUL
        return []
    sections = [_section(name, node) for name, node in ((module, tree), *definitions(tree, module))]
    return [*sections, *_docstrings_of_c(tree)]


def comments_of(source: str) -> list[str]:
    """Return the comments that fill whole lines of a source text; lines below each other are one comment.

    A line inside a string that looks like a comment is taken for one too: about one in seventy.

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
    code = Path(__file__).read_text(encoding="utf-8")
    path = cache_folder() / "docstrings" / f"{digest_of([made_by, code])}.json"
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
