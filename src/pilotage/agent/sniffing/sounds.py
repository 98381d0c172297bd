"""Headers of sounds and films: how long they take. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack

from pilotage.agent.sniffing.facts import BrokenMediaError, MediaFacts, UnknownMediaError, piece, steps
from pilotage.agent.sniffing.images import riff_chunks


def wav(content: bytes) -> MediaFacts:
    """Return the facts of a WAV."""
    rate = 0
    for name, body in riff_chunks(content):
        if name == b"fmt ":
            (rate,) = unpack("<I", piece(body, 8, 4, "its format"))
        elif name == b"data":
            if not rate:
                raise BrokenMediaError("its data come without a rate")
            return MediaFacts("audio/wav", seconds=len(body) / rate)
    raise BrokenMediaError("it has no data")


def flac(content: bytes) -> MediaFacts:
    """Return the facts of a FLAC."""
    kind, *size = piece(content, 4, 4, "its first block")
    if kind & 0x7F or int.from_bytes(bytes(size), "big") != 34:
        raise BrokenMediaError("it does not begin with its header")
    packed = int.from_bytes(piece(content, 18, 8, "its header"), "big")
    piece(content, 26, 16, "its header")
    rate, samples = packed >> 44, packed & (1 << 36) - 1
    if not (rate and samples):
        raise BrokenMediaError("it does not say how long it is")
    return MediaFacts("audio/flac", seconds=samples / rate)


def ogg(content: bytes) -> MediaFacts:
    """Return the facts of Opus or Vorbis in Ogg; the last page says how long it is."""
    at = rate = samples = 0
    has_ended = False
    for step in steps():
        if at == len(content):
            break
        header = piece(content, at, 27, "a page")
        if header[:4] != b"OggS":
            raise BrokenMediaError("there is no page where one belongs")
        lengths = piece(content, at + 27, header[26], "a page")
        body = piece(content, at + 27 + header[26], sum(lengths), "a page")
        if step == 0:
            rate = _rate_of(body)
        (granule,) = unpack("<q", header[6:14])
        samples, has_ended = max(samples, granule), has_ended or bool(header[5] & 4)
        at += 27 + header[26] + len(body)
    if not has_ended:
        raise BrokenMediaError("its last page is missing")
    return MediaFacts("audio/ogg", seconds=samples / rate)


def _rate_of(body: bytes) -> int:
    if body.startswith(b"OpusHead"):
        return 48_000
    if body.startswith(b"\x01vorbis"):
        (rate,) = unpack("<I", piece(body, 12, 4, "its header"))
        if rate:
            return int(rate)
    raise UnknownMediaError("Ogg with something other than Opus or Vorbis")


_RATES = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
_KILOBITS = {
    (3, 3): (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (3, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (3, 1): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (2, 3): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (2, 1): (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""The bit rates of MPEG audio by version (1, or 2 and 2.5) and layer, from index 1 on."""


def mp3(content: bytes) -> MediaFacts:
    """Return the facts of MPEG audio: its frames, added up."""
    at, seconds, frames = _after_tag(content), 0.0, 0
    for _ in steps():
        header = content[at : at + 4]
        if len(header) < 4 or header[:3] in (b"TAG", b"APE"):
            break
        found = _frame(header)
        if found is None:
            if frames < 2:
                raise BrokenMediaError("there is no frame where one belongs")
            break
        length, duration = found
        at, seconds, frames = at + length, seconds + duration, frames + 1
    if frames < 2:
        raise BrokenMediaError("it has less than two frames")
    return MediaFacts("audio/mpeg", seconds=seconds)


def is_mp3(content: bytes) -> bool:
    """Return whether bytes begin with a tag, or with two frames in a row."""
    if content.startswith(b"ID3"):
        return True
    found = _frame(content[:4])
    return found is not None and _frame(content[found[0] : found[0] + 4]) is not None


def _after_tag(content: bytes) -> int:
    if not content.startswith(b"ID3"):
        return 0
    size = 0
    for each in piece(content, 6, 4, "its tag"):
        size = size << 7 | each & 0x7F
    return 10 + size


def _frame(header: bytes) -> tuple[int, float] | None:
    """Return the length of a frame in bytes and seconds; None where there is no frame."""
    if len(header) < 4 or header[0] != 0xFF or header[1] & 0xE0 != 0xE0:
        return None
    version, layer = header[1] >> 3 & 3, header[1] >> 1 & 3
    rate_at, bits_at, padding = header[2] >> 2 & 3, header[2] >> 4, header[2] >> 1 & 1
    if version == 1 or layer == 0 or rate_at == 3 or bits_at in (0, 15):
        return None
    generation = 3 if version == 3 else 2
    kilobits = _KILOBITS[generation, 1 if generation == 2 and layer == 2 else layer][bits_at - 1]
    rate = _RATES[version][rate_at]
    if layer == 3:
        return (12_000 * kilobits // rate + padding) * 4, 384 / rate
    samples = 576 if layer == 1 and generation == 2 else 1152
    return samples * 125 * kilobits // rate + padding, samples / rate


_PICTURES = frozenset({b"heic", b"heix", b"mif1", b"msf1", b"avif", b"avis", b"hevc"})


def mp4(content: bytes) -> MediaFacts:
    """Return the facts of an MP4: sound alone, or a film."""
    brand = piece(content, 8, 4, "its header")
    if brand in _PICTURES:
        raise UnknownMediaError("a picture in HEIF or AVIF")
    # All of them: the data may follow the header, and must be there.
    boxes = list(_boxes(content))
    found = [_film(body) for name, body in boxes if name == b"moov"]
    if len(found) != 1 or not any(name == b"mdat" for name, _ in boxes):
        raise BrokenMediaError("it does not have one header, and data")
    return found[0]


def _film(movie: bytes) -> MediaFacts:
    seconds, width, height = 0.0, 0, 0
    for name, body in _boxes(movie):
        if name == b"mvhd":
            seconds = _duration(body)
        elif name == b"trak":
            for inner, header in _boxes(body):
                if inner == b"tkhd" and len(header) >= 8:
                    wide, high = unpack(">II", header[-8:])
                    width, height = max(width, wide >> 16), max(height, high >> 16)
    if not seconds:
        raise BrokenMediaError("it does not say how long it is")
    return MediaFacts("video/mp4" if width else "audio/mp4", width, height, seconds=seconds)


def _duration(body: bytes) -> float:
    if piece(body, 0, 1, "its length") == b"\x01":
        scale, duration = unpack(">IQ", piece(body, 20, 12, "its length"))
    else:
        scale, duration = unpack(">II", piece(body, 12, 8, "its length"))
    return float(duration / scale) if scale else 0.0


def _boxes(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    for _ in steps():
        if at == len(content):
            break
        size, name = unpack(">I4s", piece(content, at, 8, "a box"))
        begin = 8
        if size == 1:
            (size,), begin = unpack(">Q", piece(content, at + 8, 8, "a box")), 16
        elif size == 0:
            size = len(content) - at
        if size < begin:
            raise BrokenMediaError("a box is smaller than its header")
        yield name, piece(content, at + begin, size - begin, "a box")
        at += size
