"""The rules of imports: which package may import which, and which files may use the compiler."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import minigrad
from tests.source_files import FILES, MODULES, PACKAGES, PROGRAMS, ROOT, imports, imports_of, module_of

# Rooms stand on floors. A room has one row: what it may import besides itself and the standard library. The name of a
# room, or of a file, stands for everything in it that has no row of its own.
GROUND = {"minigrad.errors", "minigrad.constants", "minigrad.options", "minigrad.typing", "minigrad.random"}
SYSTEM = GROUND | {"minigrad.system"}
LOOPS = SYSTEM | {"numpy", *(f"minigrad.kernels.{name}" for name in ("jit", "rows", "threads", "cpu"))}
AUTOGRAD = GROUND | {"numpy", "minigrad.autograd"}
OPS = AUTOGRAD | {"minigrad.kernels", "minigrad.ops"}
NN = OPS | SYSTEM | {"minigrad.formats", "minigrad.nn"}
# The guests of the core: they replace a module of it, or use one of its hooks.
GUESTS = {"minigrad.quantised", "minigrad.adapters", "minigrad.experts", "minigrad.adaptive"}
TRAINING = {f"minigrad.{name}" for name in ("data", "distributed", "evaluate", "optim")}
TOKENIZER = {"numpy", "regex", "tqdm", "tokenizer.errors", "tokenizer.jit"}
ALLOWED: dict[str, set[str]] = {
    "minigrad": {"minigrad"},  # the package itself: prepares the machine and imports the rest when it is used
    "minigrad.errors": set(),
    "minigrad.constants": set(),
    "minigrad.options": {"minigrad.errors"},
    "minigrad.typing": {"numpy"},
    "minigrad.random": {"numpy"},
    "minigrad.system": {"minigrad.errors"},  # runs before NumPy loads
    "minigrad.distributed": SYSTEM | {"numpy"},  # what it meets of NumPy are arrays; it runs before NumPy loads
    "minigrad.formats": SYSTEM | {"numpy", "safetensors"},
    "minigrad.formats.gguf": SYSTEM | {"numpy", "minigrad.formats", "tokenizer.formats", "tokenizer.vocabulary"},
    "minigrad.formats.gguf.__main__": SYSTEM | {"minigrad.formats", "minigrad.cli", "models.pretrained", "tokenizer"},
    "minigrad.formats.transformers.__main__": SYSTEM | {"minigrad.formats", "minigrad.cli"},
    "minigrad.kernels": SYSTEM | {"numpy", "minigrad.kernels.jit"},  # jit, rows, threads, cpu
    "minigrad.kernels.jit": SYSTEM | {"numba", "llvmlite"},
    "minigrad.kernels.codegen": LOOPS | {"llvmlite"},
    "minigrad.kernels.rowwise": LOOPS | {"minigrad.kernels.codegen"},
    "minigrad.kernels.gemm": LOOPS | {"minigrad.kernels.codegen"},
    "minigrad.kernels.attention": LOOPS | {f"minigrad.kernels.{name}" for name in ("codegen", "rowwise", "gemm")},
    "minigrad.kernels.decoding": LOOPS
    | {f"minigrad.kernels.{name}" for name in ("codegen", "rowwise", "gemm", "attention")},
    "minigrad.autograd": GROUND | {"numpy"},
    "minigrad.ops": AUTOGRAD | {"minigrad.kernels"},
    "minigrad.nn": OPS | SYSTEM | {"minigrad.formats"},
    "minigrad.quantised": NN | {"minigrad.programs"},
    "minigrad.adapters": NN | {"minigrad.quantised", "minigrad.experts"},
    "minigrad.adaptive": NN,
    "minigrad.experts": NN | {"minigrad.pages"},
    "minigrad.optim": AUTOGRAD | {"minigrad.kernels", "minigrad.distributed"},
    "minigrad.data": SYSTEM | {"numpy", "minigrad.formats", "minigrad.nn.layout"},
    "minigrad.programs": NN,
    "minigrad.generation": NN | {"minigrad.adaptive", "minigrad.programs", "minigrad.data"},
    "minigrad.serving": NN
    | {f"minigrad.{name}" for name in ("generation", "programs", "pages", "pages.model_page", "serving.settings")}
    | {"starlette"},
    "minigrad.serving.server": GROUND | {"minigrad.serving", "uvicorn"},
    "minigrad.serving.settings": GROUND | {"minigrad.generation.settings"},
    "minigrad.serving.__main__": NN  # a program
    | {"minigrad.cli", "minigrad.generation", "minigrad.serving", "minigrad.training.folder", "models", "tokenizer"},
    "minigrad.pages": SYSTEM | {"numpy"},
    "minigrad.pages.graph": AUTOGRAD,
    "minigrad.pages.model_page": NN | {f"minigrad.{name}" for name in ("programs", "quantised", "generation", "pages")},
    "minigrad.pages.explain": NN | {"minigrad.generation", "minigrad.pages"},
    "minigrad.evaluate": NN | {"minigrad.data", "minigrad.distributed", "minigrad.generation"},
    "minigrad.training.settings": GROUND,
    "minigrad.training.budget": {"minigrad.errors", "minigrad.optim", "minigrad.training.settings"},
    "minigrad.training.parallel": NN | TRAINING | {"minigrad.training.settings"},
    "minigrad.training.optimizers": NN | TRAINING | {"minigrad.training.settings", "minigrad.training.parallel"},
    "minigrad.training.planning": NN
    | TRAINING
    | {f"minigrad.training.{name}" for name in ("settings", "parallel", "optimizers")},
    "minigrad.training.folder": NN | TRAINING | {"minigrad.training.settings", "minigrad.training.budget"},
    "minigrad.training": NN
    | GUESTS
    | TRAINING
    | {"minigrad.generation"}
    | {f"minigrad.training.{name}" for name in ("settings", "budget", "parallel", "optimizers", "planning", "folder")},
    "minigrad.training.folder.metrics": SYSTEM | {"minigrad.formats"},
    "minigrad.training.report": SYSTEM
    | {"minigrad.evaluate", "minigrad.formats", "minigrad.pages", "minigrad.training.folder"},
    "minigrad.training.reporting": SYSTEM
    | {"numpy", "tqdm", "minigrad.training"}
    | {f"minigrad.{name}" for name in ("distributed", "evaluate")},
    "minigrad.training.preparation": NN  # a part of the program train.py, which stands above all rooms
    | {f"minigrad.{name}" for name in ("data", "distributed", "finetuning", "training")}
    | {"models", "tokenizer"},
    "minigrad.distributed.pipeline": NN | {"minigrad.data", "minigrad.distributed", "minigrad.optim"},
    "minigrad.training.report.__main__": NN | {"minigrad.training", "minigrad.cli"},  # a program
    "minigrad.finetuning": NN
    | {"minigrad.data", "minigrad.generation", "minigrad.evaluate", "minigrad.pages", "minigrad.training"},
    "minigrad.evaluate.__main__": NN  # a program, which stands above all rooms as train.py does
    | {"minigrad.cli", "minigrad.data", "minigrad.evaluate", "minigrad.training", "models", "tokenizer"},
    "minigrad.cli": {"minigrad.errors", "minigrad.options", "minigrad.system"},
    "models": {
        "models.names",
        "models.registry",
        "models.loading",
    },  # the package itself, when they are used
    "models.names": {"minigrad.options"},
    "models.pretrained": SYSTEM | {"minigrad.formats.folders"},  # finds a folder before NumPy loads
    "models.registry": NN | {"models"},
    "models.gpt2": NN | GUESTS,
    "models.vidya_v1": NN,
    "models.vidya_v2": NN | GUESTS,
    "models.vsla": NN | {f"minigrad.{name}" for name in ("pages", "programs")} | {"models.vsla.operations"},
    "models.vsla.operations": OPS,
    "models.vsla.variable": OPS | {"minigrad.nn"},
    "models.wiola": NN
    | {f"minigrad.{name}" for name in ("pages", "programs")}
    | {"models.wiola.operations", "models.wiola.kernels"},
    "models.wiola.operations": OPS | {"models.wiola.kernels"},
    "models.wiola.kernels": LOOPS | {"minigrad.kernels.rowwise"},
    "models.growth": NN,
    "models.loading": NN | GUESTS | {"minigrad.training", "models.growth", "models.pretrained", "models.registry"},
    "tokenizer": {"tokenizer"},  # the package itself, and its command
    "tokenizer.errors": set(),
    "tokenizer.jit": {"numba"},
    "tokenizer.naive": set(),
    "tokenizer.disk": {"tokenizer.errors"},
    "tokenizer.structures": TOKENIZER,
    "tokenizer.text": TOKENIZER | {"tokenizer.disk", "tokenizer.structures"},
    "tokenizer.vocabulary": TOKENIZER | {"tokenizer.text"},
    "tokenizer.learn": TOKENIZER | {f"tokenizer.{name}" for name in ("naive", "structures", "text")},
    "tokenizer.encode": TOKENIZER | {f"tokenizer.{name}" for name in ("structures", "text", "vocabulary")},
    "tokenizer.formats": TOKENIZER | {f"tokenizer.{name}" for name in ("disk", "text", "vocabulary")},
    "tokenizer.bpe": TOKENIZER
    | {f"tokenizer.{name}" for name in ("disk", "text", "vocabulary", "learn", "encode", "formats")},
    "tokenizer.templates": {"tokenizer.errors"},
    "tokenizer.chat": TOKENIZER
    | {f"tokenizer.{name}" for name in ("bpe", "disk", "formats", "templates", "text", "vocabulary")},
    "tokenizer.vidya_v1": TOKENIZER | {"tokenizer.bpe", "tokenizer.text", "tokenizer.vocabulary"},
    "tokenizer.cli": TOKENIZER | {"tokenizer"},
}
ONLY_INSIDE_FUNCTIONS = {"numba", "mpi4py", "jinja2", "torch", "transformers", "tokenizers"}


def is_within(name: str, packages: set[str]) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def room_of(module: str) -> str:
    """Return the innermost room, or file with a row of its own, that a module belongs to."""
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next(name for name in names if name in ALLOWED)


def forbidden(module: str, imported: list[tuple[str, bool]]) -> list[str]:
    room, found = room_of(module), []
    for name, top in imported:
        first = name.split(".")[0]
        standard = first in sys.stdlib_module_names or first == "__future__"
        lazily = not top and first in ONLY_INSIDE_FUNCTIONS
        own = first in PACKAGES and room_of(name) == room
        if not (standard or lazily or own or is_within(name, ALLOWED[room])):
            found.append(name)
    return found


def test_the_files_are_found() -> None:
    assert len(FILES) > 40
    assert {"minigrad.autograd.tensor", "models.vidya_v2", "tokenizer.bpe"} <= MODULES


def test_every_row_of_the_table_is_a_room() -> None:
    assert {room_of(module) for module in MODULES} == set(ALLOWED)


@pytest.mark.parametrize("path", FILES, ids=module_of)
def test_who_imports_whom(path: Path) -> None:
    assert not forbidden(module_of(path), imports_of(path)), f"{module_of(path)} may not import these"


def test_the_core_knows_none_of_its_guests() -> None:
    guests = {
        "adapters",
        "adaptive",
        "quantised",
        "experts",
        "programs",
        "generation",
        "training",
        "finetuning",
        "pages",
        "serving",
    }
    core = [path for path in FILES if is_within(module_of(path), {"minigrad.nn"})]
    found = {name for path in core for name, _ in imports_of(path)}
    assert not {name for name in found if is_within(name, {f"minigrad.{guest}" for guest in guests})}


def test_no_room_imports_itself_through_another() -> None:
    """Repeatedly removing the rooms that import no other room leaves none."""
    above = {room: set[str]() for room in ALLOWED}
    for path in FILES:
        room = room_of(module_of(path))
        above[room] |= {room_of(name) for name, _ in imports_of(path) if name.split(".")[0] in PACKAGES} - {room}
    while ground := {room for room, imported in above.items() if not imported}:
        above = {room: imported - ground for room, imported in above.items() if room not in ground}
    assert not above


def test_no_file_imports_itself_through_another() -> None:
    """Imports for type checkers and imports inside functions count."""
    above = {module_of(path): {name for name, _ in imports_of(path)} & MODULES - {module_of(path)} for path in FILES}
    while ground := {module for module, imported in above.items() if not imported}:
        above = {module: imported - ground for module, imported in above.items() if module not in ground}
    assert not above


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("minigrad.kernels.rowwise.softmax", "from minigrad.autograd.tensor import Tensor"),
        ("minigrad.kernels.rowwise.softmax", "from minigrad import ops"),
        ("minigrad.kernels.rowwise.softmax", "from minigrad.kernels.attention import forward"),
        ("minigrad.autograd.tensor", "import numba"),
        ("minigrad.system.hardware", "import numpy as np"),
        ("minigrad.ops.softmax", "from minigrad.nn import Module"),
        ("minigrad.data.tokens.batches", "import tokenizer"),
        ("minigrad.data.tokens.batches", "from minigrad.training.planning import plan"),
        ("minigrad.nn.layers", "from models import vidya_v2"),
        ("minigrad.nn.layers", "from minigrad.adapters import adapt"),
        ("minigrad.nn.language_model", "from minigrad.quantised import quantise"),
        ("minigrad.nn.checkpointing", "from minigrad.experts import Experts"),
        ("minigrad.training.report", "import matplotlib.pyplot as plt"),
        ("models.vidya_v2", "from models import wiola"),
        ("models.vidya_v2", "import tokenizer"),
        ("tokenizer.bpe", "from minigrad.errors import InputError"),
    ],
)
def test_the_import_rule_can_fail(module: str, line: str) -> None:
    assert forbidden(module, list(imports(ast.parse(line))))


def uses_the_compiler(tree: ast.AST) -> bool:
    """Whether a file takes anything from Numba but its version."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and is_within(node.module or "", {"numba"}):
            return True
        of_numba = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "numba"
        if of_numba and isinstance(node, ast.Attribute) and node.attr != "__version__":
            return True
    return False


