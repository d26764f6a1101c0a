"""The HTTP server: uvicorn, which gives replies some seconds to end once a signal stops it."""

from __future__ import annotations

import asyncio
import socket
from types import FrameType

import uvicorn

from minigrad.serving.api import Api

GRACE = 5.0
"""The seconds that replies have to end once the server is to stop."""


class Server(uvicorn.Server):
    """Serves an API until SIGINT or SIGTERM; replies that take longer than `grace` seconds more end with an error."""

    def __init__(self, api: Api, grace: float = GRACE) -> None:
        longest = int(2 * grace) + 1  # then uvicorn itself ends what is left
        super().__init__(uvicorn.Config(api.app(), log_level="warning", ws="none", timeout_graceful_shutdown=longest))
        self._api, self._grace = api, grace

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal."""
        self._loop = asyncio.get_running_loop()
        await super().serve(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Let replies end; a second signal ends them at once, with an error that their clients can read."""
        if self.should_exit:
            self._loop.call_soon_threadsafe(self._api.end_all)
        else:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, and wait for the replies."""
        asyncio.get_running_loop().call_later(self._grace, self._api.end_all)
        await super().shutdown(sockets)
