"""The process in which a chat template runs: it bounds its own time, its memory, and the length of its output.

The sandbox of jinja2 keeps a template from files and from Python's insides, but not from counting without end or from
filling the memory. Only the operating system can stop that, and it can stop only a whole process. `renderer.py` starts
this file by its path, so that it imports nothing from the package, with the bounds as arguments. It reads lines of
JSON: first the source of the template, then the values to render it with. It answers each with {"text": ...} or
{"refused": ...}.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
from contextlib import suppress
from typing import Any, NamedTuple, NoReturn


class Bounds(NamedTuple):
    """What a template may take and write."""

    seconds: float = 10.0
    megabytes: int = 512
    characters: int = 10_000_000


def main(bounds: Bounds) -> None:
    """Answer each line of standard input, until it ends."""
    import jinja2.sandbox  # noqa: F401  (before the time is bounded)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C in a terminal reaches this process too, and is not for it
    bound_memory(bounds.megabytes << 20)
    template: Any = None
    for line in sys.stdin:
        answer, template = attempt(json.loads(line), template, bounds)
        print(json.dumps(answer), flush=True)


def attempt(given: Any, template: Any, bounds: Bounds) -> tuple[dict[str, str], Any]:
    """Render a template with values, or compile it from its source, within the bounds; return the answer and it."""
    # A thread of faulthandler ends the process when time is up, also within one long multiplication.
    faulthandler.dump_traceback_later(bounds.seconds, exit=True)
    try:
        if template is None:
            return {"text": ""}, compiled(given)
        text = template.render(given)
    except MemoryError:
        refused = f"it needs more than {bounds.megabytes} MB of memory"
    except RecursionError:
        refused = "it is nested too deeply, or calls itself without end"
    except Exception as error:  # a template can raise whatever Python can
        refused = one_line(error)
    else:
        if len(text) <= bounds.characters:
            return {"text": text}, template
        refused = f"it writes {len(text):,} characters, more than {bounds.characters:,}"
    finally:
        faulthandler.cancel_dump_traceback_later()
    return {"refused": refused}, template


def one_line(error: Exception) -> str:
    """Return the message of an error as one short line that a terminal can show; the template may have written it."""
    import jinja2

    words = " ".join(str(error)[:1_000].split())
    told = words if isinstance(error, jinja2.TemplateError) and words else f"{type(error).__name__}: {words}"
    return "".join(character if character.isprintable() else "\ufffd" for character in told)[:300]


def compiled(source: str) -> Any:
    """Return a template of jinja2 in its sandbox, with the additions to Jinja that templates of chat models use.

    They are those of transformers but for strftime_now: with the date of today in it, a text would have other tokens
    tomorrow.
    """
    import jinja2.ext
    import jinja2.nodes
    import jinja2.sandbox

    class Generation(jinja2.ext.Extension):
        """{% generation %} marks what the model wrote; nothing is rendered for the marks."""

        tags = {"generation"}  # noqa: RUF012  (as its base declares them)

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
            return jinja2.nodes.Scope(body, lineno=line)

    def refuse(message: object) -> NoReturn:
        raise jinja2.TemplateError(str(message))

    def tojson(
        value: object,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    extensions = ["jinja2.ext.loopcontrols", Generation]
    room = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=extensions)
    room.globals["raise_exception"] = refuse
    room.globals["tools"] = room.globals["documents"] = None  # which templates test with `is not none`
    room.filters["tojson"] = tojson
    return room.from_string(source)


def bound_memory(size: int) -> None:
    """Let this process have no more memory than `size` bytes, as its system counts them."""
    if sys.platform == "win32":
        bound_memory_of_windows(size)
        return
    import resource

    # macOS counts what all processes share, some hundred gigabytes, and refuses a bound below the memory already in
    # use. The first bound that it accepts is taken.
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    for each in range(size, 1 << 42, size) if hard == resource.RLIM_INFINITY else [min(size, hard)]:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (each, hard))
            return


def bound_memory_of_windows(size: int) -> None:
    """Put this process into a job whose processes have no more memory than `size` bytes."""
    import ctypes

    class Limits(ctypes.Structure):
        """JOBOBJECT_EXTENDED_LIMIT_INFORMATION; only two fields matter here."""

        _fields_ = (
            ("times", ctypes.c_int64 * 2),
            ("flags", ctypes.c_uint32),
            ("working_set", ctypes.c_size_t * 2),
            ("processes", ctypes.c_uint32),
            ("affinity", ctypes.c_size_t),
            ("priority", ctypes.c_uint32 * 2),
            ("transfers", ctypes.c_uint64 * 6),
            ("memory_of_a_process", ctypes.c_size_t),
            ("memory_of_the_job", ctypes.c_size_t),
            ("peaks", ctypes.c_size_t * 2),
        )

    handle = ctypes.c_void_p
    kernel32 = ctypes.CDLL("kernel32")
    kernel32.CreateJobObjectW.restype = kernel32.GetCurrentProcess.restype = handle
    kernel32.SetInformationJobObject.argtypes = (handle, ctypes.c_int, handle, ctypes.c_uint32)
    kernel32.AssignProcessToJobObject.argtypes = (handle, handle)
    limits = Limits(flags=0x100, memory_of_a_process=size)  # JOB_OBJECT_LIMIT_PROCESS_MEMORY
    job = kernel32.CreateJobObjectW(None, None)
    kernel32.SetInformationJobObject(job, 9, ctypes.byref(limits), ctypes.sizeof(limits))  # 9: the extended limits
    kernel32.AssignProcessToJobObject(job, kernel32.GetCurrentProcess())


if __name__ == "__main__":
    main(Bounds(*json.loads(sys.argv[1])))
