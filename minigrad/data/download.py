"""Download a file once; from then on it is read from the cache folder."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime

from minigrad.data.decoding import portions, within_memory
from minigrad.errors import InputError, RunError
from minigrad.system.cache import cache_folder, store


def download(address: str, *, sha256: str | None = None, progress: Callable[[str], None] | None = None) -> bytes:
    """Return the bytes at `address` (http or https), and keep them in the cache under a hash of the address.

    `sha256` is the checksum, in hexadecimal, that the bytes must have, downloaded or cached. Without it the address may
    have changed since, so `progress` is told when a copy is used, and how to get a new one.
    Raises RunError when the address cannot be read or its bytes have another checksum.
    """
    kept = cache_folder() / "downloads" / hashlib.blake2b(address.encode(), digest_size=16).hexdigest()
    if kept.is_file():
        cached = kept.read_bytes()
        if sha256 == hashlib.sha256(cached).hexdigest():
            return cached
        if sha256 is None:
            if progress is not None:
                date = datetime.fromtimestamp(kept.stat().st_mtime).date()
                progress(f"using the copy of {address} downloaded on {date}; to download it again, delete {kept}")
            return cached

    import http.client
    import urllib.request

    if progress is not None:
        progress(f"downloading {address}")
    try:
        with urllib.request.urlopen(address, timeout=30) as response:
            data = b"".join(within_memory(portions(response), address))
    except InputError:
        raise
    except (OSError, http.client.HTTPException, ValueError) as error:  # the network, the response or the address
        raise RunError(
            f"cannot download {address} ({error}). Give a copy on this computer instead: --data PATH."
        ) from error
    if sha256 not in (None, found := hashlib.sha256(data).hexdigest()):
        raise RunError(
            f"the file at {address} is not the one expected: its SHA-256 is {found}, not {sha256}. "
            "To use this file anyway, save it and give --data PATH."
        )
    store(kept, lambda file: file.write(data))
    return data
