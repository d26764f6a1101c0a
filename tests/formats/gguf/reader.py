"""A small reader of GGUF files, written from the format's description and not from the writer."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Content(NamedTuple):
    """What a file holds; `kinds` are the codes of the types of values, those of a list with its elements'."""

    metadata: dict[str, Any]
    kinds: dict[str, Any]
    arrays: dict[str, Any]
    storages: dict[str, int]
    offsets: dict[str, int]  # from the first byte of the file


def read(path: Path) -> Content:
    """Read a file whose arrays are F32, F16 or Q8_0; those come back as float32."""
    data, place = path.read_bytes(), 0

    def take(layout: str) -> Any:
        nonlocal place
        (value,) = struct.unpack_from("<" + layout, data, place)
        place += struct.calcsize("<" + layout)
        return value

    def text() -> str:
        length = take("Q")
        return take(f"{length}s").decode()

    def value(kind: int) -> tuple[Any, Any]:
        if kind == 8:
            return text(), kind
        if kind == 9:
            inner, count = take("I"), take("Q")
            return [value(inner)[0] for _ in range(count)], (kind, inner)
        return take(_NUMBERS[kind]), kind

    assert take("4s") == b"GGUF"
    assert take("I") == 3
    count, length = take("Q"), take("Q")
    both = {text(): value(take("I")) for _ in range(length)}
    infos = {}
    for _ in range(count):
        name, dimensions = text(), take("I")
        infos[name] = tuple(take("Q") for _ in range(dimensions)), take("I"), take("Q")
    start = -(-place // 32) * 32
    assert not any(data[place:start])
    arrays = {
        name: _array(data[start + offset :], shape[::-1], storage) for name, (shape, storage, offset) in infos.items()
    }
    return Content(
        {key: content for key, (content, _) in both.items()},
        {key: kind for key, (_, kind) in both.items()},
        arrays,
        {name: storage for name, (_, storage, _) in infos.items()},
        {name: start + offset for name, (_, _, offset) in infos.items()},
    )


def _array(data: bytes, shape: tuple[int, ...], storage: int) -> Any:
    count = int(np.prod(shape))
    if storage == 8:
        blocks = [data[34 * block : 34 * block + 34] for block in range(count // 32)]
        values = [
            np.frombuffer(block[:2], "<f2").astype(np.float32) * np.frombuffer(block[2:], "i1") for block in blocks
        ]
        return np.concatenate(values).reshape(shape)
    return np.frombuffer(data, {0: "<f4", 1: "<f2"}[storage], count).astype(np.float32).reshape(shape)
