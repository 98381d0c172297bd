"""Reading what a person decided: the part that approval and recovery share.

Pure. A bad answer never closes a request: it is refused with a reason for its sender, and the request
waits on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeAlias, TypeVar

from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject
from pilotage.values import value

D = TypeVar("D", bound=StrEnum)


@value
class DecisionMisdirected:
    """The signal is no answer to this request: another kind, another run or another request."""

    reason: str


@value
class DecisionMalformed:
    """The answer cannot be read, or does not fit what it is about."""

    reason: str


@value
class DecisionNotAllowed:
    """The answer is a decision that this request does not offer."""

    reason: str


DecisionRefusal: TypeAlias = DecisionMisdirected | DecisionMalformed | DecisionNotAllowed


class DecisionRefusedError(AgentDefinitionError):
    """A signal cannot be taken as a decision; `refusal` says why."""

    def __init__(self, refusal: DecisionRefusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


def check_direction(
    signal: AgentSignal, *, request_id: str | None = None, agent_state_id: str | None = None
) -> str:
    """The id of the request that the signal answers; it must be the one given, where one is given.

    Raises:
        DecisionRefusedError: the signal is of another kind, names no request, or another request or run.
    """
    if signal.kind is not AgentSignalKind.APPROVAL_DECISION:
        raise _misdirected(signal, f"is of kind {signal.kind.value!r}. Send an 'approval_decision'.")
    answered = signal.payload.get("request_id")
    if not isinstance(answered, str) or not answered.strip():
        raise malformed(signal, f"has the request_id {answered!r}. Use the id of the request it answers.")
    if request_id is not None and answered != request_id:
        raise _misdirected(signal, f"answers request {answered!r}, not {request_id!r}.")
    if agent_state_id is not None and signal.agent_state_id != agent_state_id:
        raise _misdirected(signal, f"is for run {signal.agent_state_id!r}, not {agent_state_id!r}.")
    return answered


def read_decision(signal: AgentSignal, decisions: type[D], allowed: Sequence[D]) -> D:
    """The decision in the payload.

    Raises:
        DecisionRefusedError: there is none, or the request does not offer it.
    """
    given = signal.payload.get("decision")
    decision = next((each for each in decisions if each.value == given), None)
    if decision is None:
        raise malformed(signal, f"has the decision {given!r}. Use one of: {', '.join(decisions)}.")
    if decision not in allowed:
        reason = f"decides {given!r}, which is not offered. Use one of: {', '.join(allowed)}."
        raise DecisionRefusedError(DecisionNotAllowed(_sentence(signal, reason)))
    return decision


def read_comment(signal: AgentSignal) -> str | None:
    """The comment in the payload, where there is one.

    Raises:
        DecisionRefusedError: it is blank or no text.
    """
    comment = signal.payload.get("comment")
    if comment is None or (isinstance(comment, str) and comment.strip()):
        return comment
    raise malformed(signal, f"has the comment {comment!r}. Use a text that is not blank, or leave it out.")


def read_object(signal: AgentSignal, name: str) -> JsonObject | None:
    """The object under a key of the payload, None where the key is absent.

    Raises:
        DecisionRefusedError: there is something else.
    """
    if name not in signal.payload:
        return None
    value = signal.payload[name]
    if not isinstance(value, Mapping):
        raise malformed(signal, f"has a {name} of type {type(value).__name__}. Use an object.")
    return value


def malformed(signal: AgentSignal, reason: str) -> DecisionRefusedError:
    """The refusal of an answer that cannot be taken, in words for its sender."""
    return DecisionRefusedError(DecisionMalformed(_sentence(signal, reason)))


def _misdirected(signal: AgentSignal, reason: str) -> DecisionRefusedError:
    return DecisionRefusedError(DecisionMisdirected(_sentence(signal, reason)))


def _sentence(signal: AgentSignal, reason: str) -> str:
    return f"Signal {signal.id!r} {reason}"
