"""The context and the history that a caller gives to a run: their record and their trust labels. Pure.

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
from pilotage.agent.run_values import AgentContext
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, as_object, list_or_empty, to_json_value
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

TRUST = "trust"
"""The key in a pack's metadata of a `TrustLabel.to_payload()` that says where its content comes from."""

READS_UNTRUSTED = "reads_untrusted"
"""The field of a pack, and the key in a message's metadata, by which one declares that no stranger wrote it."""

_HISTORY = TrustLabel(Integrity.UNTRUSTED, Confidentiality.TENANT, frozenset({"message_history"}))
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
    return TrustLabel.join_all(map(_label_of, packs))


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


def _label_of(pack: ContextPack) -> TrustLabel:
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
    if pack.role in _INSTRUCTING and TRUST in pack.metadata and _label_of(pack).is_untrusted:
        raise AgentDefinitionError(
            f"context pack {pack.id!r} from {pack.source!r} is untrusted and has the role {pack.role.value!r}: "
            "a stranger would instruct the model. Give it the role 'evidence'."
        )
