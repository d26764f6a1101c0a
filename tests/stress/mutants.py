"""Mutations of files: bytes, JSON values by type and magnitude, safetensors headers, and the file itself."""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

Place = tuple[str | int, ...]


class Mutant(NamedTuple):
    """What was changed in a file: a description, and the place of a value that got another JSON type."""

    what: str
    retyped: Place | None = None


class Raw(str):
    """A JSON text that `json.dumps` cannot write; it stands for itself."""


NUMBERS = (0, -1, 1, 2, 0.5, -0.0, 2**31, 2**63 - 1, 2**64, 4 * 10**17, 10**30, 1e308, -1e308, 1e-320)
OTHERS = (None, True, False, "", "x", "10", "x" * 10_000, "a\0b", [], {}, [1], {"a": 1}, [None], [[[[]]]])
RAW = tuple(
    map(Raw, ("NaN", "Infinity", "-Infinity", "1e999", "[" * 100_000 + "]" * 100_000, '"\\ud800"', "9" * 5_000))
)
RAW += (Raw('{"a":' * 50_000 + "1" + "}" * 50_000), Raw("[" * 200 + "]" * 200), Raw("{"), Raw("01"))


def json_type(value: Any) -> str:
    """Return the JSON type of a value; whole numbers and others are different types."""
    if isinstance(value, Raw):
        return "raw"
    return {type(None): "null", bool: "bool", int: "int", float: "float", str: "str", list: "list"}.get(
        type(value), "object"
    )


def mutate(path: Path, victim: Path, draw: random.Random) -> Mutant:
    """Change a file, or what is at its place, and return what was done; `victim` is a file that a link may name."""
    content = path.read_bytes()
    ways: list[Any] = [_file, change_bytes, _form]
    if path.suffix in (".json", ".jsonl", ".safetensors"):
        ways += 6 * [{".json": _json, ".jsonl": _lines, ".safetensors": _safetensors}[path.suffix]]
    way = draw.choice(ways)
    if way is _file:
        return _file(path, victim, draw)
    changed, mutant = way(content, draw)
    path.write_bytes(changed)
    return mutant


PLACES = (
    *("missing", "folder", "dangling link", "link to itself", "/dev/zero", "pipe", "empty", "gzip", "link to a file"),
    *("link to a copy", "link to its folder", "/dev/null", "/proc/self/mem", "unreadable"),
)
"""What can be at the place of a file."""


def _file(path: Path, victim: Path, draw: random.Random) -> Mutant:
    """Remove the file, or put something else in its place."""
    kind, content = draw.choice(PLACES), path.read_bytes()
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "dangling link":
        path.symlink_to(path.with_name("nowhere"))
    elif kind == "link to itself":
        path.symlink_to(path)
    elif kind == "/dev/zero":
        path.symlink_to("/dev/zero")
    elif kind in ("/dev/null", "/proc/self/mem"):
        path.symlink_to(kind)
    elif kind == "link to a file":
        path.symlink_to(victim)
    elif kind == "link to a copy":
        copy = victim.with_name("copy")
        copy.write_bytes(content)
        path.symlink_to(copy)
    elif kind == "link to its folder":
        path.symlink_to(path.parent)
    elif kind == "unreadable":
        path.write_bytes(content)
        path.chmod(0)
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "empty":
        path.touch()
    elif kind == "gzip":
        path.write_bytes(gzip.compress(content))
    return Mutant(kind)


def change_bytes(content: bytes, draw: random.Random) -> tuple[bytes, Mutant]:
    """Change, insert, remove or repeat some bytes, or cut the file."""
    place, length = draw.randrange(len(content) + 1), draw.choice([1, 2, 8, 100])
    some = draw.randbytes(length)
    kind = draw.choice(["change", "insert", "remove", "repeat", "cut", "cut the start", "noise"])
    rest = content[place + length :]
    changed = {
        "change": content[:place] + some + rest,
        "insert": content[:place] + some + content[place:],
        "remove": content[:place] + rest,
        "repeat": content[: place + length] + content[place:],
        "cut": content[:place],
        "cut the start": content[place:],
        "noise": draw.randbytes(min(len(content), 1_000)),
    }[kind]
    return changed, Mutant(f"{kind} {length} bytes at {place}")


