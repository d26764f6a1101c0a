"""The message printed when this process is ended from outside.

If one process of a job dies, mpiexec kills all others at once, and none of them can say what remains. So the first one
has a child, a tiny Python, which keeps the sentence to print. It reads from a pipe, and learns from the end of the pipe
that its parent is gone. A session of its own keeps it alive when the others are killed.
"""

from __future__ import annotations

import atexit
import contextlib
import subprocess
import sys

from minigrad.system.terminal import printable

_CHILD = """
import sys
word = ""
for line in sys.stdin:
    word = line
if word.strip():
    sys.stderr.write(word)
"""


class LastWords:
    """A sentence for standard error, printed if this process is killed: not if it calls `forget`, or ends as usual."""

    def __init__(self) -> None:
        """Start the child."""
        # Isolated and without site packages: it starts in hundredths of a second, and needs few megabytes.
        self._child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _CHILD],
            stdin=subprocess.PIPE,
            start_new_session=True,
            text=True,
            encoding="utf-8",
        )
        atexit.register(self.forget)

    def say(self, sentence: str) -> None:
        """Replace the sentence; an empty one prints nothing."""
        assert self._child.stdin is not None
        with contextlib.suppress(OSError):  # the child was killed, so nothing can be said
            self._child.stdin.write(printable(" ".join(sentence.split())) + "\n")
            self._child.stdin.flush()

    def forget(self) -> None:
        """End the child; it prints nothing."""
        assert self._child.stdin is not None
        if not self._child.stdin.closed:
            self.say("")
            with contextlib.suppress(OSError):
                self._child.stdin.close()
            self._child.wait()
