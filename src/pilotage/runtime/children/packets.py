"""Delegation packets in the runs of children: what of a packet is input, context, and the shape of the answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pilotage.agent.context import ContextPack, ContextPackRole
from pilotage.agent.delegation import DelegationPacket
from pilotage.agent.model_request import JsonSchemaConstraint, StructuredOutputSpec
from pilotage.agent.run_values import AgentContext
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, canonical_json, text_digest, to_json_value
from pilotage.runtime.exposure.given_context import TRUST, encode_context
from pilotage.safety.trust import TrustLabel


def described(packet: DelegationPacket) -> JsonObject:
    """Return the fields of a packet about its task: context, constraints, expected output."""
    found: dict[str, JsonValue] = {}
    if packet.context.summary is not None:
        found["context"] = packet.context.summary
    if packet.constraints:
        found["constraints"] = list(packet.constraints)
    if packet.expected_output.description is not None:
        found["expected_output"] = packet.expected_output.description
    return found


def referred_to(packet: DelegationPacket) -> JsonObject:
    """Return what a packet refers to: evidence, manifest, schema of the expected output."""
    found: dict[str, JsonValue] = {}
    if packet.context.evidence_refs:
        found["evidence_refs"] = list(packet.context.evidence_refs)
    if packet.context.manifest_ref is not None:
        found["manifest_ref"] = packet.context.manifest_ref
    if packet.expected_output.schema:
        found["expected_schema"] = packet.expected_output.schema
    return found


def output_of(packet: DelegationPacket | None) -> StructuredOutputSpec | None:
    """Return the shape of the answer that a packet wants; None where it wants none."""
    if packet is None or not packet.expected_output.schema:
        return None
    return StructuredOutputSpec(JsonSchemaConstraint(packet.expected_output.schema))


def recorded_packet(packet: DelegationPacket, sent: DelegationPacket) -> JsonObject:
    """Return the record of a packet as it was sent to the child, without the task, with a digest of the original."""
    metadata = {**sent.metadata, DIGEST: digest_of(packet)}
    return _without_empty(as_object(to_json_value(replace(sent, task={}, metadata=metadata))))


def _without_empty(record: JsonObject) -> JsonObject:
    """Return a record without the fields that have nothing in them."""
    filled = {
        name: _without_empty(found) if isinstance(found, Mapping) else found for name, found in record.items()
    }
    return {name: found for name, found in filled.items() if found is not None and found not in ({}, [])}


DIGEST = "packet_digest"
"""The key in the metadata of a recorded packet: a digest of the packet as its parent made it."""


def digest_of(packet: DelegationPacket) -> str:
    """Return the digest of a packet as its parent made it."""
    return text_digest(canonical_json(to_json_value(packet)))[:32]


def context_of(packet: DelegationPacket, shown: JsonObject, trust: TrustLabel) -> JsonObject:
    """Return the record of the context that a packet gives to its child; empty where there is nothing to show."""
    if not shown:
        return {}
    pack = ContextPack(
        f"delegation:{packet.id}",
        canonical_json(shown),
        f"delegation {packet.id}",
        ContextPackRole.DELEGATION,
        metadata={TRUST: trust.to_payload()},
    )
    return encode_context(AgentContext([pack]))