FORMS = {
    "with a byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "in UTF-16": lambda content: content.decode("utf-8", "replace").encode("utf-16"),
    "in UTF-32": lambda content: content.decode("utf-8", "replace").encode("utf-32"),
    "with lines of DOS": lambda content: content.replace(b"\n", b"\r\n"),
    "with lines of old Macs": lambda content: content.replace(b"\n", b"\r"),
    "with a trailing comma": lambda content: content.rstrip()[:-1] + b"," + content.rstrip()[-1:],
    "with a comment": lambda content: b"// a comment\n" + content,
    "with a NUL at the end": lambda content: content + b"\0",
    "twice": lambda content: content + content,
    "in brackets": lambda content: b"[" + content + b"]",
    "in apostrophes": lambda content: content.replace(b'"', b"'"),
    "in one line": lambda content: content.replace(b"\n", b" "),
    "with a line of 2 MB": lambda content: content + b"x" * 2_000_000,
    "with a million lines": lambda content: content + b"\n" * 1_000_000,
    "with a million brackets": lambda content: content + b"[" * 1_000_000,
    "with escape sequences": lambda content: content.replace(b"a", b"\x1b[2J\x07"),
    "compressed to little": lambda content: gzip.compress(b" " * 20_000_000),
    "compressed twice": lambda content: gzip.compress(gzip.compress(content)),
    "with another end of compression": lambda content: gzip.compress(content)[:-4] + b"\xff" * 4,
}
"""Other forms of a whole file."""


