from __future__ import annotations

import datetime
import gzip
import hashlib
import io

import pytest

from minigrad.data import corpus
from minigrad.errors import InputError, RunError
from minigrad.system import cache, hardware


@pytest.fixture
def web(monkeypatch):
    """A fake web: a dictionary from addresses to bytes, and the list of requested addresses."""
    pages, asked = {}, []

    def urlopen(address, timeout):
        asked.append(address)
        if address not in pages:
            raise OSError("Name or service not known")
        return io.BytesIO(pages[address])

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
    with pytest.raises(RunError, match=r"cannot download https?://.*txt .*not known.*--data PATH"):
        corpus.load(name)


def test_shakespeare_must_have_the_right_checksum(web, monkeypatch):
    pages, asked = web
    play = ("First Citizen:\nBefore we proceed any further, hear me speak.\n\n" * 2_000).encode()
    monkeypatch.setattr(corpus, "SHAKESPEARE_SHA256", hashlib.sha256(play).hexdigest())
    pages[corpus.SHAKESPEARE] = play[:-1]
    with pytest.raises(RunError, match=r"SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}.*--data PATH"):
        corpus.load("shakespeare")
    pages[corpus.SHAKESPEARE] = play
    loaded = corpus.load("shakespeare")
    assert "".join(loaded.documents) == play.decode()
    train, held_out = loaded.split()
    assert train
    assert held_out
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
