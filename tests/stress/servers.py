"""A server on this computer whose responses are wrong, each in one way."""

from __future__ import annotations

import contextlib
import gzip
import random
import socket
import threading
from collections.abc import Callable, Iterator

Response = Callable[[bytes, random.Random], bytes]


def _response(body: bytes, status: str = "200 OK", *headers: str, length: object = None) -> bytes:
    size = len(body) if length is None else length
    return "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {size}", *headers, "", ""]).encode("latin-1") + body


def _chunked(body: bytes, size: str, end: bytes = b"0\r\n\r\n") -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + (size.encode() + b"\r\n" + body + b"\r\n") * 2 + end


ESCAPES = "\x1b]0;owned\x07\x1b[2J\x9b31m"

WAYS: dict[str, Response] = {
    "whole": lambda body, draw: _response(body),
    "breaks off": lambda body, draw: _response(body, length=len(body) + draw.choice([1, 10**6])),
    "promises 10**30 bytes": lambda body, draw: _response(body, length=10**30),
    "promises less": lambda body, draw: _response(body, length=len(body) // 2),
    "promises -5 bytes": lambda body, draw: _response(body, length=-5),
    "promises text": lambda body, draw: _response(body, length="many"),
    "promises nothing": lambda body, draw: b"HTTP/1.1 200 OK\r\n\r\n" + body,
    "two lengths": lambda body, draw: _response(body, "200 OK", f"Content-Length: {len(body) + 7}"),
    "closes at once": lambda body, draw: b"",
    "closes in the status": lambda body, draw: b"HTTP/1.1 20",
    "closes in the headers": lambda body, draw: _response(body)[:30],
    "no HTTP": lambda body, draw: b"220 smtp.example ESMTP\r\n" + body,
    "noise": lambda body, draw: draw.randbytes(500),
    "a status of text": lambda body, draw: _response(body, "abc OK"),
    "a status of 5,000 digits": lambda body, draw: _response(body, "9" * 5_000),
    "not found": lambda body, draw: _response(body, "404 Not Found"),
    "a reason with escape sequences": lambda body, draw: _response(body, f"404 {ESCAPES}"),
    "a reason of 60,000 characters": lambda body, draw: _response(body, "500 " + "x" * 60_000),
    "a line of 70,000 characters": lambda body, draw: _response(body, "200 OK", "X: " + "x" * 70_000),
    "10,000 headers": lambda body, draw: _response(body, "200 OK", *["X: y"] * 10_000),
    "headers with escape sequences": lambda body, draw: _response(body, "200 OK", f"X{ESCAPES}: {ESCAPES}"),
    "to itself for ever": lambda body, draw: _response(b"", "302 Found", "Location: /again"),
    "to a file": lambda body, draw: _response(b"", "302 Found", "Location: file:///etc/passwd"),
    "to nowhere": lambda body, draw: _response(b"", "301 Moved", f"Location: http://{ESCAPES}[/"),
    "to another protocol": lambda body, draw: _response(b"", "302 Found", "Location: gopher://x"),
    "asks for a password": lambda body, draw: _response(b"", "401 No", 'WWW-Authenticate: Basic realm="x"'),
    "chunks": lambda body, draw: _chunked(body, f"{len(body):x}"),
    "chunks that end early": lambda body, draw: _chunked(body, f"{len(body) + 9:x}", b""),
    "chunks without an end": lambda body, draw: _chunked(body or b"x", f"{len(body or b'x'):x}", b""),
    "chunks of no number": lambda body, draw: _chunked(body, "zz"),
    "chunks of -1": lambda body, draw: _chunked(body, "-1"),
    "gzip": lambda body, draw: _response(gzip.compress(body)),
    "gzip that breaks off": lambda body, draw: _response(gzip.compress(body)[: draw.choice([5, 12, -9, -1])]),
    "gzip with a wrong byte": lambda body, draw: _response(_flipped(gzip.compress(body), draw)),
    "another encoding": lambda body, draw: _response(gzip.compress(body), "200 OK", "Content-Encoding: gzip"),
    "latin-1": lambda body, draw: _response(b"caf\xe9 " + body),
}
"""What comes back, from the text that was asked for."""

NEVER_WHOLE = {
    *("breaks off", "promises 10**30 bytes", "closes at once", "closes in the status", "not found", "latin-1"),
    *("a reason with escape sequences", "a reason of 60,000 characters", "to itself for ever", "to nowhere"),
    *("to a file", "to another protocol", "asks for a password", "chunks that end early", "chunks without an end"),
    *("chunks of no number", "a status of text", "a status of 5,000 digits", "no HTTP", "noise"),
}
"""The ways that must be refused."""


def _flipped(data: bytes, draw: random.Random) -> bytes:
    place = draw.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << draw.randrange(8)]) + data[place + 1 :]


@contextlib.contextmanager
def serving(response: Response, body: bytes, draw: random.Random) -> Iterator[str]:
    """Answer every request with a response, and give the address."""
    answer = response(body, draw)
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    with connection, contextlib.suppress(OSError):
                        connection.recv(65_536)
                        connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        with contextlib.suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)
    thread.join(timeout=1)
