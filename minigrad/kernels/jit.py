"""@kernel: the one spelling of `numba.njit` for every loop, and the folder of the compiled code.

A kernel is a plain loop over a range of rows. Compiled, it releases the GIL (`nogil`), is stored on disk and divides as
NumPy does (`error_model`). Only those fast-math flags are on that keep NaN and infinity meaningful, because masks are
written with -inf; `reassoc` allows sums to use all lanes of a vector register.

A function that a kernel calls is inlined (`forceinline`). Otherwise the kernel's object code would hold a copy of its
own, and a process would call whichever of several copies it compiled or loaded first; they are optimised for different
callers and differ in the last bits, so results would depend on what the process did before.

A kernel borrows its arrays: its caller owns them, and keeps them until it returns. So it counts no references. Numba
would count one for every slice, and for every tuple that holds an array: an atomic operation, which takes as long as a
row of a small matrix. Only a kernel that makes arrays must count them, so that their memory is freed; it is
`allocating`. Such a kernel should do little else, and pass the arrays to a kernel that contains the loops. A borrowing
kernel must not return an array, because its caller would take over a reference that was never counted; nor may it call
a function that returns a newly made array, because nothing would free it.

Numba compiles and optimises an inlined function by itself too, with the functions that it calls, before its caller.
So the innermost function of a chain of five is optimised five times. One that is `pasted` is not: it becomes a part of
its caller before anything is compiled.
"""

from __future__ import annotations

import functools
import hashlib
import platform
import tempfile
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import carray, types  # type: ignore[attr-defined]
from numba.core.caching import FunctionCache, IndexDataCacheFile, UserProvidedCacheLocator
from numba.core.imputils import lower_builtin
from numba.core.registry import cpu_target
from numba.extending import intrinsic, type_callable
from numba.extending import overload as numba_overload

from minigrad.system.cache import cache_folder, mark_used, prune
from minigrad.system.hardware import may_use_tiles

Function = TypeVar("Function", bound=Callable[..., object])

__all__ = [
    "KERNELS",
    "allocating",
    "carray",
    "emits",
    "exact",
    "intrinsic",
    "is_stored",
    "kernel",
    "overload",
    "pasted",
    "types",
]

KERNELS: dict[str, Callable[..., object]] = {}
"""Every kernel by room, file and name, such as "rowwise.softmax._softmax_rows"; one of another package by all of its
module."""

_INLINED = {"forceinline": True, "no_cfunc_wrapper": True}  # and nothing calls a kernel from C
_BORROWING: Any = {**_INLINED, "_nrt": False}
_ALLOCATING: Any = {**_INLINED, "_nrt": True}
_PASTED: Any = {"inline": "always", "no_cfunc_wrapper": True}
_EXACT = {"nsz", "arcp", "contract"}
_FAST = _EXACT | {"reassoc"}
_KEPT = 16  # folders of compiled kernels, of the tokenizer's too: those of the versions that were used last


def _code_folder() -> Path | None:
    """Return the folder of compiled kernels, or None if nothing can be written there.

    Numba notices an edit in a kernel's own file, but not in a function it calls from another file. So the folder is
    named by a hash of all sources of this package, of Numba's version, and of whether tile registers may be used, which
    Numba does not know. A kernel of another package calls only functions of its own file and of this package.
    """
    digest = hashlib.blake2b(f"{numba.__version__} {may_use_tiles()}".encode(), digest_size=8)
    for source in sorted(Path(__file__).parent.rglob("*.py")):
        digest.update(source.read_bytes())
    folder = cache_folder() / "kernels" / digest.hexdigest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            mark_used(folder)
    except OSError:
        return None
    prune(folder.parent, keep=_KEPT)
    return folder


_FOLDER = _code_folder()


class Locator(UserProvidedCacheLocator):
    """The place of a kernel's compiled code in the folder, which is the same for every copy of the same sources.

    Numba would recompile sources at another path, or newer ones: a second clone would compile everything again.
    """

    def get_source_stamp(self) -> str:
        """Return a hash of the kernel's own file: the folder's name does not change with files of other packages."""
        return hashlib.blake2b(Path(self._py_file).read_bytes(), digest_size=8).hexdigest()

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        """Return the room of a kernel, as "rowwise"."""
        return Path(py_file).parent.name


class CodeFiles(IndexDataCacheFile):
    """The files of a kernel: an index, and one with the code for each combination of types of arguments.

    Numba numbers the files with code, so two processes that compile a kernel for different types at the same time may
    take the same number, and the index would mistake the code of one for the other's. Here each file has a name that
    no other process takes, and is complete before the index names it. Of two indices that are written at once one is
    lost, and what only it named is compiled again.
    """

    def load(self, key: Any) -> Any:
        """Return the code for some types of arguments; None if there is none, or if a file is damaged."""
        try:
            return super().load(key)  # type: ignore[no-untyped-call]
        except Exception:  # a power cut can leave files that are empty or cut short, and unpickling raises anything
            return None

    def _load_index(self) -> Any:
        try:
            return super()._load_index()  # type: ignore[no-untyped-call]
        except Exception:
            return {}

    def save(self, key: Any, data: Any) -> None:
        """Write the code for some types of arguments."""
        name = self._load_index().get(key) or self._data_name(uuid.uuid4().int >> 64)  # type: ignore[no-untyped-call]
        self._save_data(name, data)  # type: ignore[no-untyped-call]
        self._save_index({**self._load_index(), key: name})  # type: ignore[no-untyped-call]


