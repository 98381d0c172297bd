"""Context besides the conversation: packs, their manifest, their digest, health signals.

Pure: values and one rendering. A pack is material, never a user's words; `render_context_pack` frames it so that its
content cannot pass for anything else. A health signal names a symptom; an optimisation action answers signals; both
can be recorded as evidence before and after the action.
"""

from __future__ import annotations

import json
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from pilotage.checks import (
    reject_blank,
    reject_naive,
    reject_negative,
    reject_not_positive,
    reject_outside_unit,
)
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, empty_object, to_json_value
from pilotage.safety.fields import REDACTED_VALUE, SensitiveFieldDescriptor
from pilotage.safety.guard import ContextExposurePolicy, guard_json_value
from pilotage.values import shared, value


class ContextPackRole(StrEnum):
    """The role of a pack in the model's context."""

    SYSTEM = "system"
    INSTRUCTION = "instruction"
    TASK = "task"
    STATE = "state"
    EVIDENCE = "evidence"
    TOOL_RESULT = "tool_result"
    DELEGATION = "delegation"
    MEMORY = "memory"


class ContextFreshness(StrEnum):
    """The freshness of a pack, as far as its source knows."""

    CURRENT = "current"
    RECENT = "recent"
    STALE = "stale"
    UNKNOWN = "unknown"


class ContextSensitivity(StrEnum):
    """The sensitivity of a pack; only REDACTED hides its content."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    SENSITIVE = "sensitive"
    REDACTED = "redacted"


@value
class ContextTokenBudget:
    """The tokens of a pack: its limit, its estimate, and the reserve for the answer."""

    max_tokens: int | None = None
    estimated_tokens: int | None = None
    reserved_output_tokens: int | None = None

    def __post_init__(self) -> None:
        reject_not_positive(self, max_tokens=self.max_tokens)
        reject_negative(
            self, estimated_tokens=self.estimated_tokens, reserved_output_tokens=self.reserved_output_tokens
        )

    def to_payload(self) -> JsonObject:
        """Return the budget as JSON."""
        return {
            "max_tokens": self.max_tokens,
            "estimated_tokens": self.estimated_tokens,
            "reserved_output_tokens": self.reserved_output_tokens,
        }


@value
class ContextPack:
    """One piece of material for the model, with where it came from and how it may be shown.

    `relevance` goes from 0 (none) to 1. A pack is untrusted: strangers may have written its content, unless
    `reads_untrusted=False` declares that none can.
    """

    id: str
    content: str
    source: str
    role: ContextPackRole
    freshness: ContextFreshness = ContextFreshness.UNKNOWN
    relevance: float | None = None
    token_budget: ContextTokenBudget = field(default_factory=shared(ContextTokenBudget))
    sensitivity: ContextSensitivity = ContextSensitivity.INTERNAL
    sensitive_fields: tuple[SensitiveFieldDescriptor, ...] = ()
    metadata: JsonObject = field(default_factory=empty_object)
    reads_untrusted: bool = True

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, source=self.source)
        reject_outside_unit(self, relevance=self.relevance)

    def guarded_content(self, policy: ContextExposurePolicy | None = None) -> str:
        """Return the content as the policy allows it to be seen.

        The content is text, so a descriptor can only mean all of it: what may not be shown is masked whole.
        """
        if self.sensitivity is ContextSensitivity.REDACTED:
            return REDACTED_VALUE
        guarded = guard_json_value(self.content, self.sensitive_fields, policy or ContextExposurePolicy())
        return guarded if isinstance(guarded, str) else REDACTED_VALUE

    def message_metadata(self, policy: ContextExposurePolicy | None = None) -> JsonObject:
        """Return where the content came from, for the metadata of the message that carries it."""
        metadata: dict[str, JsonValue] = {
            "context_pack_id": self.id,
            "source": self.source,
            "role": self.role.value,
            "freshness": self.freshness.value,
            "relevance": self.relevance,
            "token_budget": self.token_budget.to_payload(),
            "sensitivity": self.sensitivity.value,
            "metadata": self.metadata,
        }
        shows_fields = policy is not None and policy.include_sensitive_context_metadata
        if shows_fields and self.sensitive_fields:
            metadata["sensitive_fields"] = tuple(each.to_metadata() for each in self.sensitive_fields)
        return metadata


def render_context_pack(pack: ContextPack, policy: ContextExposurePolicy | None = None) -> str:
    """Return the guarded content in a frame that says where it came from and that the content cannot forge.

    Every line of the content begins with `| `; only the first and the last line do not, and the values in
    the first are quoted and stay on it. A content that spells the closing line is therefore still content.

        <context id="note-1" source="crm" role="memory" freshness="stale">
        | Ada prefers tea.
        </context>
    """
    provenance = {
        "id": pack.id,
        "source": pack.source,
        "role": pack.role.value,
        "freshness": pack.freshness.value,
    }
    opening = " ".join(f"{name}={_quoted(value)}" for name, value in provenance.items())
    body = "".join(f"| {line}" for line in _lines(pack.guarded_content(policy)))
    return f"<context {opening}>\n{body}\n</context>"


def _lines(text: str) -> list[str]:
    # splitlines knows every character that a reader may take for a line break, not only the newline, but
    # it is silent about the empty line after a final break; the sentinel makes that line appear.
    *lines, last = f"{text}.".splitlines(keepends=True)
    return [*lines, last[:-1]]


def _quoted(value: str) -> str:
    # A value that is not printable may hold a line break; escaped, it cannot leave its line.
    return json.dumps(value, ensure_ascii=not value.isprintable())


VOLATILE = "volatile"
"""Key of an entry's metadata: whether the pack is fetched anew for each request."""


