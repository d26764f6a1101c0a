from __future__ import annotations

import datetime
import gzip
import hashlib
import http.server
import io
import threading
from email.message import Message
from typing import ClassVar

import pytest

from minigrad.data import corpus
from minigrad.data.split import num_bytes
from minigrad.errors import InputError, RunError
from minigrad.system import cache, hardware


class Response(io.BytesIO):
    """What a server answers; it says nothing of the length."""

    headers: ClassVar = Message()


class Server(http.server.BaseHTTPRequestHandler):
    """Answers with the bytes in `answer`, and says that there are `promised`, or sends them in chunks."""

    answer, promised, reason = b"", 0, "OK"

    def do_GET(self):
        self.send_response(200 if self.promised else 404, self.reason)
        self.send_header("Content-Length", str(self.promised))
        self.end_headers()
        self.wfile.write(self.answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    """A real server, and its address."""
    handler = type("Handler", (Server,), {})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield handler, f"http://127.0.0.1:{listening.server_port}/text"
        listening.shutdown()
        thread.join()


def kept() -> list[str]:
    folder = cache.cache_folder() / "downloads"
    return [path.name for path in folder.iterdir()] if folder.is_dir() else []


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def web(monkeypatch):
    """A fake web: a dictionary from addresses to bytes, and the list of requested addresses."""
    pages, asked = {}, []

    def urlopen(address, timeout):
        asked.append(address)
        if address not in pages:
            raise OSError("Name or service not known")
        return Response(pages[address])

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return pages, asked


def test_an_address_is_downloaded_once(web):
    pages, asked = web
    address = "https://example.org/texts/some.jsonl.gz?raw=1"
    pages[address] = gzip.compress(b'{"text": "a page"}')
    said = []
    assert corpus.load(address, progress=said.append).documents == ("a page",)
    assert corpus.load(address).documents == ("a page",)
    assert asked == [address]
    assert said == [f"downloading {address}"]


def test_a_copy_of_an_address_is_not_used_without_notice(web):
    address, said = "https://example.org/changing.txt", []
    web[0][address] = b"of today"
    corpus.load(address)
    assert corpus.load(address, progress=said.append).documents == ("of today",)
    (kept,) = (cache.cache_folder() / "downloads").glob(hashlib.blake2b(address.encode(), digest_size=16).hexdigest())
    date = datetime.date.today()
    assert said == [f"using the copy of {address} downloaded on {date}; to download it again, delete {kept}"]
    kept.unlink()
    web[0][address] = b"of tomorrow"
    assert corpus.load(address, progress=said.append).documents == ("of tomorrow",)


def test_an_address_that_never_ends_is_refused(web, monkeypatch):
    monkeypatch.setattr(hardware, "available_memory_bytes", lambda: 400)
    web[0]["http://example.org/a.txt"] = b"a page " * 100
    with pytest.raises(InputError, match=r"http://example\.org/a\.txt has more than 100 bytes"):
        corpus.load("http://example.org/a.txt")


@pytest.mark.parametrize("name", ["shakespeare", "http://example.org/a.txt"])
@pytest.mark.usefixtures("web")
def test_a_failed_download_names_the_address_and_the_way_out(name):
    with pytest.raises(RunError, match=r"cannot download https?://.*txt .*not known.*Name a copy"):
        corpus.load(name)


def test_shakespeare_must_have_the_right_checksum(web, monkeypatch):
    pages, asked = web
    play = ("First Citizen:\nBefore we proceed any further, hear me speak.\n\n" * 2_000).encode()
    monkeypatch.setattr(corpus, "SHAKESPEARE_SHA256", hashlib.sha256(play).hexdigest())
    pages[corpus.SHAKESPEARE] = play[:-1]
    with pytest.raises(RunError, match=r"SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}.*save it and name that file"):
        corpus.load("shakespeare")
    pages[corpus.SHAKESPEARE] = play
    loaded = corpus.load("shakespeare")
    assert "".join(loaded.documents) == play.decode()
    end = len(play) * 14 // 16
    assert "".join(loaded.split().train) == play.decode()[: play.rfind(b"\n", 0, end) + 1]  # one file gives its end
    assert len(asked) == 2
    for kept in (cache.cache_folder() / "downloads").iterdir():
        kept.write_bytes(b"rotten")
    assert corpus.load("shakespeare") == loaded
    assert len(asked) == 3


def test_a_download_works_without_a_cache(web, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file where the folder should be", encoding="utf-8")
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "taken"))
    web[0]["http://example.org/a.txt"] = b"a page"
    assert corpus.load("http://example.org/a.txt").documents == ("a page",)


def test_a_connection_that_breaks_off_is_no_end_and_nothing_is_kept(server):
    handler, address = server
    handler.answer, handler.promised = b"to be or not to be\n" * 1_000, 40_000
    with pytest.raises(RunError, match=r"cannot download .*broke off after 19,000 of 40,000 bytes\).*Name a copy"):
        corpus.load(address)
    assert kept() == []
    handler.promised = 10**30
    with pytest.raises(RunError, match=r"it promises a number of bytes with 31 digits\)"):
        corpus.load(address)
    assert kept() == []
    handler.promised = 19_000
    assert num_bytes(corpus.load(address).documents) == 19_000
    assert len(kept()) == 1


@pytest.mark.parametrize(
    ("name", "answer", "message"),
    [
        ("a.txt", b"", "holds no text"),
        ("a.txt", b" \n\n ", "holds no text"),
        ("a.txt", b"caf\xe9", "is not UTF-8 text"),
        ("a.txt.gz", b"<html>not found</html>", "cannot be unpacked"),
        ("a.txt.gz", gzip.compress(b"to be or not to be" * 99, mtime=0)[:-9], "cannot be unpacked"),
        ("a.txt.gz", gzip.compress(b"to be", mtime=0)[:-8] + bytes(8), "cannot be unpacked"),
        ("a.jsonl", b'{"text": "to be', "line 1 is not JSON"),
    ],
)
def test_an_answer_that_cannot_be_read_is_not_kept(web, name, answer, message):
    address = f"https://example.org/{name}?raw=1"
    web[0][address] = answer
    for _ in range(2):
        with pytest.raises(InputError, match=rf"https://example\.org/{name}.*{message}"):
            corpus.load(address)
    assert len(web[1]) == 2  # it was asked for again
    assert kept() == []


@pytest.mark.parametrize(
    "address",
    ["http://[bad", "http://", "http://example.org/a b", "http://exa\x1bmple.org/\n", "http://a.invalid/\udcff"],
)
def test_what_is_no_address_is_bad_input(address):
    with pytest.raises(InputError, match="is not an address that can be read: "):
        corpus.load(address)


def test_a_copy_that_cannot_be_read_is_downloaded_again(web):
    web[0]["http://example.org/a.txt"] = b"a page"
    corpus.load("http://example.org/a.txt")
    (copy,) = (cache.cache_folder() / "downloads").iterdir()
    copy.write_bytes(b"")
    assert corpus.load("http://example.org/a.txt").documents == ("a page",)
    assert copy.read_bytes() == b"a page"
