"""The limits of media in messages: at the start of a run, and before every model call. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pilotage.agent.messages import MediaPart, ModelMessage
from pilotage.checks import reject_not_positive
from pilotage.errors import AgentDefinitionError, MediaTooLargeError, MediaTypeRefusedError
from pilotage.values import value

_MEBIBYTE = 1024 * 1024


@value
class MediaSafetyLimits:
    """The limits of media in the messages of one model call, the input of a run included.

    Sizes are those of the decoded data; that of an address is not known. `media_types` are MIME
    types, `image/*` for all of a kind; None allows all. `url_schemes` are those of addresses that a model may be given:
    no `data:`, which has no size, and no `file:`, which names files of the model's server.
    """

    max_parts: int = 16
    max_part_bytes: int = 20 * _MEBIBYTE
    max_total_bytes: int = 50 * _MEBIBYTE
    media_types: frozenset[str] | None = None
    url_schemes: frozenset[str] = frozenset({"http", "https"})

    def __post_init__(self) -> None:
        reject_not_positive(
            self,
            max_parts=self.max_parts,
            max_part_bytes=self.max_part_bytes,
            max_total_bytes=self.max_total_bytes,
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
        if len(parts) > self.max_parts:
            raise MediaTooLargeError(f"there are {len(parts)} media parts; {self.max_parts} are allowed.")
        sizes = [size_of(part) for part in parts]
        for number, (part, size) in enumerate(zip(parts, sizes, strict=True), start=1):
            if size > self.max_part_bytes:
                raise MediaTooLargeError(
                    f"media part {number} ({part.media_type!r}) has {size:,} bytes; "
                    f"{self.max_part_bytes:,} are allowed."
                )
            self._check_kind(part, number)
        if sum(sizes) > self.max_total_bytes:
            raise MediaTooLargeError(
                f"the media parts have {sum(sizes):,} bytes together; {self.max_total_bytes:,} are allowed."
            )

    def _check_kind(self, part: MediaPart, number: int) -> None:
        if self.media_types is not None and not is_one_of(part.media_type, self.media_types):
            raise MediaTypeRefusedError(
                f"media part {number} is of type {part.media_type!r}; allowed are {_named(self.media_types)}."
            )
        scheme = part.url.partition(":")[0].strip().lower() if part.url is not None else None
        if scheme is not None and scheme not in self.url_schemes:
            raise MediaTypeRefusedError(
                f"media part {number} is at an address of {scheme!r}; allowed are {_named(self.url_schemes)}."
            )


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
    """Return the media parts of messages, in their order."""
    found: list[MediaPart] = []
    for message in messages:
        # Most messages are plain text, and every model call looks through the new ones.
        if type(content := message.content) is not str:
            found += [part for part in content if isinstance(part, MediaPart)]
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
    """Return the bytes of the data of a part, which is in base64; nothing for an address."""
    data = part.data or ""
    return len(data) * 3 // 4 - data[-2:].count("=")


def _plain(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _named(words: frozenset[str]) -> str:
    return ", ".join(map(repr, sorted(words))) or "none"
