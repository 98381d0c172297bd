"""The limits of media in messages: where they come in, and before every model call. Pure."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Sequence
from dataclasses import replace
from hashlib import sha256

from pilotage.agent.messages import MediaPart, ModelMessage, ModelMessageRole
from pilotage.agent.sniffing.facts import BrokenMediaError, MediaFacts, UnknownMediaError
from pilotage.agent.sniffing.sniff import sniff
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError, MediaBrokenError, MediaTooLargeError, MediaTypeRefusedError
from pilotage.values import value

_MEBIBYTE = 1024 * 1024


@value
class MediaSafetyLimits:
    """The limits of media in the messages of one model call, the input of a run included.

    Sizes are those of the decoded data; that of an address is not known. Pixels are those of all frames of a picture
    together, and seconds those of a sound or film. `media_types` are MIME types, `image/*` for all of a kind; None
    allows all. `url_schemes` are those of addresses that the server of a model is given as they are, and fetches by
    itself: none by default. An `IMediaSource` of the application comes first.
    """

    max_parts: int = 16
    max_part_bytes: int = 20 * _MEBIBYTE
    max_total_bytes: int = 50 * _MEBIBYTE
    media_types: frozenset[str] | None = None
    url_schemes: frozenset[str] = frozenset()
    max_pixels: int = 50_000_000
    max_seconds: float = 3600.0

    def __post_init__(self) -> None:
        reject_not_positive(
            self,
            max_parts=self.max_parts,
            max_part_bytes=self.max_part_bytes,
            max_total_bytes=self.max_total_bytes,
            max_pixels=self.max_pixels,
            max_seconds=self.max_seconds,
        )
        if self.media_types is not None:
            object.__setattr__(self, "media_types", media_types_of(self, self.media_types))
        object.__setattr__(self, "url_schemes", frozenset(each.lower() for each in self.url_schemes))

    def check(self, parts: Sequence[MediaPart]) -> None:
        """Check that the parts are within the limits.

        Raises:
            MediaTooLargeError: there are too many of them, or too many bytes.
            MediaTypeRefusedError: one is of a type, or at an address, that is not allowed.
        """
        self.check_sizes(parts)
        for number, part in enumerate(parts, start=1):
            self._check_kind(part, number)

    def check_sizes(self, parts: Sequence[MediaPart]) -> None:
        """Check the number and the bytes of parts.

        Raises:
            MediaTooLargeError: there are too many of them, or too many bytes.
        """
        if len(parts) > self.max_parts:
            raise MediaTooLargeError(f"there are {len(parts)} media parts; {self.max_parts} are allowed.")
        sizes = [size_of(part) for part in parts]
        for number, (part, size) in enumerate(zip(parts, sizes, strict=True), start=1):
            if size > self.max_part_bytes:
                raise MediaTooLargeError(
                    f"media part {number} ({part.media_type!r}) has {size:,} bytes; "
                    f"{self.max_part_bytes:,} are allowed."
                )
        if sum(sizes) > self.max_total_bytes:
            raise MediaTooLargeError(
                f"the media parts have {sum(sizes):,} bytes together; {self.max_total_bytes:,} are allowed."
            )

    def check_facts(self, facts: MediaFacts) -> None:
        """Check what the bytes of media say of themselves.

        Raises:
            MediaTooLargeError: they have too many pixels, or take too long.
        """
        if facts.pixels > self.max_pixels:
            frames = f" in {facts.frames:,} frames" if facts.frames > 1 else ""
            raise MediaTooLargeError(
                f"a {facts.media_type!r} of {facts.width:,} x {facts.height:,} pixels{frames} was given; "
                f"{self.max_pixels:,} pixels are allowed."
            )
        if facts.seconds > self.max_seconds:
            raise MediaTooLargeError(
                f"a {facts.media_type!r} of {facts.seconds:,.0f} seconds was given; {self.max_seconds:,g} are allowed."
            )

    def _check_kind(self, part: MediaPart, number: int) -> None:
        if self.media_types is not None and not is_one_of(part.media_type, self.media_types):
            raise MediaTypeRefusedError(
                f"media part {number} is of type {part.media_type!r}; allowed are {_named(self.media_types)}."
            )
        scheme = part.url.partition(":")[0].strip().lower() if part.url is not None else None
        if scheme is not None and scheme not in self.url_schemes:
            raise MediaTypeRefusedError(
                f"media part {number} is at an address of {scheme!r}; allowed are {_named(self.url_schemes)}. Send the "
                "bytes, or give the application an IMediaSource, which fetches them."
            )


def taken_in(part: MediaPart, content: bytes, limits: MediaSafetyLimits) -> MediaPart:
    """Return a part with the digest of its bytes, and with the type that they are of, whatever was said of them.

    Raises:
        MediaBrokenError: they are not whole.
        MediaTypeRefusedError: they are of a type that cannot be measured here, or of none that is known.
        MediaTooLargeError: they have too many pixels, or take too long.
    """
    try:
        facts = sniff(content, part.media_type)
    except BrokenMediaError as error:
        raise MediaBrokenError(f"what was given as {part.media_type!r} is broken: {error}.") from error
    except UnknownMediaError as error:
        raise MediaTypeRefusedError(
            f"what was given as {part.media_type!r} is {error}, and is not taken. Taken are PNG, JPEG, GIF, WebP and "
            "BMP, WAV, MP3, FLAC, Ogg and MP4, PDF, and text in UTF-8."
        ) from error
    limits.check_facts(facts)
    return by_digest(replace(part, media_type=facts.media_type), content)


def by_digest(part: MediaPart, content: bytes) -> MediaPart:
    """Return a part with the digest of its bytes in place of them."""
    return MediaPart(part.media_type, name=part.name, digest=sha256(content).hexdigest(), size=len(content))


def bytes_of(part: MediaPart) -> bytes:
    """Return the bytes in a part.

    Raises:
        MediaBrokenError: they are no base64.
    """
    try:
        return b64decode(part.data or "", validate=True)
    except ValueError as error:
        raise MediaBrokenError(f"the data of a media part ({part.media_type!r}) are no base64.") from error


def check_taken_by(model: str, taken: frozenset[str] | None, parts: Iterable[MediaPart]) -> None:
    """Check that a model takes media of these types; None are those of a model that does not declare any.

    Raises:
        MediaTypeRefusedError: it does not; the message has the model and the type.
    """
    if taken is None:
        return
    for part in parts:
        if not is_one_of(part.media_type, taken):
            can = f"It takes {_named(taken)}" if taken else "It takes text only"
            raise MediaTypeRefusedError(f"{model!r} does not take media of type {part.media_type!r}. {can}.")


def media_in(messages: Iterable[ModelMessage]) -> list[MediaPart]:
    """Return the media parts that a model is given in messages, in their order.

    An address in an earlier reply is text: no server is asked to fetch what a model wrote.
    """
    found: list[MediaPart] = []
    for message in messages:
        # Most messages are plain text, and every model call looks through the new ones.
        parts = message.content if message.ordered is None else message.ordered
        if type(parts) is not str:
            is_reply = message.role is ModelMessageRole.ASSISTANT
            media = (part for part in parts if isinstance(part, MediaPart))
            found += [part for part in media if not (is_reply and part.url is not None)]
    return found


def media_after(known: Sequence[ModelMessage], messages: Sequence[ModelMessage]) -> list[MediaPart]:
    """Return the media parts of messages; where they continue `known` ones, which have none, only the rest is read.

    A transcript grows, and looking through all of it for every request would take longer with every turn.
    """
    count = len(known)
    # The last one first: messages that were made anew are not compared by value.
    goes_on = 0 < count <= len(messages) and messages[count - 1] is known[-1] and messages[:count] == known
    return media_in(messages[count:] if goes_on else messages)


def is_one_of(media_type: str, types: frozenset[str]) -> bool:
    """Return whether a MIME type is one of the types, by name or by its kind: `image/*`, `*/*`."""
    plain = _plain(media_type)
    return plain in types or f"{plain.partition('/')[0]}/*" in types or "*/*" in types


def media_types_of(owner: object, types: Iterable[str]) -> frozenset[str]:
    """Return MIME types as they are compared: lower case, without parameters.

    Raises:
        AgentDefinitionError: one of them is none.
    """
    found = frozenset(map(_plain, types))
    for each in found:
        kind, slash, name = each.partition("/")
        if not (kind and slash and name):
            raise AgentDefinitionError(
                f"{type(owner).__name__}.media_types has {each!r}. Write MIME types, such as 'image/png' or 'image/*'."
            )
    return found


def size_of(part: MediaPart) -> int:
    """Return the number of bytes of a part; nothing for an address."""
    if part.size is not None:
        return part.size
    data = part.data or ""
    return len(data) * 3 // 4 - data[-2:].count("=")


_OTHER_NAMES = {
    "image/jpg": "image/jpeg",
    "audio/mp3": "audio/mpeg",
    "audio/wave": "audio/wav",
    "audio/x-wav": "audio/wav",
    "audio/x-flac": "audio/flac",
    "audio/m4a": "audio/mp4",
    "audio/x-m4a": "audio/mp4",
}


def _plain(media_type: str) -> str:
    plain = media_type.partition(";")[0].strip().lower()
    return _OTHER_NAMES.get(plain, plain)


def _named(words: frozenset[str]) -> str:
    return ", ".join(map(repr, sorted(words))) or "none"
