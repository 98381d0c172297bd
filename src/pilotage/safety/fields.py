"""Markers for `typing.Annotated` that say which values are sensitive or secret, and the masks of such values.

`Annotated[str, SensitiveField(PII.EMAIL)]` is a value some readers may see, masked or not;
`Annotated[str, SecretField()]` is one that no reader sees. `SensitiveFieldDescriptor` says where in a
JSON value such a field lies. A mask never shows more than half of a value, and a value that cannot be masked by its
policy is hidden entirely. Pure: no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import ClassVar, TypeAlias, assert_never

from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, as_integer, as_list, as_object, as_string, to_bytes
from pilotage.values import value

REDACTED_VALUE = "[REDACTED]"

_KEY_ID = re.compile(r"[A-Za-z0-9._-]+")
_SHORTEST_SECRET = 16
_SHORTEST_FOR_LAST_FOUR = 8
_SHORTEST_FOR_FIRST_LAST = 4
SECRET_VALUE = "[SECRET]"  # noqa: S105 - shown in the place of a secret
ANY_DEPTH = "**"
"""A path segment that stands for any number of levels; recursive types need it."""


class MaskingPolicy(StrEnum):
    """The visible part of a sensitive text."""

    REDACT = "redact"
    LAST_FOUR = "last_four"
    FIRST_LAST = "first_last"
    HASH = "hash"


@value
class MaskingKey:
    """The key of the HASH mask.

    Equal values get equal hashes under one key, so that a reader can join records without seeing the
    value; without the secret the value cannot be found by trying. The id is shown in every hash, so
    that keys can be rotated.
    """

    id: str
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if not _KEY_ID.fullmatch(self.id):
            raise AgentDefinitionError(
                f"MaskingKey.id is {self.id!r}. Use letters, digits, '.', '_' and '-' only, e.g. '2026-11'."
            )
        if len(self.secret) < _SHORTEST_SECRET:
            raise AgentDefinitionError(
                f"MaskingKey.secret has {len(self.secret)} bytes. Use at least {_SHORTEST_SECRET} random "
                "bytes, e.g. secrets.token_bytes(32)."
            )


def mask_text(text: str, policy: MaskingPolicy, *, category: str, key: MaskingKey | None = None) -> str:
    """Return the text masked under a policy; HASH without a key hides everything."""
    match policy:
        case MaskingPolicy.REDACT:
            return REDACTED_VALUE
        case MaskingPolicy.LAST_FOUR:
            return f"***{text[-4:]}" if len(text) >= _SHORTEST_FOR_LAST_FOUR else REDACTED_VALUE
        case MaskingPolicy.FIRST_LAST:
            return f"{text[0]}***{text[-1]}" if len(text) >= _SHORTEST_FOR_FIRST_LAST else REDACTED_VALUE
        case MaskingPolicy.HASH:
            return REDACTED_VALUE if key is None else _hashed(text, category, key)
        case _:
            assert_never(policy)


def _hashed(text: str, category: str, key: MaskingKey) -> str:
    import hmac  # noqa: PLC0415 - loading OpenSSL costs more than importing this package

    digest = hmac.new(key.secret, to_bytes(text), "sha256").hexdigest()
    return f"[HASHED:{category}:{key.id}:{digest[:12]}]"


class DataSensitivity(StrEnum):
    """Confidentiality of a value."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    PII = "pii"
    SECRET = "secret"  # noqa: S105 - a level, not a password


class PII(StrEnum):
    """Kinds of personal data."""

    NAME = "name"
    EMAIL = "email"
    PHONE = "phone"
    ADDRESS = "address"
    ACCOUNT_ID = "account_id"
    IDENTIFIER = "identifier"
    LOCATION = "location"


class RedactionPolicy(StrEnum):
    """Treatment of a value that may not be shown: masked, or dropped; a reference is masked."""

    REDACT = "redact"
    DROP = "drop"
    REFERENCE_ONLY = "reference_only"


_PII_BY_NAME = {category.value: category for category in PII}


@value
class CredentialRef:
    """Reference to a credential, without its value."""

    id: str
    provider: str | None = None

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, provider=self.provider)


@value
class SecretRef:
    """Reference to a secret, without its value."""

    id: str
    credential: CredentialRef | None = None

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id)


