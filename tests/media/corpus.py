"""Media of many makes, whole and broken, with the verdict that their maker knows: it reads no bytes back."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import pack
from zlib import compress

from tests.media.pictures import chunk, png, wav

TAKEN, BROKEN, TYPE, LARGE = "taken", "media_broken", "media_type_refused", "media_too_large"


@dataclass(frozen=True)
class Sample:
    """Bytes, what is said of them, and what must become of them: a type if they are taken, else refusals."""

    maker: str
    content: bytes
    declared: str
    media_type: str | None
    refusals: frozenset[str] = frozenset()


def jpeg(width: int, height: int, note: bytes = b"") -> bytes:
    """Return the segments of a JPEG around data that nothing decodes."""

    def segment(mark: int, body: bytes) -> bytes:
        return bytes((0xFF, mark)) + pack(">H", len(body) + 2) + body

    frame = pack(">BHHB", 8, height, width, 1) + b"\x01\x11\x00"
    parts = [segment(0xE0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0"), segment(0xFE, note), segment(0xC0, frame)]
    return b"\xff\xd8" + b"".join(parts) + segment(0xDA, b"\x01\x01\x00\x00\x3f\x00") + b"\x12\x34\xff\xd9"


def gif(width: int, height: int, frames: int = 1) -> bytes:
    """Return a GIF with two colours."""
    head = b"GIF89a" + pack("<HHBBB", width, height, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    frame = (
        b"\x21\xf9\x04\0\0\0\0\0" + b"\x2c" + pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x44\x01\x00"
    )
    return head + frame * frames + b"\x3b"


def riff(kind: bytes, *chunks: tuple[bytes, bytes]) -> bytes:
    """Return a RIFF file."""
    body = kind + b"".join(
        name + pack("<I", len(each)) + each + b"\0" * (len(each) % 2) for name, each in chunks
    )
    return b"RIFF" + pack("<I", len(body)) + body


def webp(width: int, height: int) -> bytes:
    """Return a lossless WebP."""
    bits = (width - 1) | (height - 1) << 14
    return riff(b"WEBP", (b"VP8L", b"\x2f" + pack("<I", bits) + b"\0\0"))


def animated_webp(width: int, height: int, frames: int) -> bytes:
    """Return a WebP of several frames."""

    def three(number: int) -> bytes:
        return pack("<I", number)[:3]

    canvas = b"\x02\0\0\0" + three(width - 1) + three(height - 1)
    frame = three(0) * 2 + three(width - 1) + three(height - 1) + three(40) + b"\0"
    return riff(b"WEBP", (b"VP8X", canvas), (b"ANIM", bytes(6)), *[(b"ANMF", frame)] * frames)


def bmp(width: int, height: int) -> bytes:
    """Return a BMP with 24 bits a pixel."""
    data = bytes((width * 24 + 31) // 32 * 4 * height)
    header = pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, len(data), 0, 0, 0, 0)
    return b"BM" + pack("<IHHI", 54 + len(data), 0, 0, 54) + header + data


def flac(seconds: int, rate: int = 8000) -> bytes:
    """Return the header of a FLAC."""
    packed = rate << 44 | 15 << 36 | seconds * rate
    return b"fLaC" + b"\x80\0\0\x22" + bytes(10) + packed.to_bytes(8, "big") + bytes(16) + b"\xff\xf8"


def ogg(seconds: int) -> bytes:
    """Return Opus in two pages."""

    def page(flags: int, granule: int, body: bytes) -> bytes:
        return b"OggS\0" + bytes([flags]) + pack("<qIII", granule, 1, 0, 0) + bytes([1, len(body)]) + body

    return page(2, 0, b"OpusHead" + bytes(11)) + page(4, seconds * 48_000, b"x" * 20)


def mp3(frames: int) -> bytes:
    """Return frames of 128 kbit/s at 44,100 Hz."""
    return (b"\xff\xfb\x90\x00" + bytes(413)) * frames


def mp4(seconds: int, width: int = 0, height: int = 0) -> bytes:
    """Return a film, or a sound where it has no width."""

    def box(name: bytes, body: bytes) -> bytes:
        return pack(">I", 8 + len(body)) + name + body

    head = box(b"mvhd", bytes(12) + pack(">II", 1000, seconds * 1000) + bytes(80))
    track = box(b"trak", box(b"tkhd", bytes(76) + pack(">II", width << 16, height << 16)))
    return box(b"ftyp", b"isom" + bytes(4)) + box(b"moov", head + track) + box(b"mdat", b"data")


def pdf(words: str) -> bytes:
    """Return a PDF without pages."""
    return f"%PDF-1.7\n% {words}\ntrailer<</Root 1 0 R>>\nstartxref\n9\n%%EOF\n".encode()


def noted(note: bytes) -> bytes:
    """Return a small PNG with a note."""
    return png(3, 3, note=note)


WHOLE: dict[str, Callable[[random.Random], tuple[bytes, str]]] = {
    "png": lambda r: (
        png(r.randint(1, 40), r.randint(1, 40), note=r.randbytes(9).hex().encode()),
        "image/png",
    ),
    "jpeg": lambda r: (
        jpeg(r.randint(1, 4000), r.randint(1, 4000), r.randbytes(r.randint(0, 99))),
        "image/jpeg",
    ),
    "gif": lambda r: (gif(r.randint(1, 900), r.randint(1, 900), r.randint(1, 9)), "image/gif"),
    "webp": lambda r: (webp(r.randint(1, 5000), r.randint(1, 5000)), "image/webp"),
    "animated webp": lambda r: (
        animated_webp(r.randint(1, 99), r.randint(1, 99), r.randint(1, 9)),
        "image/webp",
    ),
    "bmp": lambda r: (bmp(r.randint(1, 60), r.randint(1, 60)), "image/bmp"),
    "wav": lambda r: (wav(r.uniform(0.01, 1)), "audio/wav"),
    "flac": lambda r: (flac(r.randint(1, 500)), "audio/flac"),
    "ogg": lambda r: (ogg(r.randint(1, 500)), "audio/ogg"),
    "mp3": lambda r: (mp3(r.randint(2, 90)), "audio/mpeg"),
    "film": lambda r: (mp4(r.randint(1, 500), r.randint(1, 1900), r.randint(1, 1000)), "video/mp4"),
    "sound in mp4": lambda r: (mp4(r.randint(1, 500)), "audio/mp4"),
    "pdf": lambda r: (pdf(r.randbytes(30).hex()), "application/pdf"),
    "text": lambda r: (f"Words, {r.random()} and \u00fcmlauts.\n".encode() * r.randint(1, 30), "text/plain"),
}
"""What is whole, by its maker; sizes and durations are within the limits of the test."""

HAS_AN_END = frozenset(WHOLE) - {"mp3", "text", "flac"}
"""The makers of what is broken wherever it is cut; the others are shorter then, or end within their first bytes."""

HUGE: dict[str, Callable[[random.Random], bytes]] = {
    "png": lambda r: png(r.randint(20_000, 2**31 - 1), r.randint(20_000, 2**31 - 1)),
    "animated png": lambda r: png(999, 999, frames=r.randint(1_000, 2**31)),
    "jpeg": lambda r: jpeg(r.randint(20_000, 65_535), r.randint(20_000, 65_535)),
    "gif": lambda r: gif(r.randint(20_000, 65_535), r.randint(20_000, 65_535)),
    "animated gif": lambda r: gif(2_000, 2_000, r.randint(20, 60)),
    "webp": lambda r: webp(16_384, r.randint(12_000, 16_384)),
    "animated webp": lambda r: animated_webp(4_000, 4_000, r.randint(20, 60)),
    "flac": lambda r: flac(r.randint(4_000, 60_000)),
    "ogg": lambda r: ogg(r.randint(4_000, 900_000)),
    "film": lambda r: mp4(r.randint(4_000, 90_000), 640, 480),
}
"""Bombs: small bytes that stand for more pixels or seconds than the limits of the test."""

FOREIGN: dict[str, Callable[[random.Random], bytes]] = {
    "svg with a script": lambda r: (
        f"<svg xmlns='http://www.w3.org/2000/svg'><script>x({r.random()})</script></svg>".encode()
    ),
    "svg with entities": lambda r: (
        f"<?xml version='1.0'?>\n<!DOCTYPE svg [<!ENTITY a '{r.random()}'>]><svg onload='a()'/>".encode()
    ),
    "svg after a comment": lambda r: f"\ufeff \n<!-- {r.random()} --><s:svg xmlns:s='x'></s:svg>".encode(),
    "zip": lambda r: b"PK\x03\x04" + r.randbytes(200),
    "gzip": lambda r: b"\x1f\x8b\x08" + compress(bytes(r.randint(1, 9) * 100_000)),
    "program": lambda r: b"\x7fELF\x02\x01\x01" + r.randbytes(200),
    "other program": lambda r: b"MZ" + r.randbytes(200),
    "tiff": lambda r: b"II*\x00" + r.randbytes(200),
    "heic": lambda r: b"\0\0\0\x18ftypheic" + r.randbytes(200),
    "matroska": lambda r: b"\x1aE\xdf\xa3" + r.randbytes(200),
    "noise": lambda r: b"\x80\x81\x82\x83" + r.randbytes(200),
    "text with zeros": lambda r: b"text\0" + r.randbytes(20).hex().encode(),
}
"""What is never taken, whatever is said of it."""

CLAIMS = (
    "image/png",
    "image/jpeg",
    "image/*",
    "audio/wav",
    "application/pdf",
    "video/mp4",
    "text/plain",
    "x",
    "*/*",
)


def samples(seed: int) -> Iterator[Sample]:
    """Yield samples of all makers: whole, lying, cut, damaged, huge, foreign."""
    r = random.Random(seed)  # noqa: S311 - no secret
    for _ in range(20):
        for maker, make in WHOLE.items():
            content, media_type = make(r)
            yield Sample(f"{maker}, whole", content, media_type, media_type)
            yield Sample(f"{maker}, lying", content, r.choice(CLAIMS), media_type)
            yield from _cut(r, maker, content, media_type)
            if maker == "png":
                yield Sample(
                    "png, damaged", _damaged(r, content), media_type, None, frozenset({BROKEN, TYPE})
                )
        for maker, huge in HUGE.items():
            yield Sample(f"{maker}, huge", huge(r), r.choice(CLAIMS), None, frozenset({LARGE}))
        for maker, foreign in FOREIGN.items():
            for declared in r.sample(CLAIMS, 2):
                yield Sample(maker, foreign(r), declared, None, frozenset({TYPE}))
    yield Sample("many blocks", _many_blocks(), "image/gif", None, frozenset({BROKEN}))
    yield Sample(
        "two headers", b"\x89PNG\r\n\x1a\n" + chunk(b"tEXt", b"x") + png()[8:], "x", None, frozenset({BROKEN})
    )


def _cut(r: random.Random, maker: str, content: bytes, media_type: str) -> Iterator[Sample]:
    """Yield a sample that ends early, after the bytes that say what it was to be."""
    if maker in HAS_AN_END:
        for _ in range(4):
            at = r.randint(min(24, len(content) - 1), len(content) - _LEFT.get(maker, 1))
            yield Sample(f"{maker}, cut", content[:at], media_type, None, frozenset({BROKEN, TYPE}))


_LEFT = {"pdf": 7, "jpeg": 1, "bmp": 1}
"""The bytes at the end without which it is still whole, and one more."""


def _damaged(r: random.Random, content: bytes) -> bytes:
    at = r.randint(16, len(content) - 13)
    return content[:at] + bytes([content[at] ^ 1 << r.randint(0, 7)]) + content[at + 1 :]


def _many_blocks() -> bytes:
    return gif(2, 2)[:-1] + b"\x21\xfe" + b"\x01x" * 300_000
