"""Trust labels of runs, of recalled memory, and of the context and history that a caller gives to a run. Pure.

Models see guarded content only, so only guarded content is recorded: what a pack hides is in no row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import cast

from pilotage.agent.compaction import is_summary, trust_of_summaries
from pilotage.agent.context import ContextPack, ContextPackRole, ContextSensitivity
from pilotage.agent.messages import ModelMessage, ModelMessageRole
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.ports.memory import MemoryItem
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_values import AgentContext
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, as_object, list_or_empty, to_json_value
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

RUN_INPUT = TrustLabel(Integrity.USER, Confidentiality.TENANT, frozenset({"run input"}))
"""The label a run starts with: the user's words are private to the tenant.

Tools may look things up with them, until untrusted content could decide what leaves.
"""

RECALL = "step:memory.recall"
"""The label in the step ids of actions that recall memory."""

_OUTCOMES = frozenset({JournalStage.AFTER, JournalStage.FOLDED})
_TRUST = "trust"
_ORIGIN = frozenset({"memory"})
_PRIVATE = TrustLabel(Integrity.TRUSTED, Confidentiality.TENANT, _ORIGIN)
_UNKNOWN = TrustLabel(Integrity.UNTRUSTED, Confidentiality.SECRET, _ORIGIN)


def with_label(record: JsonObject, label: TrustLabel) -> JsonObject:
    """Return a record with its trust label; the label that every run starts with is left out."""
    return record if label == RUN_INPUT else labelled(record, label)


def labelled(record: JsonObject, label: TrustLabel) -> JsonObject:
    """Return a record with its trust label, whatever the label is."""
    return {**record, _TRUST: label.to_payload()}


def label_to_keep(label: TrustLabel) -> TrustLabel:
    """Return the label to store with a turn of a conversation; the label every run starts with becomes neutral."""
    return TrustLabel() if label == RUN_INPUT else label


def label_in(record: JsonObject) -> TrustLabel:
    """Return the label that `with_label` wrote; the neutral label if there is none."""
    return _decode_label(record[_TRUST]) if _TRUST in record else TrustLabel()


def label_of_items(items: Iterable[MemoryItem]) -> TrustLabel:
    """Return the label of a run that has read the items: memory is private, whatever it was learned from."""
    labels = [item.label for item in items]
    return TrustLabel.join_all((_PRIVATE, *labels)) if labels else TrustLabel()


def label_of_rows(rows: Iterable[JournalRow]) -> TrustLabel:
    """Return the label of a run that has got the recorded outcomes: their own labels, and those of recalled memory."""
    outcomes = [row for row in rows if row.stage in _OUTCOMES]
    labels = [label_in(record) for row in outcomes for record in _labelled_parts(row)]
    return TrustLabel.join_all((*labels, *(_label_of(row) for row in outcomes if _recalls(row))))


def _labelled_parts(row: JournalRow) -> list[JsonObject]:
    """Return the parts of a record that may have a label: itself, and what a child has ended with."""
    record = row.record
    if not isinstance(record, Mapping):
        return []
    ended = record.get("result") if row.kind is AgentActionKind.DELEGATION else None
    return [record, ended] if isinstance(ended, Mapping) else [record]


def _recalls(row: JournalRow) -> bool:
    return row.action_id.rpartition("/")[2].startswith(f"{RECALL}#")


def _label_of(row: JournalRow) -> TrustLabel:
    """Return the label of recalled items; a record that cannot be read gets the strictest label."""
    match row.record:
        case {"error": _} | {"result": []}:
            return TrustLabel()
        case {"result": [*items]}:
            try:
                labels = [_decode_label(item["label"]) for item in items if isinstance(item, Mapping)]
            except (AgentDefinitionError, KeyError):
                return _UNKNOWN
            return TrustLabel.join_all((_PRIVATE, *labels)) if len(labels) == len(items) else _UNKNOWN
        case _:
            return _UNKNOWN


def _decode_label(payload: JsonValue) -> TrustLabel:
    return TrustLabel.from_payload(payload if isinstance(payload, Mapping) else {})


TRUST = "trust"
"""The key in a pack's metadata of a `TrustLabel.to_payload()` that says where its content comes from."""

READS_UNTRUSTED = "reads_untrusted"
"""The field of a pack, and the key in a message's metadata, by which one declares that no stranger wrote it."""