@value
class ContextManifestEntry:
    """One line of a manifest: which pack was there and what it goes back to."""

    pack_id: str
    source: str
    role: ContextPackRole
    origin_ref: str
    evidence_ref: str | None = None
    digest_ref: str | None = None
    sensitive_fields: tuple[SensitiveFieldDescriptor, ...] = ()
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, pack_id=self.pack_id, source=self.source, origin_ref=self.origin_ref)
        reject_blank(self, evidence_ref=self.evidence_ref, digest_ref=self.digest_ref)


@value
class ContextManifest:
    """The list of the packs that a model was shown, without their content."""

    id: str
    entries: tuple[ContextManifestEntry, ...]
    origin_ref: str | None = None
    evidence_refs: tuple[str, ...] = ()
    created_at: datetime | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, origin_ref=self.origin_ref)
        reject_naive(self, created_at=self.created_at)

    @property
    def volatile_packs(self) -> frozenset[str]:
        """The packs that are fetched anew for each request, so that no cached prefix may reach beyond them."""
        return frozenset(each.pack_id for each in self.entries if each.metadata.get(VOLATILE) is True)


@value
class ContextDigest:
    """The condensed form of a longer context, and its sources."""

    id: str
    context_identity: str
    source_manifest_ref: str
    digest: str
    derived_from_pack_ids: tuple[str, ...] = ()
    compression_evidence_ref: str | None = None
    algorithm: str | None = None
    summary: str | None = None
    created_at: datetime | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, context_identity=self.context_identity)
        reject_blank(self, source_manifest_ref=self.source_manifest_ref, digest=self.digest)
        reject_blank(self, compression_evidence_ref=self.compression_evidence_ref, algorithm=self.algorithm)
        reject_naive(self, created_at=self.created_at)


class ContextRotSymptom(StrEnum):
    """The ways in which a context goes bad; the set is closed."""

    STALE = "stale"
    CONTRADICTORY = "contradictory"
    LOW_RELEVANCE = "low_relevance"
    OVER_BUDGET = "over_budget"
    POLLUTED = "polluted"


class ContextOptimizationActionKind(StrEnum):
    """The kinds of actions against a symptom; the set is closed."""

    COMPRESSION = "compression"
    RETRIEVAL_REFRESH = "retrieval_refresh"
    DELEGATION = "delegation"
    CONTEXT_SLICE_DROP = "context_slice_drop"


class ContextOptimizationEvidenceStage(StrEnum):
    """Whether a record was made before or after the action."""

    BEFORE = "before"
    AFTER = "after"


@value
class ContextHealthSignal:
    """One symptom, where it was seen and how strong it is: `score` goes from 0 to 1."""

    id: str
    symptom: ContextRotSymptom
    manifest_ref: str | None = None
    pack_id: str | None = None
    evidence_ref: str | None = None
    score: float | None = None
    observed_at: datetime | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, manifest_ref=self.manifest_ref, pack_id=self.pack_id)
        reject_blank(self, evidence_ref=self.evidence_ref)
        reject_outside_unit(self, score=self.score)
        reject_naive(self, observed_at=self.observed_at)

    def evidence_payload(self) -> JsonObject:
        """Return the signal as JSON, every key present."""
        return as_object(to_json_value(self))


@value
class ContextOptimizationAction:
    """One thing done to a context, the signals it answers and the packs it touches."""

    id: str
    kind: ContextOptimizationActionKind
    signal_refs: tuple[str, ...] = ()
    target_pack_ids: tuple[str, ...] = ()
    manifest_ref: str | None = None
    digest_ref: str | None = None
    delegation_ref: str | None = None
    result_evidence_ref: str | None = None
    reason: str | None = None
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, id=self.id, manifest_ref=self.manifest_ref, digest_ref=self.digest_ref)
        reject_blank(self, delegation_ref=self.delegation_ref, result_evidence_ref=self.result_evidence_ref)
        reject_blank(self, reason=self.reason)

    def evidence_payload(self) -> JsonObject:
        """Return the action as JSON, every key present."""
        refs: JsonObject = {
            "signal_refs": tuple(self.signal_refs),
            "target_pack_ids": tuple(self.target_pack_ids),
        }
        return {**as_object(to_json_value(self)), **refs}
