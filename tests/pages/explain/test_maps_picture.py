"""A picture holds one pixel for each number, and small shares can be seen."""

from __future__ import annotations

import base64
import struct
import zlib

import numpy as np
import pytest

from minigrad.pages.explain.maps import COLOUR, data_address, shares_as_png
from minigrad.typing import Array


def parts_of(png: bytes) -> dict[bytes, bytes]:
    """Return the chunks of a PNG file, whose checksums are checked."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    found, place = {}, 8
    while place < len(png):
        (size,) = struct.unpack(">I", png[place : place + 4])
        kind, content = png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        (checksum,) = struct.unpack(">I", png[place + 8 + size : place + 12 + size])
        assert checksum == zlib.crc32(kind + content)
        found[kind], place = content, place + 12 + size
    return found


def opacities(png: bytes) -> Array:
    """Return the opacity of each pixel, (height, width), from 0 to 255."""
    parts = parts_of(png)
    width, height, bits, kind = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    assert (bits, kind) == (8, 3)
    rows = np.frombuffer(zlib.decompress(parts[b"IDAT"]), np.uint8).reshape(height, width + 1)
    assert not rows[:, 0].any()
    return np.frombuffer(parts[b"tRNS"], np.uint8)[rows[:, 1:]]


def test_the_opacity_is_the_root_of_the_share():
    shares = np.array([[0.0, 1.0, 0.25], [1e-9, 0.01, 2.0]])
    assert opacities(shares_as_png(shares)).tolist() == [[0, 255, 128], [1, 26, 255]]


def test_all_colours_are_one():
    palette = parts_of(shares_as_png(np.eye(2)))[b"PLTE"]
    assert list(struct.iter_unpack("3B", palette)) == [COLOUR] * 256


@pytest.mark.parametrize("shape", [(1, 1), (3, 200)])
def test_the_size_is_that_of_the_matrix(shape):
    assert opacities(shares_as_png(np.ones(shape))).shape == shape


def test_the_address_is_the_picture():
    png = shares_as_png(np.eye(3))
    kind, _, content = data_address(png).partition(",")
    assert kind == "data:image/png;base64"
    assert base64.b64decode(content) == png