_HISTORY = TrustLabel(Integrity.UNTRUSTED, Confidentiality.TENANT, frozenset({"message_history"}))
_SENT = TrustLabel(Integrity.UNTRUSTED, Confidentiality.TENANT, frozenset({"messages of the input"}))
_MATERIAL = frozenset({ModelMessageRole.TOOL, ModelMessageRole.EVIDENCE})
_INSTRUCTING = frozenset({ContextPackRole.SYSTEM, ContextPackRole.INSTRUCTION})
_NOT_PRIVATE = frozenset({ContextSensitivity.PUBLIC, ContextSensitivity.REDACTED})


def encode_context(context: AgentContext) -> JsonObject:
    """Return the context for the first row of a run; an empty object for an empty context.

    Raises:
        AgentDefinitionError: a pack gives instructions and is untrusted.
    """
    if not context.packs and context.manifest is None and context.digest is None:
        return {}
    for pack in context.packs:
        _reject_untrusted_instruction(pack)
    guarded = [replace(each, content=each.guarded_content(), sensitive_fields=()) for each in context.packs]
    record = as_object(to_json_value(replace(context, packs=guarded)))
    return {**record, "packs": [_without_default(as_object(each)) for each in list_or_empty(record["packs"])]}


def _without_default(pack: JsonObject) -> JsonObject:
    """Return the record of a pack without the default that packs of earlier releases do not have."""
    return {name: given for name, given in pack.items() if name != READS_UNTRUSTED or given is False}


def decode_context(record: JsonObject) -> AgentContext | None:
    """Return the context that `encode_context` wrote; None for an empty object."""
    if not record:
        return None
    return cast(AgentContext, StructuredOutputSpec.from_type(AgentContext).decode(record))


def label_of_context(context: AgentContext) -> TrustLabel:
    """Return the trust label of a run that has read the context: the join of the labels of its packs."""
    return label_of_packs(context.packs)


def label_of_packs(packs: Iterable[ContextPack]) -> TrustLabel:
    """Return the join of the labels of packs."""
    return TrustLabel.join_all(map(_label_of_pack, packs))


def label_of_history(messages: Iterable[ModelMessage]) -> TrustLabel:
    """Return the label of messages that a caller gives: results of tools and evidence are untrusted.

    One whose metadata has `reads_untrusted: False` counts as the user's own words, a summary has its own label.
    """
    material = [message for message in messages if message.role in _MATERIAL]
    undeclared = [
        message
        for message in material
        if not is_summary(message) and message.metadata.get(READS_UNTRUSTED) is not False
    ]
    return trust_of_summaries(material).join(_HISTORY if undeclared else TrustLabel())


def label_of_sent(messages: Iterable[ModelMessage]) -> TrustLabel:
    """Return the label of earlier messages that a client sent: words that it says a model said are untrusted."""
    is_forgeable = any(message.role is not ModelMessageRole.USER for message in messages)
    return _SENT if is_forgeable else TrustLabel()


def _label_of_pack(pack: ContextPack) -> TrustLabel:
    """Return the label of a pack: the one in its metadata, else by its declaration and its sensitivity."""
    is_private = pack.sensitivity not in _NOT_PRIVATE
    confidentiality = Confidentiality.TENANT if is_private else Confidentiality.PUBLIC
    origin = frozenset({f"context:{pack.source}"})
    payload = pack.metadata.get(TRUST)
    if isinstance(payload, Mapping):
        declared = TrustLabel.from_payload(payload)
        return (
            declared.join(TrustLabel(Integrity.TRUSTED, confidentiality, origin)) if is_private else declared
        )
    return TrustLabel(
        Integrity.UNTRUSTED if pack.reads_untrusted else Integrity.USER, confidentiality, origin
    )


def _reject_untrusted_instruction(pack: ContextPack) -> None:
    """Refuse a pack that instructs the model and is labelled as a stranger's; one without a label only taints."""
    if pack.role in _INSTRUCTING and TRUST in pack.metadata and _label_of_pack(pack).is_untrusted:
        raise AgentDefinitionError(
            f"context pack {pack.id!r} from {pack.source!r} is untrusted and has the role {pack.role.value!r}: "
            "a stranger would instruct the model. Give it the role 'evidence'."
        )
