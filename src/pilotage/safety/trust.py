"""Trust labels: where content comes from and how far it may go, as values that join.

The label of anything made from several pieces is the join of theirs: as little integrity as the least
trusted piece, as much confidentiality as the most secret one, and all their origins.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, as_list, as_string
from pilotage.values import value


class Integrity(StrEnum):
    """Trust in the author of the content, from the most to the least trusted."""

    TRUSTED = "trusted"
    USER = "user"
    UNTRUSTED = "untrusted"


class Confidentiality(StrEnum):
    """Readers of the content, from public to secret."""

    PUBLIC = "public"
    TENANT = "tenant"
    SECRET = "secret"  # noqa: S105 - a level, not a password


_INTEGRITY_ORDER = {level: rank for rank, level in enumerate(Integrity)}
_CONFIDENTIALITY_ORDER = {level: rank for rank, level in enumerate(Confidentiality)}


@value
class TrustLabel:
    """Integrity, confidentiality and origins of content.

    The default is the neutral one: joined with any other label it gives that label.
    """

    integrity: Integrity = Integrity.TRUSTED
    confidentiality: Confidentiality = Confidentiality.PUBLIC
    origins: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for origin in self.origins:
            reject_blank(self, origins=origin)

    @property
    def is_trusted(self) -> bool:
        """Whether only the application itself wrote the content."""
        return self.integrity is Integrity.TRUSTED

    @property
    def is_untrusted(self) -> bool:
        """Whether an untrusted author may have written a part of the content."""
        return self.integrity is Integrity.UNTRUSTED

    @property
    def is_public(self) -> bool:
        """Whether the content is public."""
        return self.confidentiality is Confidentiality.PUBLIC

    @property
    def is_secret(self) -> bool:
        """Whether a part of the content must not leave the application."""
        return self.confidentiality is Confidentiality.SECRET

    def join(self, other: TrustLabel) -> TrustLabel:
        """Return the label of content made from both; this label itself if the other adds nothing."""
        if (
            _INTEGRITY_ORDER[other.integrity] <= _INTEGRITY_ORDER[self.integrity]
            and _CONFIDENTIALITY_ORDER[other.confidentiality] <= _CONFIDENTIALITY_ORDER[self.confidentiality]
            and other.origins <= self.origins
        ):
            return self
        return TrustLabel(
            max(self.integrity, other.integrity, key=_INTEGRITY_ORDER.__getitem__),
            max(self.confidentiality, other.confidentiality, key=_CONFIDENTIALITY_ORDER.__getitem__),
            self.origins | other.origins,
        )

    @classmethod
    def join_all(cls, labels: Iterable[TrustLabel]) -> TrustLabel:
        """Return the label of content made from all of them; without any, the neutral label."""
        joined = cls()
        for label in labels:
            joined = joined.join(label)
        return joined

    def to_payload(self) -> JsonObject:
        """Return the label as JSON, the same text for equal labels."""
        return {
            "integrity": self.integrity.value,
            "confidentiality": self.confidentiality.value,
            "origins": sorted(self.origins),
        }

    @classmethod
    def from_payload(cls, payload: JsonObject) -> TrustLabel:
        """Return the label that `to_payload` wrote.

        Raises:
            AgentDefinitionError: the payload is not one of a label.
        """
        try:
            return cls(
                Integrity(as_string(payload["integrity"])),
                Confidentiality(as_string(payload["confidentiality"])),
                frozenset(map(as_string, as_list(payload["origins"]))),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise AgentDefinitionError(
                f"TrustLabel.from_payload: {dict(payload)!r} is no trust label. "
                "Give it what TrustLabel.to_payload returned."
            ) from error
