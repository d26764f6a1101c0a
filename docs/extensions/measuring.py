"""Pages that measure how long something takes are run while no other page is.

Pages are run two at a time. A page with the comment `<!-- measures_time -->` waits until the others have ended, and
keeps new ones waiting until it has ended itself: its figures would otherwise be those of half a machine. These pages
are read after the others with cells, so that a process seldom waits.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.parallel import make_chunks


def measures_time(text: str) -> bool:
    """Whether a page says of itself that it measures time.

    >>> measures_time("# Speed\\n\\n<!-- measures_time -->\\n"), measures_time("# Speed\\n")
    (True, False)
    """
    return "\n<!-- measures_time -->\n" in text


def dealt(pages: Mapping[str, str], processes: int) -> list[str]:
    """Return the names of pages, given with their texts, in an order that gives each process as much to run.

    Sphinx gives a process a run of neighbours. In the order of the alphabet, most chapters would be in one run.

    >>> cell, measured = "```{code-cell}", "```{code-cell}\\n<!-- measures_time -->\\n"
    >>> dealt({"a": measured, "b": "words", "c": measured, "d": cell, "e": cell, "f": "words"}, 2)
    ['d', 'a', 'b', 'e', 'c', 'f']
    """
    by_work = sorted(pages, key=lambda name: ("```{code-cell}" not in pages[name], measures_time(pages[name])))
    begun = processes * max(map(len, make_chunks(by_work, processes)), default=0)  # pages that are read first
    return [name for first in range(processes) for name in by_work[first:begun:processes]] + by_work[begun:]


class Turns:
    """A lock in a folder that many processes hold together, or one of them alone.

    Whoever wants it passes a gate first. Who wants to be alone stays in the gate while the others end, so that these
    cannot go on taking the lock from each other for ever.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self._held = folder, ExitStack()

    def take(self, *, alone: bool) -> None:
        """Wait for the lock and keep it."""
        import fcntl

        self.give_back()
        room = self._held.enter_context((self.folder / ".room").open("wb"))
        with (self.folder / ".gate").open("wb") as gate:
            fcntl.flock(gate, fcntl.LOCK_EX)
            fcntl.flock(room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)

    def give_back(self) -> None:
        """Give the lock back, if it was taken."""
        self._held.close()


def setup(app: Sphinx) -> dict[str, Any]:
    """Take a turn for each page that is read; the cells of a page are run while it is read."""

    def prepare(app: Sphinx, environment: BuildEnvironment, names: list[str]) -> None:
        Path(app.outdir).mkdir(parents=True, exist_ok=True)
        names[:] = dealt({name: environment.doc2path(name).read_text("utf-8") for name in names}, app.parallel)

    if sys.platform != "win32":  # where pages are read one after another
        turns = Turns(Path(app.outdir))
        app.connect("env-before-read-docs", prepare)
        app.connect("source-read", lambda app, name, source: turns.take(alone=measures_time(source[0])))
        app.connect("doctree-read", lambda app, doctree: turns.give_back())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