@value
class SensitiveField:
    """Marker of a value that is shown only where a policy allows it, and masked elsewhere."""

    category: PII | DataSensitivity
    masking: MaskingPolicy = MaskingPolicy.REDACT
    redaction: RedactionPolicy = RedactionPolicy.REDACT
    label: str | None = None
    # Unions hash what `Annotated` carries; a dict has no hash.
    metadata: JsonObject = field(default_factory=dict[str, JsonValue], hash=False)

    placeholder: ClassVar[str] = REDACTED_VALUE

    def __post_init__(self) -> None:
        reject_blank(self, label=self.label)

    @property
    def sensitivity(self) -> DataSensitivity:
        return DataSensitivity.PII if isinstance(self.category, PII) else self.category

    @property
    def category_name(self) -> str:
        return self.category.value

    def guard_text(self, text: str, key: MaskingKey | None = None) -> str:
        """Return the mask of a text; the key is the one of the exposure policy."""
        return mask_text(text, self.masking, category=self.category_name, key=key)

    def to_metadata(self) -> JsonObject:
        """Return the marker as JSON, without any value it protects."""
        return {
            "kind": "sensitive",
            "category": self.category_name,
            "sensitivity": self.sensitivity.value,
            "masking": self.masking.value,
            "redaction": self.redaction.value,
            **_optional(self.label, self.metadata),
        }


@value
class SecretField:
    """Marker of a value that is never shown to a model or a person, nor recorded."""

    redaction: RedactionPolicy = RedactionPolicy.REFERENCE_ONLY
    label: str | None = None
    metadata: JsonObject = field(default_factory=dict[str, JsonValue], hash=False)

    placeholder: ClassVar[str] = SECRET_VALUE

    def __post_init__(self) -> None:
        reject_blank(self, label=self.label)

    @property
    def sensitivity(self) -> DataSensitivity:
        return DataSensitivity.SECRET

    def guard_text(self, text: str, key: MaskingKey | None = None) -> str:
        """Return the placeholder: nothing of a secret is shown, not even its hash."""
        del text, key
        return SECRET_VALUE

    def to_metadata(self) -> JsonObject:
        """Return the marker as JSON, without any value it protects."""
        return {
            "kind": "secret",
            "sensitivity": self.sensitivity.value,
            "redaction": self.redaction.value,
            **_optional(self.label, self.metadata),
        }


SensitiveMarker: TypeAlias = SensitiveField | SecretField


@value
class SensitiveFieldDescriptor:
    """Place of a sensitive field in a JSON value.

    The path holds the names of fields; lists, tuples and unions add no segment, and neither do mappings.
    `each_value_at` says where mappings with arbitrary keys are entered: the number `i` means that just
    before segment `i` (at the end, if `i` is the length of the path) every value of the mapping is meant.
    """

    path: tuple[str, ...]
    field: SensitiveMarker
    each_value_at: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if any(not 0 <= position <= len(self.path) for position in self.each_value_at):
            raise AgentDefinitionError(
                f"SensitiveFieldDescriptor.each_value_at is {self.each_value_at!r}, but the path has only "
                f"the positions 0 to {len(self.path)}. Use positions in the path."
            )

    def to_metadata(self) -> JsonObject:
        """Return the descriptor as JSON."""
        metadata: dict[str, JsonValue] = {"path": list(self.path), "field": self.field.to_metadata()}
        if self.each_value_at:
            metadata["each_value_at"] = list(self.each_value_at)
        return metadata

    @classmethod
    def from_metadata(cls, metadata: JsonObject) -> SensitiveFieldDescriptor:
        """Return the descriptor that `to_metadata` wrote."""
        return cls(
            path=tuple(map(as_string, as_list(metadata["path"]))),
            field=marker_from_metadata(as_object(metadata["field"])),
            each_value_at=tuple(map(as_integer, as_list(metadata.get("each_value_at", ())))),
        )


def marker_from_metadata(metadata: JsonObject) -> SensitiveMarker:
    """Return the marker that `to_metadata` wrote."""
    redaction = RedactionPolicy(as_string(metadata["redaction"]))
    label = None if metadata.get("label") is None else as_string(metadata["label"])
    extra = dict(as_object(metadata.get("metadata", {})))
    match metadata["kind"]:
        case "secret":
            return SecretField(redaction, label, extra)
        case "sensitive":
            category = _category(as_string(metadata["category"]))
            masking = MaskingPolicy(as_string(metadata["masking"]))
            return SensitiveField(category, masking, redaction, label, extra)
        case unknown:
            raise AgentDefinitionError(
                f"The kind of a sensitive field is {unknown!r}. Use 'sensitive' or 'secret'."
            )


def _category(name: str) -> PII | DataSensitivity:
    # No value is in both enums, so the name alone decides.
    return _PII_BY_NAME.get(name) or DataSensitivity(name)


def _optional(label: str | None, metadata: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    given: dict[str, JsonValue] = {}
    if label is not None:
        given["label"] = label
    if metadata:
        given["metadata"] = metadata
    return given
