"""Small media that are whole, made byte by byte."""

from __future__ import annotations

from struct import pack
from zlib import compress, crc32


def chunk(name: bytes, body: bytes) -> bytes:
    """Return a chunk of a PNG."""
    return pack(">I", len(body)) + name + body + pack(">I", crc32(name + body))


def png(width: int = 2, height: int = 2, *, note: bytes = b"", frames: int = 0) -> bytes:
    """Return a PNG; a note makes it another one, and larger. The data of a huge one are too few."""
    rows = compress(bytes((width * 3 + 1) * height)) if width * height < 1_000_000 else compress(b"")
    return b"".join(
        (
            b"\x89PNG\r\n\x1a\n",
            chunk(b"IHDR", pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)),
            chunk(b"acTL", pack(">II", frames, 0)) if frames else b"",
            chunk(b"tEXt", b"note\0" + note) if note else b"",
            chunk(b"IDAT", rows),
            chunk(b"IEND", b""),
        )
    )


def wav(seconds: float = 0.1, rate: int = 8000) -> bytes:
    """Return silence."""
    data = bytes(int(seconds * rate) * 2)
    fmt = pack("<HHIIHH", 1, 1, rate, rate * 2, 2, 16)
    body = b"WAVE" + b"fmt " + pack("<I", len(fmt)) + fmt + b"data" + pack("<I", len(data)) + data
    return b"RIFF" + pack("<I", len(body)) + body
