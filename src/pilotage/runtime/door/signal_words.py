"""What signals are to a run: the words a model is shown of them, and how far those may be trusted. Pure.

Messages and steering are a user's words. An event from outside and a wake-up are nobody's: they are shown as evidence,
in a frame that says where they come from. What comes from outside may have been written by a stranger.
"""

from __future__ import annotations

from typing import cast

from pilotage.agent.context import ContextFreshness, ContextPack, ContextPackRole, render_context_pack
from pilotage.agent.messages import ModelMessage
from pilotage.agent.signals import AgentSignal, AgentSignalKind, AgentSignalLane
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.jsonvalue import JsonValue, canonical_json
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel

MESSAGES = frozenset(kind for kind in AgentSignalKind if kind.lane is AgentSignalLane.MESSAGE)
"""The kinds that a run takes in at its boundaries."""

_A_USERS = frozenset({AgentSignalKind.USER_MESSAGE, AgentSignalKind.STEERING_INSTRUCTION})


def message_of(signal: AgentSignal) -> ModelMessage:
    """The signal as an entry of the transcript."""
    words = signal.payload.get("text", signal.payload.get("message"))
    if signal.kind in _A_USERS:
        return ModelMessage.user("" if words is None else str(words))
    is_all = isinstance(words, str) and len(signal.payload) == 1
    content = str(words) if is_all else canonical_json(signal.payload)
    pack = ContextPack(
        signal.id, content, signal.kind.value, ContextPackRole.EVIDENCE, ContextFreshness.CURRENT
    )
    return ModelMessage.evidence(render_context_pack(pack), source=signal.kind.value)


def label_of(signal: AgentSignal) -> TrustLabel:
    """How far what the signal says may be trusted; who may send a run its other signals is a user of it."""
    if signal.kind is not AgentSignalKind.EXTERNAL_EVENT:
        return TrustLabel()
    origin = frozenset({f"signal:{signal.kind.value}"})
    return TrustLabel(Integrity.UNTRUSTED, Confidentiality.PUBLIC, origin)


def signal_in(record: JsonValue) -> AgentSignal:
    """The signal that a row has taken in."""
    return cast(AgentSignal, StructuredOutputSpec.from_type(AgentSignal).decode(record))
