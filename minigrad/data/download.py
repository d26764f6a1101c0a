"""Download a file once; from then on it is read from the cache folder.

Only what arrived whole and could be read is kept: a connection that breaks off looks like the end of a file, and a
server may answer with an empty page, or a damaged one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from minigrad.data.text_files import portions, within_memory
from minigrad.errors import InputError, RunError
from minigrad.system.cache import cache_folder, store

if TYPE_CHECKING:
    from http.client import HTTPResponse

Value = TypeVar("Value")


def download(
    address: str,
    read: Callable[[bytes], Value],
    *,
    sha256: str | None = None,
    progress: Callable[[str], None] | None = None,
) -> Value:
    """Return what `read` makes of the bytes at `address` (http or https).

    The bytes are kept in the cache under a hash of the address, if `read` accepts them; it raises InputError if not.
    `sha256` is the checksum, in hexadecimal, that the bytes must have, downloaded or cached. Without it the address may
    have changed since, so `progress` reports when a copy is used, and how to get a new one.
    Raises RunError when the address cannot be read to its end or its bytes have another checksum, InputError for text
    that is not an address.
    """
    name = hashlib.blake2b(address.encode(errors="surrogatepass"), digest_size=16).hexdigest()
    kept = cache_folder() / "downloads" / name
    if kept.is_file():
        cached = kept.read_bytes()
        if sha256 == hashlib.sha256(cached).hexdigest():
            return read(cached)
        if sha256 is None:
            if progress is not None:
                date = datetime.fromtimestamp(kept.stat().st_mtime).date()
                progress(f"using the copy of {address} downloaded on {date}; to download it again, delete {kept}")
            with suppress(InputError):  # what cannot be read is downloaded again
                return read(cached)
    if progress is not None:
        progress(f"downloading {address}")
    data = _fetch(address)
    if sha256 not in (None, found := hashlib.sha256(data).hexdigest()):
        raise RunError(
            f"the file at {address} is not the one expected: its SHA-256 is {found}, not {sha256}. "
            "To use this file anyway, save it and name that file."
        )
    value = read(data)
    store(kept, lambda file: file.write(data))
    return value


def _fetch(address: str) -> bytes:
    """Return the bytes at an address; raises RunError unless all of them arrive."""
    import http.client
    import urllib.parse
    import urllib.request

    try:
        if not urllib.parse.urlsplit(address).hostname:
            raise ValueError("it names no computer")
        with urllib.request.urlopen(address, timeout=30) as response:
            data = b"".join(within_memory(portions(response), address))
            _check_whole(response, len(data))
            return data
    except InputError:  # more than the memory holds
        raise
    except (ValueError, http.client.InvalidURL) as error:
        raise InputError(f"{address} is not an address that can be read: {error}") from error
    except (OSError, http.client.HTTPException) as error:  # the network, or the response
        raise RunError(f"cannot download {address} ({error}). Name a copy on this computer instead.") from error


def _check_whole(response: HTTPResponse, size: int) -> None:
    """Raise OSError if a response of `size` bytes broke off. A read in portions does not say so.

    The parts of a chunked response have lengths of their own, which are checked when it is read.
    """
    promised = response.headers.get("Content-Length", "").lstrip("0")
    is_chunked = "chunked" in response.headers.get("Transfer-Encoding", "").lower()
    if not promised.isdecimal() or is_chunked:
        return
    if len(promised) > 18:  # Python reads no number of thousands of digits
        raise OSError(f"it promises a number of bytes with {len(promised):,} digits")
    if size < int(promised):
        raise OSError(f"the connection broke off after {size:,} of {int(promised):,} bytes")
