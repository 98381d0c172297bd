"""The context that a caller gives to a run: its record and its trust label. Pure.

Models see guarded content only, so only guarded content is recorded: what a pack hides is in no row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from pilotage.agent.context import ContextPack, ContextPackRole, ContextSensitivity
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.run_values import AgentContext
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.runtime.exposure.trust import RUN_INPUT
from pilotage.safety.trust import Confidentiality, TrustLabel

TRUST = "trust"
"""The key in a pack's metadata of a `TrustLabel.to_payload()` that says where its content comes from."""

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
    return cast(JsonObject, to_json_value(replace(context, packs=guarded)))


def decode_context(record: JsonObject) -> AgentContext | None:
    """Return the context that `encode_context` wrote; None for an empty object."""
    if not record:
        return None
    return cast(AgentContext, StructuredOutputSpec.from_type(AgentContext).decode(record))


def label_of_context(context: AgentContext) -> TrustLabel:
    """Return the trust label of a run that has read the context: the join of the labels of its packs."""
    return TrustLabel.join_all(map(_label_of, context.packs))


def _label_of(pack: ContextPack) -> TrustLabel:
    payload = pack.metadata.get(TRUST)
    declared = TrustLabel.from_payload(payload) if isinstance(payload, Mapping) else RUN_INPUT
    if pack.sensitivity in _NOT_PRIVATE:
        return declared
    origin = frozenset({f"context:{pack.source}"})
    return declared.join(TrustLabel(confidentiality=Confidentiality.TENANT, origins=origin))


def _reject_untrusted_instruction(pack: ContextPack) -> None:
    if pack.role in _INSTRUCTING and _label_of(pack).is_untrusted:
        raise AgentDefinitionError(
            f"context pack {pack.id!r} from {pack.source!r} is untrusted and has the role {pack.role.value!r}: "
            "a stranger would instruct the model. Give it the role 'evidence'."
        )
