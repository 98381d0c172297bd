"""The tasks, ids and delegation packets of child runs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from urllib.parse import quote

from pilotage.agent.context import ContextPack, ContextPackRole
from pilotage.agent.delegation import DelegationBudget, DelegationPacket
from pilotage.agent.model_request import JsonSchemaConstraint, ModelToolSpec, StructuredOutputSpec
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.run_values import AgentContext, RunResult
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, canonical_json, text_digest, to_json_value
from pilotage.runtime.exposure.trust import TRUST, encode_context
from pilotage.safety.trust import TrustLabel
from pilotage.values import value

_PACKET = "packet:"


@value
class ChildBounds:
    """The limits of a child run, within those of its parent."""

    budget: DelegationBudget = field(default_factory=DelegationBudget)
    capabilities: tuple[str, ...] | None = None

    def within(self, parents: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the tools the child may use: those it is given, among those its parent may use itself."""
        if self.capabilities is None or parents is None:
            return parents if self.capabilities is None else self.capabilities
        return tuple(each for each in self.capabilities if each in parents)


NO_BOUNDS = ChildBounds()


@value
class ChildTask:
    """The task of a child run: the agent, its input, its bounds, and the packet it came in, if any.

    `exits` are the control calls that end it, `branch` is the step of its parent. A worker of a loop (`is_worker`) is a
    part of its work: what a person rejects in it is rejected for the loop.
    """

    agent: AgentRef
    task: JsonValue
    bounds: ChildBounds = NO_BOUNDS
    packet: DelegationPacket | None = None
    exits: tuple[ModelToolSpec, ...] = ()
    branch: str | None = None
    is_worker: bool = False


@value
class ChildEnded:
    """A child run that ended before its parent was resumed, with its spending."""

    result: RunResult
    spent: BudgetAmount
    trust: TrustLabel = TrustLabel()


def child_id(parent_id: str, action_id: str) -> str:
    """Return the id of the child run of an action; a packet has the same child wherever it is delegated."""
    label = action_id.rpartition("/")[2].rpartition("#")[0]
    step = label if label.startswith(_PACKET) else action_id
    return text_digest(f"child\n{parent_id}\n{step}")[:32]


def packet_label(packet_id: str) -> str:
    """Return the label of the actions that delegate a packet."""
    return _PACKET + quote(packet_id, safe="")


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
