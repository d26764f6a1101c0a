"""A Chromium without a window, for tests of pages. It is no dependency: where there is none, these tests are skipped.

It is spoken to in the DevTools protocol, https://chromedevtools.github.io/devtools-protocol, through a pair of pipes:
messages in JSON, a zero byte after each. That needs nothing but the standard library.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None) if sys.platform != "win32" else None
needs_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed; the project does not need one")

# The sandbox is given up because it does not start for root, as whom tests in containers run; all pages are our own.
OPTIONS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"]

PATIENCE = 300  # seconds, only so that a test does not wait for ever


class Browser:
    """One tab. `commands` and `events` are the two pipes, as the test sees them."""

    def __init__(self, commands: int, events: int) -> None:
        self.commands, self.events = commands, events
        self.number, self.unread, self.session = 0, b"", ""
        self.requests: list[str] = []
        """The addresses that have been asked for since the last page was opened, its own among them."""
        self.errors: list[str] = []
        """What has gone wrong in scripts since then."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self.number:
            pass
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    def run(self, script: str) -> Any:
        """Run an expression of JavaScript in the page, and return its value."""
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, script: str) -> None:
        """Wait until an expression of JavaScript is true in the page."""
        end = time.monotonic() + PATIENCE
        while not self.run(script):
            assert time.monotonic() < end, script
            time.sleep(0.02)

    def texts(self, which: str) -> list[str]:
        """Return the texts of the elements that a selector finds."""
        found: list[str] = self.run(f"[...document.querySelectorAll({which!r})].map((each) => each.textContent)")
        return found

    def open(self, page: Path) -> None:
        """Load a page and all that it asks for."""
        self.requests, self.errors = [], []
        self.call("Page.navigate", url=page.resolve().as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def resize(self, width: int, height: int = 900, phone: bool = False) -> None:
        """Show pages in a window of so many pixels, or on a phone, which lays them out as wide as itself."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def press(self, key: str, code: int) -> None:
        """Press and release a key, given by its name and its number, as a hand would."""
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self.unread:
            assert select.select([self.events], [], [], PATIENCE)[0], f"the browser said nothing for {PATIENCE} seconds"
            piece = os.read(self.events, 1 << 16)
            assert piece, "the browser has ended"
            self.unread += piece
        first, _, self.unread = self.unread.partition(b"\0")
        message: dict[str, Any] = json.loads(first)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        elif message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(message["params"]["exceptionDetails"]))
        return message


@contextmanager
def started(profile: Path) -> Iterator[Browser]:
    """Start a browser that keeps its own files in a folder, and end it afterwards."""
    import fcntl  # not on Windows

    (read_commands, commands), (events, write_events) = os.pipe(), os.pipe()
    # Chromium expects the pipes as the files 3 and 4. Copies with larger numbers cannot be in the way of each other.
    copies = [fcntl.fcntl(pipe, fcntl.F_DUPFD_CLOEXEC, 10) for pipe in (read_commands, write_events)]
    process = os.posix_spawn(
        str(CHROMIUM),
        [str(CHROMIUM), *OPTIONS, f"--user-data-dir={profile}"],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            *((os.POSIX_SPAWN_DUP2, copy, place) for place, copy in enumerate(copies, start=3)),
        ],
    )
    for pipe in (read_commands, write_events, *copies):
        os.close(pipe)
    try:
        yield Browser(commands, events)
    finally:
        os.kill(process, signal.SIGTERM)
        os.waitpid(process, 0)
        os.close(commands)
        os.close(events)
