"""The names of the families, of their sizes and of the fields of their configs, known without loading a model.

The error for a mistyped name is raised here, before NumPy and Numba are loaded. `models.registry` holds the models
under these names.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from minigrad.options import unknown

LAPTOP_SIZES = ("nano", "micro", "mini", "small")
"""The sizes that every family has, for minutes to a night of training."""

EARLIER_SIZES = ("nano-32", "micro-32")
"""What laptop sizes were before; they are trained as these are."""

SIZES: dict[str, tuple[str, ...]] = {
    "gpt2": (*LAPTOP_SIZES, "124m", "300m", "medium", "large"),
    "vidya-v1": (*LAPTOP_SIZES, "10m", "49m"),
    "vidya-v2": (*LAPTOP_SIZES, "2.0", "2.1", "2.2", "2.3", "smollm2-135m", "mobilellm-125m", *EARLIER_SIZES),
    "vsla": (*LAPTOP_SIZES, "1b"),
    "wiola": (
        *(*LAPTOP_SIZES, "120m", "360m", "700m", "1.5b"),
        *("120m-exact", "360m-exact", "700m-exact", "1.5b-exact"),
    ),
}
"""Every family, with the names of its sizes."""


def check_family(family: str) -> None:
    """Raise InputError, naming the closest, if there is no such family."""
    if family not in SIZES:
        raise unknown("model", family, SIZES)


def check_size(family: str, size: str, *more: str) -> None:
    """Raise InputError, naming the closest, if the family has no such size and it is none of the names in `more`."""
    check_family(family)
    if size not in (*more, *SIZES[family]):
        raise unknown(f"size of {family}", size, [*more, *SIZES[family]])


def ladder(family: str, size: str) -> tuple[str, ...]:
    """Return the sizes that `size` allows: itself, or for "auto" the laptop sizes.

    >>> ladder("gpt2", "auto")
    ('nano', 'micro', 'mini', 'small')
    """
    check_size(family, size, "auto")
    return LAPTOP_SIZES if size == "auto" else (size,)


def check_model(family: str, size: str, fields: Iterable[str], *, begins: bool) -> None:
    """Raise InputError, naming the closest, for an unknown family, and if a model `begins`, for its size and fields.

    Training that starts from a model that has not been read yet takes its size and fields from that model.
    """
    check_family(family)
    if begins:
        ladder(family, size)
        check_fields(family, fields)


def check_fields(family: str, names: Iterable[str]) -> None:
    """Raise InputError, naming the closest, for a name that is not a field of the family's config.

    The fields are read from the text of the family's file, because importing it would load NumPy and Numba.

    >>> check_fields("vidya-v2", ["wdith"])
    Traceback (most recent call last):
    ...
    minigrad.errors.InputError: unknown field of VidyaV2Config 'wdith'; did you mean 'width'? Known: key_shift, ...
    """
    room = Path(__file__).parent / family.replace("-", "_")
    source = room / "config.py" if room.is_dir() else room.with_suffix(".py")
    classes = (node for node in ast.parse(source.read_text(encoding="utf-8")).body if isinstance(node, ast.ClassDef))
    config = next(node for node in classes if node.name.endswith("Config"))
    fields = [
        part.target.id
        for part in config.body
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        if ast.unparse(part.annotation) != "ClassVar"
    ]
    for name in names:
        if name not in fields:
            raise unknown(f"field of {config.name}", name, fields)
