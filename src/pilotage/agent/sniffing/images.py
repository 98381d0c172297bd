"""Headers of pictures: their sizes and the number of their frames. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack
from zlib import crc32

from pilotage.agent.sniffing.facts import BrokenMediaError, MediaFacts, piece, steps

_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
"""The bits of a sample that a PNG of each colour type may have."""


def png(content: bytes) -> MediaFacts:
    """Return the facts of a PNG, an animated one included."""
    width = height = frames = 0
    at, has_data = 8, False
    for step in steps():
        length, name = unpack(">I4s", piece(content, at, 8, "a chunk"))
        body = piece(content, at + 8, length, f"chunk {_shown(name)}")
        (code,) = unpack(">I", piece(content, at + 8 + length, 4, f"chunk {_shown(name)}"))
        if crc32(body, crc32(name)) != code:
            raise BrokenMediaError(f"chunk {_shown(name)} does not have its checksum")
        if (step == 0) is not (name == b"IHDR"):
            raise BrokenMediaError("it does not begin with its one header")
        match name:
            case b"IHDR":
                width, height = _png_size(body)
            case b"acTL" if length == 8:
                frames = int.from_bytes(body[:4], "big")
            case b"IDAT":
                has_data = True
            case b"IEND":
                break
            case _:
                pass
        at += 12 + length
    if not has_data:
        raise BrokenMediaError("it has no data")
    return MediaFacts("image/png", width, height, max(frames, 1))


def _png_size(header: bytes) -> tuple[int, int]:
    if len(header) != 13:
        raise BrokenMediaError("its header has another length")
    width, height, depth, colour, packing, filters, interlace = unpack(">IIBBBBB", header)
    is_known = depth in _DEPTHS.get(colour, ()) and packing == filters == 0 and interlace in (0, 1)
    if not is_known or not (0 < width < 2**31 and 0 < height < 2**31):
        raise BrokenMediaError("its header has values that there are not")
    return width, height


def _shown(name: bytes) -> str:
    return ascii(name.decode("latin-1"))


_SIZES_OF_JPEG = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_WITHOUT_LENGTH = frozenset({0x01, *range(0xD0, 0xD8)})


def jpeg(content: bytes) -> MediaFacts:
    """Return the facts of a JPEG; its size stands in a segment before the data."""
    at, size = 2, (0, 0)
    for _ in steps():
        mark, kind = piece(content, at, 2, "a marker")
        if mark != 0xFF or kind == 0xD9:
            raise BrokenMediaError("there is no segment where one belongs")
        if kind == 0xFF or kind in _WITHOUT_LENGTH:
            at += 1 if kind == 0xFF else 2
            continue
        (length,) = unpack(">H", piece(content, at + 2, 2, "a segment"))
        body = piece(content, at + 4, length - 2, "a segment")
        if kind in _SIZES_OF_JPEG:
            size = _jpeg_size(body, size)
        at += 2 + length
        if kind == 0xDA:
            break
    height, width = size
    if not (width and height):
        raise BrokenMediaError("it has no size before its data")
    if content.find(b"\xff\xd9", at) < 0:
        raise BrokenMediaError("its end is missing")
    return MediaFacts("image/jpeg", width, height)


def _jpeg_size(body: bytes, before: tuple[int, int]) -> tuple[int, int]:
    if len(body) < 5 or any(before):
        raise BrokenMediaError("it does not have one size")
    height, width = unpack(">HH", body[1:5])
    return height, width


def gif(content: bytes) -> MediaFacts:
    """Return the facts of a GIF, an animated one included."""
    width, height, flags = unpack("<HHB", piece(content, 6, 5, "its header"))
    at, frames = 13 + _colours(flags), 0
    for _ in steps():
        (kind,) = piece(content, at, 1, "its blocks")
        if kind == 0x3B:
            break
        if kind == 0x21:
            at += 2
        elif kind == 0x2C:
            left, top, wide, high, flags = unpack("<HHHHB", piece(content, at + 1, 9, "a frame"))
            width, height, frames = max(width, left + wide), max(height, top + high), frames + 1
            at += 11 + _colours(flags)
        else:
            raise BrokenMediaError("it has a block of an unknown kind")
        at = _after_blocks(content, at)
    if not (frames and width and height):
        raise BrokenMediaError("it has no frame")
    return MediaFacts("image/gif", width, height, frames)


def _colours(flags: int) -> int:
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _after_blocks(content: bytes, at: int) -> int:
    for _ in steps():
        (length,) = piece(content, at, 1, "its data")
        at += 1 + length
        if length == 0:
            break
    return at


def webp(content: bytes) -> MediaFacts:
    """Return the facts of a WebP, an animated one included."""
    width = height = frames = 0
    for name, body in riff_chunks(content):
        if name == b"VP8X":
            piece(body, 0, 10, "its header")
            width, height = _three(body, 4) + 1, _three(body, 7) + 1
        elif name == b"VP8 ":
            frames += 1
            if piece(body, 3, 3, "a frame") != b"\x9d\x01\x2a":
                raise BrokenMediaError("its frame has no start code")
            wide, high = unpack("<HH", piece(body, 6, 4, "a frame"))
            width, height = max(width, wide & 0x3FFF), max(height, high & 0x3FFF)
        elif name == b"VP8L":
            frames += 1
            if piece(body, 0, 1, "a frame") != b"\x2f":
                raise BrokenMediaError("its frame has no signature")
            (bits,) = unpack("<I", piece(body, 1, 4, "a frame"))
            width, height = max(width, (bits & 0x3FFF) + 1), max(height, (bits >> 14 & 0x3FFF) + 1)
        elif name == b"ANMF":
            frames += 1
            piece(body, 0, 16, "a frame")
            wide, high = _three(body, 6) + 1, _three(body, 9) + 1
            width = max(width, 2 * _three(body, 0) + wide)
            height = max(height, 2 * _three(body, 3) + high)
    if not (frames and width and height):
        raise BrokenMediaError("it has no frame")
    return MediaFacts("image/webp", width, height, frames)


def riff_chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the name and the body of each chunk of a RIFF file.

    Raises:
        BrokenMediaError: the bytes end before the file does.
    """
    (size,) = unpack("<I", piece(content, 4, 4, "its header"))
    if 8 + size > len(content):
        raise BrokenMediaError("it is shorter than it says")
    at, end = 12, 8 + size
    for _ in steps():
        if at + 8 > end:
            break
        name, length = unpack("<4sI", piece(content, at, 8, "a chunk"))
        yield name, piece(content, at + 8, length, f"chunk {_shown(name)}")
        at += 8 + length + length % 2


def _three(body: bytes, at: int) -> int:
    return int.from_bytes(body[at : at + 3], "little")


def bmp(content: bytes) -> MediaFacts:
    """Return the facts of a BMP with a header of version 3 or later."""
    (begin,) = unpack("<I", piece(content, 10, 4, "its header"))
    header, wide, high, _, bits, packing = unpack("<IiiHHI", piece(content, 14, 20, "its header"))
    width, height = wide, abs(high)
    if header < 40 or width <= 0 or height == 0 or bits not in (1, 4, 8, 16, 24, 32):
        raise BrokenMediaError("its header has values that there are not")
    if packing in (0, 3) and begin + (width * bits + 31) // 32 * 4 * height > len(content):
        raise BrokenMediaError("it is shorter than its size says")
    return MediaFacts("image/bmp", width, height)
