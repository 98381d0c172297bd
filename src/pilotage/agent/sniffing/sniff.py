"""What media are, by their bytes and not by what is said of them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

from pilotage.agent.sniffing.facts import BrokenMediaError, MediaFacts, UnknownMediaError
from pilotage.agent.sniffing.images import bmp, gif, jpeg, png, webp
from pilotage.agent.sniffing.sounds import flac, is_mp3, mp3, mp4, ogg, wav

_Reader = Callable[[bytes], MediaFacts]

_UNMEASURED: tuple[tuple[bytes, str], ...] = (
    (b"PK\x03\x04", "an archive (ZIP, or an office document in one)"),
    (b"PK\x05\x06", "an archive (ZIP)"),
    (b"\x1f\x8b", "an archive (gzip)"),
    (b"BZh", "an archive (bzip2)"),
    (b"\xfd7zXZ\x00", "an archive (xz)"),
    (b"7z\xbc\xaf\x27\x1c", "an archive (7z)"),
    (b"Rar!", "an archive (RAR)"),
    (b"\x28\xb5\x2f\xfd", "an archive (Zstandard)"),
    (b"\x7fELF", "a program"),
    (b"MZ", "a program"),
    (b"\xcf\xfa\xed\xfe", "a program"),
    (b"II*\x00", "a TIFF"),
    (b"MM\x00*", "a TIFF"),
    (b"\x00\x00\x01\x00", "an icon"),
    (b"\x1aE\xdf\xa3", "a film in Matroska or WebM"),
    (b"\xd0\xcf\x11\xe0", "an office document of an old kind"),
)


def sniff(content: bytes, declared: str) -> MediaFacts:
    """Return the facts of media by their bytes; of texts, which say nothing of themselves, the declared kind of text.

    Raises:
        BrokenMediaError: they begin as media of a type, and are not whole.
        UnknownMediaError: they are of a type that cannot be measured here, or of none that is known.
    """
    if not content:
        raise BrokenMediaError("it is empty")
    if (read := _reader_of(content)) is not None:
        return read(content)
    for beginning, name in _UNMEASURED:
        if content.startswith(beginning):
            raise UnknownMediaError(name)
    return _text(content, declared)


def _reader_of(content: bytes) -> _Reader | None:
    for beginning, read in _BEGINNINGS:
        if content.startswith(beginning):
            return read
    if content[:4] == b"RIFF":
        return {b"WEBP": webp, b"WAVE": wav}.get(content[8:12])
    if content[4:8] == b"ftyp":
        return mp4
    if content[:2] == b"BM" and content[6:10] == bytes(4):
        return bmp
    return mp3 if is_mp3(content) else None


def _pdf(content: bytes) -> MediaFacts:
    if b"%%EOF" not in content[-2048:]:
        raise BrokenMediaError("its end is missing")
    return MediaFacts("application/pdf")


_BEGINNINGS: tuple[tuple[bytes, _Reader], ...] = (
    (b"\x89PNG\r\n\x1a\n", png),
    (b"\xff\xd8\xff", jpeg),
    (b"GIF87a", gif),
    (b"GIF89a", gif),
    (b"fLaC", flac),
    (b"OggS", ogg),
    (b"%PDF-", _pdf),
)

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]")
_SVG = re.compile(r"<(?:[\w.-]+:)?svg[\s/>]", re.IGNORECASE)
_HTML = re.compile(r"<(?:!doctype\s+html|html|head|body|script|iframe)[\s/>]", re.IGNORECASE)
_AS_DECLARED = frozenset({"application/json", "application/x-ndjson", "application/yaml", "application/toml"})


def _text(content: bytes, declared: str) -> MediaFacts:
    try:
        text = content.decode()
    except UnicodeDecodeError:
        raise UnknownMediaError("of no type that is known here") from None
    if _CONTROLS.search(text):
        raise UnknownMediaError("of no type that is known here")
    if text.lstrip("\ufeff \t\r\n").startswith("<"):
        if _SVG.search(text):
            raise UnknownMediaError("an SVG, which is a program and no picture")
        if _HTML.search(text):
            return MediaFacts("text/html")
    kind = declared.partition(";")[0].strip().lower()
    is_declared = kind in _AS_DECLARED or (kind.startswith("text/") and kind not in ("text/html", "text/*"))
    return MediaFacts(kind if is_declared else "text/plain")