class CodeCache(FunctionCache):
    """Numba's cache of compiled code. A full disk only costs time: the next start compiles again."""

    def __init__(self, function: Function) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        place = self._cache_path, self._impl.filename_base, self._cache_file._source_stamp
        self._cache_file: Any = CodeFiles(*place)  # type: ignore[no-untyped-call]

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write the code of a kernel for some types of arguments, if that is possible."""
        with suppress(OSError):
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]


def kernel(function: Function) -> Function:
    """Compile a loop, with `reassoc`; Numba refuses to compile one that makes an array."""
    return _compile(function, _FAST, _BORROWING)


def allocating(function: Function) -> Function:
    """Compile a loop that makes arrays, or calls an `allocating` function, with `reassoc`."""
    return _compile(function, _FAST, _ALLOCATING)


def pasted(function: Function) -> Function:
    """Make a function a part of the kernel that calls it, before anything is compiled.

    Called in several places, it would be pasted into each.
    """
    return _compile(function, _FAST, _PASTED)


def exact(function: Function) -> Function:
    """Compile a function whose operations must happen in the order written, without `reassoc`.

    The rounding trick of the exponential subtracts the number just added; `reassoc` would cancel the two.
    """
    return _compile(function, _EXACT, _BORROWING)


def _compile(function: Function, flags: set[str], inlining: Any) -> Function:
    options: Any = numba.config
    before = options.CACHE_DIR, options.CACHE_LOCATOR_CLASSES
    options.CACHE_DIR, options.CACHE_LOCATOR_CLASSES = str(_FOLDER or ""), f"{__name__}.{Locator.__name__}"
    try:
        compiled: Any = numba.njit(function, nogil=True, error_model="numpy", fastmath=flags, **inlining)
        if _FOLDER is not None and not options.DISABLE_JIT:
            compiled._cache = CodeCache(function)
    finally:
        options.CACHE_DIR, options.CACHE_LOCATOR_CLASSES = before
    KERNELS[f"{function.__module__.removeprefix('minigrad.kernels.')}.{function.__name__}"] = compiled
    return compiled


def is_stored(compiled: Callable[..., object]) -> bool:
    """Return whether compiled code of a kernel is on disk, so that its first call does not take long."""
    file = compiled.__module__.rpartition(".")[2]
    return _FOLDER is not None and any(_FOLDER.rglob(f"{file}.{compiled.__name__}-*.nbi"))


def overload(
    function: Callable[..., object], *, strict: bool = True, makes_array: bool = False
) -> Callable[[Function], Function]:
    """Return a decorator for the function that chooses, from the types of the arguments, the code that kernels run in
    place of `function`, and whether this code returns an array that is not one of its arguments.

    Plain Python (NUMBA_DISABLE_JIT=1) runs `function` itself.
    """
    options = _ALLOCATING if makes_array else _BORROWING
    decorator: Callable[[Function], Function] = numba_overload(function, jit_options=options, strict=strict)
    return decorator


def emits(function: Callable[..., object], *kinds: Any) -> Callable[[Function], Function]:
    """Return a decorator for the function that emits the LLVM code which kernels run in place of `function`.

    Plain Python runs `function` itself. `kinds` are the Numba types of the result and of the arguments, None for any
    array or tuple. The decorated function gets a builder and the values: of an array its data, shape and strides, of a
    NamedTuple one of values.
    """
    result, *given = kinds

    def decorate(emit: Function) -> Function:
        @type_callable(function)
        def type_of(typing_context: Any) -> Any:
            @functools.wraps(function)  # Numba asks for its signature
            def signature(*found: Any) -> Any:
                return result(*(kind or array for kind, array in zip(given, found, strict=True)))

            return signature

        @lower_builtin(function, types.VarArg(types.Any))  # type: ignore[no-untyped-call,untyped-decorator]
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            def value_of(kind: Any, value: Any) -> Any:
                if isinstance(kind, types.Array):
                    return context.make_array(kind)(context, builder, value)
                if make := getattr(kind, "instance_class", None):  # of a NamedTuple
                    return make(*(value_of(each, builder.extract_value(value, n)) for n, each in enumerate(kind)))
                return value

            emitted = emit(builder, *map(value_of, signature.args, arguments))
            return context.get_dummy_value() if result is types.void else emitted

        return emit

    return decorate


def host_features() -> set[str]:
    """Return LLVM's names of the processor features that compiled kernels may use, such as "avx512f".

    Numba's code generator is asked, not the processor: Numba leaves AVX out on some processors and where
    NUMBA_ENABLE_AVX is 0, and NUMBA_CPU_NAME and NUMBA_CPU_FEATURES name another processor. Every 64-bit Arm processor
    has NEON, even where nothing is listed: LLVM cannot ask Apple's processors.
    """
    _, _, listed = cpu_target.target_context.codegen().magic_tuple()
    features = {name[1:] for name in listed.split(",") if name.startswith("+")}
    if platform.machine().lower() in ("arm64", "aarch64") and "-neon" not in listed.split(","):
        features.add("neon")
    return features
