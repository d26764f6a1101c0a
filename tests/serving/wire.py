"""A real server in a thread, and requests to it over the wire."""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from minigrad.serving.__main__ import listen
from minigrad.serving.served import Served
from minigrad.serving.settings import ServeConfig


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def events(self) -> list[Any]:
        """The JSON of each event of a stream, which must end as streams end."""
        lines = self.text.split("\n\n")
        assert lines[-2:] == ["data: [DONE]", ""], self.text[-200:]
        return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


class Wire:
    def __init__(self, port: int, server: Any) -> None:
        self.port, self.server = port, server

    def send(self, path: str, body: Any = None, **headers: str) -> http.client.HTTPConnection:
        """Send a request; a body that is not bytes is sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        given = ({} if body is None else {"Content-Type": "application/json"}) | given
        connection.request("GET" if body is None else "POST", path, data, given)
        return connection

    def call(self, path: str, body: Any = None, **headers: str) -> Answer:
        connection = self.send(path, body, **headers)
        reply = connection.getresponse()
        answer = Answer(reply.status, dict(reply.getheaders()), reply.read().decode())
        connection.close()
        return answer

    def metric(self, name: str) -> float:
        lines = self.call("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(f"minigrad_{name}{{"))


@contextlib.contextmanager
def serving(models: Sequence[Served], grace: float = 0.2, **settings: Any) -> Iterator[Wire]:
    """Serve models on a free port until the end of the block; replies then have `grace` seconds to end."""
    from minigrad.serving.api import Api
    from minigrad.serving.server import Server

    config = ServeConfig(runs=("runs",), port=0, **settings)
    with listen(config) as listener:
        address, port = listener.getsockname()
        server = Server(Api(models, config, address), grace)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Wire(port, server)
        finally:
            server.should_exit = True
            thread.join()


def until(holds: Any) -> None:
    """Wait until something holds, for a minute at most."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
