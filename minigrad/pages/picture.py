"""Pictures of numbers: a matrix of shares as a PNG, one pixel an element, in one colour of more or less opacity.

The picture is transparent where a share is 0, so it stands on light and on dark paper alike. It is written into the
page itself, as a data address.
"""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np

from minigrad.typing import Array

COLOUR = (47, 128, 205)  # a blue that is visible on white and on black paper


def shares_as_png(shares: Array) -> bytes:
    """Return a PNG of numbers from 0 (transparent) to 1 (the full colour), (height, width).

    The opacity is the square root of the share: otherwise a share of a hundredth could not be seen. It has 256 levels;
    only a share of 0 gets the lowest.
    """
    height, width = shares.shape
    levels = np.ceil(255 * np.sqrt(np.clip(shares, 0, 1))).astype(np.uint8)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), levels], axis=1)  # each row begins with its filter: none
    palette = bytes(COLOUR) * 256
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)  # 8 bits a pixel, which number a colour
    chunks = [
        (b"IHDR", header),
        (b"PLTE", palette),
        (b"tRNS", bytes(range(256))),  # the opacity of each colour
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, *zip(*chunks, strict=True)))


def _chunk(kind: bytes, content: bytes) -> bytes:
    """Return a part of a PNG file: its length, kind, content and checksum (ISO 15948, 5.3)."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def data_address(png: bytes) -> str:
    """Return an address that is the picture itself."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