def test_only_two_files_use_the_compiler() -> None:
    users = {module_of(path) for path in FILES + PROGRAMS if uses_the_compiler(ast.parse(path.read_text("utf-8")))}
    assert users == {"minigrad.kernels.jit", "tokenizer.jit"}
    assert uses_the_compiler(ast.parse("@numba.njit\ndef loop(): pass"))


LOOPS_OF_FAMILIES = sorted((ROOT / "models").glob("*/kernels/*.py"))


@pytest.mark.parametrize(
    "path", [*sorted((ROOT / "minigrad/kernels").rglob("*.py")), *LOOPS_OF_FAMILIES], ids=module_of
)
def test_kernels_know_nothing_of_tensors(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert "Tensor" not in names | attributes


@pytest.mark.parametrize("path", LOOPS_OF_FAMILIES, ids=module_of)
def test_a_loop_of_a_family_uses_only_its_own_file_and_the_kernels(path: Path) -> None:
    """An edit of another file would not change where `minigrad.kernels.jit` keeps its compiled code."""
    used = {name for name, _ in imports_of(path) if name.split(".")[0] in PACKAGES}
    assert all(is_within(name, {"minigrad.kernels", "minigrad.typing"}) for name in used)


def test_the_package_lists_the_names_that_it_imports_when_they_are_used() -> None:
    assert set(minigrad.__all__) < set(dir(minigrad))
    assert {"Tensor", "nn", "ops"} <= set(dir(minigrad))
    assert all(getattr(minigrad, name) is not None for name in dir(minigrad))


def test_the_version_is_that_of_the_package() -> None:
    assert f'__version__ = "{minigrad.__version__}"' in (ROOT / "minigrad/__init__.py").read_text(encoding="utf-8")
    assert 'attr = "minigrad.__version__"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


PRINTS = {  # and what prints there: all else goes through `say`, which makes control characters visible
    "minigrad.system.terminal": "say",
    "tokenizer.cli.output": "say",
    "tokenizer.templates.program": "lines of JSON, for the process that started it",
}


def prints(tree: ast.AST) -> bool:
    """Whether a file calls `print`."""
    return any(isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print" for node in ast.walk(tree))


def test_everything_is_printed_by_one_function() -> None:
    files = {module_of(path): path for path in FILES} | {path.stem: path for path in PROGRAMS}
    found = {name for name, path in files.items() if prints(ast.parse(path.read_text(encoding="utf-8")))}
    assert found == set(PRINTS)
    assert prints(ast.parse("if x:\n    print(x)"))