def _form(content: bytes, draw: random.Random) -> tuple[bytes, Mutant]:
    kind = draw.choice(list(FORMS))
    return FORMS[kind](content), Mutant(kind)


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield the place of every value inside a JSON value."""
    if place:
        yield place
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(inner, (*place, key))


def change_value(document: Any, draw: random.Random) -> Mutant:
    """Change one value of a JSON document in place: its type, its magnitude, its name, or whether it is there."""
    groups: dict[int, list[Place]] = {}  # by depth, so that a few settings are chosen as often as many tokens
    for place in places(document):
        groups.setdefault(len(place), []).append(place)
    if not groups:
        return Mutant("nothing")
    place = draw.choice(groups[draw.choice(list(groups))])
    holder = document
    for key in place[:-1]:
        holder = holder[key]
    key, old = place[-1], holder[place[-1]]
    where = ".".join(map(str, place))
    kind = draw.choice(["replace"] * 6 + ["scale", "remove", "add", "rename"])
    if kind == "remove":
        del holder[key]
    elif kind == "add" and isinstance(holder, dict):
        holder[f"{key}x"] = old
    elif kind == "rename" and isinstance(holder, dict):
        holder[f"{key}x"] = holder.pop(key)
    elif kind == "scale" and isinstance(old, int | float) and not isinstance(old, bool):
        holder[key] = old * draw.choice([-1, 2, 1_000, 10**9])
    else:
        new = draw.choice(draw.choice([NUMBERS, OTHERS, RAW]))
        holder[key] = new
        kind = f"{old!r:.40} becomes {new!r:.40}"
        return Mutant(f"{where}: {kind}", place if refused_by_type(old, new) else None)
    return Mutant(f"{where}: {kind}")


def refused_by_type(old: Any, new: Any) -> bool:
    """Whether a field that holds `old` has a type that refuses `new`; null may be allowed."""
    before, after = json_type(old), json_type(new)
    if after == "raw":
        return str(new) in ("NaN", "Infinity", "-Infinity", "1e999", "{", "01") or before != "str"
    if before in ("null", "list", "object") or after == "null":
        return before in ("list", "object") and after not in (before, "null")
    return after != before and not (before == "float" and after == "int")


def as_text(document: Any) -> bytes:
    """Return a document as JSON, with the texts of `Raw` in their places."""
    raws: list[Raw] = []

    def marked(value: Any) -> Any:
        if isinstance(value, Raw):
            raws.append(value)
            return f"raw-{len(raws) - 1}-"
        if isinstance(value, dict):
            return {name: marked(inner) for name, inner in value.items()}
        return [marked(inner) for inner in value] if isinstance(value, list) else value

    text = json.dumps(marked(document))
    for number, raw in enumerate(raws):
        text = text.replace(f'"raw-{number}-"', raw)
    return text.encode()


def _json(content: bytes, draw: random.Random) -> tuple[bytes, Mutant]:
    document = json.loads(content)
    mutant = change_value(document, draw)
    return as_text(document), mutant


def _lines(content: bytes, draw: random.Random) -> tuple[bytes, Mutant]:
    lines = content.splitlines()
    number = draw.randrange(len(lines))
    kind = draw.choice(["value"] * 6 + ["repeat", "remove", "swap", "cut"])
    if kind == "value":
        lines[number], mutant = _json(lines[number], draw)
        return b"\n".join(lines) + b"\n", mutant._replace(what=f"line {number}, {mutant.what}")
    other = draw.randrange(len(lines))
    if kind == "repeat":
        lines.insert(other, lines[number])
    elif kind == "remove":
        del lines[number]
    elif kind == "swap":
        lines[number], lines[other] = lines[other], lines[number]
    else:
        lines[number] = lines[number][: len(lines[number]) // 2]
    return b"\n".join(lines) + b"\n", Mutant(f"line {number}: {kind}")


def _safetensors(content: bytes, draw: random.Random) -> tuple[bytes, Mutant]:
    """Change the header of a safetensors file: any value, or a type, a shape or the place of an array."""
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    name = draw.choice([name for name in header if name != "__metadata__"])
    entry, kind = header[name], draw.choice(["value", "dtype", "shape", "overlap", "swap", "remove", "length", "data"])
    mutant = Mutant(f"{name}: {kind}")
    if kind == "value":
        mutant = change_value(header, draw)
    elif kind == "dtype":
        same = {"F32": ["I32", "U32"], "F64": ["I64", "U64"]}.get(entry["dtype"], [])
        entry["dtype"] = draw.choice([*same, "F16", "BF16", "F64", "BOOL", "F8_E4M3", "C64", "float32", "F4"])
    elif kind == "shape":
        total = math.prod(entry["shape"])
        entry["shape"] = draw.choice(
            [entry["shape"][::-1], [total], [], [1, *entry["shape"]], [total, 2**40], [-total]]
        )
    elif kind == "overlap":
        start, stop = header[draw.choice([each for each in header if each != "__metadata__"])]["data_offsets"]
        entry["data_offsets"] = draw.choice([[start, stop], [start + 4, stop + 4], [stop, start], [start, 2**60]])
    elif kind == "swap":
        other = draw.choice([each for each in header if each != "__metadata__"])
        header[name], header[other] = header[other], header[name]
    elif kind == "remove":
        del header[name]
    elif kind == "data":
        data = draw.choice([data[:-4], data + b"\0" * 4, b"", data[4:]])
    text = as_text(header)
    length = draw.choice([0, 2**40, 2**63, len(text) - 1]) if kind == "length" else len(text)
    return length.to_bytes(8, "little") + text + data, mutant


def copy_of(source: Path, place: Path) -> Path:
    """Return a copy of a file or folder, at a place where something of an earlier mutation may be."""
    if place.is_dir() and not place.is_symlink():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    if source.is_dir():
        return Path(shutil.copytree(source, place))
    return Path(shutil.copy(source, place))
