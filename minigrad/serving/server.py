"""The HTTP server: uvicorn, which gives replies some seconds to end once a signal stops it."""

from __future__ import annotations

import asyncio
import socket

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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept nothing more, and wait for the replies."""
        asyncio.get_running_loop().call_later(self._grace, self._api.end_all)
        await super().shutdown(sockets)
