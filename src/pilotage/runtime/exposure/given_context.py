"""The context that a caller hands to a run: as its record keeps it, and how far it may be trusted. Pure.

A model is shown guarded content only, so guarded content is all that is kept: what a pack hides is in no row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from pilotage.agent.context import ContextPack, ContextPackRole, ContextSensitivity
from pilotage.agent.run_input import AgentContext
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, to_json_value
from pilotage.runtime.exposure.trust import RUN_INPUT
from pilotage.safety.trust import Confidentiality, TrustLabel

TRUST = "trust"
"""The key in a pack's metadata under which a `TrustLabel.to_payload()` says where its content comes from."""

_INSTRUCTING = frozenset({ContextPackRole.SYSTEM, ContextPackRole.INSTRUCTION})
_FOR_EVERYBODY = frozenset({ContextSensitivity.PUBLIC, ContextSensitivity.REDACTED})


def encode_context(context: AgentContext) -> JsonObject:
    """The context for the first row of a run; nothing where there is none.

    Raises:
        AgentDefinitionError: a pack instructs that nobody can trust.
    """
    if not context.packs and context.manifest is None and context.digest is None:
        return {}
    for pack in context.packs:
        _reject_untrusted_instruction(pack)
    kept = replace(context, packs=[_guarded(pack) for pack in context.packs])
    return cast(JsonObject, to_json_value(kept))


def decode_context(record: JsonObject) -> AgentContext | None:
    """The context that `encode_context` wrote; None where there was none."""
    if not record:
        return None
    return cast(AgentContext, StructuredOutputSpec.from_type(AgentContext).decode(record))


def label_of_context(context: AgentContext) -> TrustLabel:
    """How far a run may be trusted that has read the context: as far as the least trusted pack."""
    return TrustLabel.join_all(map(_label_of, context.packs))


def _guarded(pack: ContextPack) -> ContextPack:
    return replace(pack, content=pack.guarded_content(), sensitive_fields=())


def _label_of(pack: ContextPack) -> TrustLabel:
    said = pack.metadata.get(TRUST)
    declared = TrustLabel.from_payload(cast(JsonObject, said)) if isinstance(said, dict) else RUN_INPUT
    if pack.sensitivity in _FOR_EVERYBODY:
        return declared
    origin = frozenset({f"context:{pack.source}"})
    return declared.join(TrustLabel(confidentiality=Confidentiality.TENANT, origins=origin))


def _reject_untrusted_instruction(pack: ContextPack) -> None:
    if pack.role in _INSTRUCTING and _label_of(pack).is_untrusted:
        raise AgentDefinitionError(
            f"context pack {pack.id!r} from {pack.source!r} is untrusted and has the role {pack.role.value!r}: "
            "a stranger would instruct the model. Give it the role 'evidence'."
        )
