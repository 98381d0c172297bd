"""Bodies of requests as typed values, and what the run service is given of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pilotage.adapters.asgi.errors import RequestRefusedError
from pilotage.agent.recovery_request import RecoveryDecision
from pilotage.agent.signals import AgentSignalKind, ApprovalDecision
from pilotage.errors import CallerError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.events.feed import EventCursor

_OWN_ROUTES = {
    AgentSignalKind.APPROVAL_DECISION: "answers",
    AgentSignalKind.CANCEL: "cancel",
}

_ALIAS = "alias"


def _finite(value: Any) -> Any:
    """Refuse numbers that a decoder accepts and JSON does not have. The middleware bounds the depth."""
    level: list[Any] = [value]
    while level:
        if any(isinstance(each, float) and not isfinite(each) for each in level):
            raise ValueError("a number is not finite, which JSON does not know")
        level = [inner for each in level for inner in _inside(each)]
    return value


def _inside(value: JsonValue) -> Iterable[JsonValue]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _without_own_keys(metadata: dict[str, Any]) -> dict[str, Any]:
    """Refuse what would look like the runtime's own word about the run."""
    if _ALIAS in metadata:
        raise ValueError(f"the key {_ALIAS!r} is the run's own. Give a name for the run as id")
    return metadata


Json = Annotated[Any, AfterValidator(_finite)]
JsonDict = Annotated[dict[str, Any], AfterValidator(_finite)]
# Not every database keeps a null character.
Name = Annotated[str, Field(max_length=255, pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")]
Words = Annotated[str, Field(max_length=10_000)]
RunId = Annotated[str, Path(max_length=512, pattern=r"^[!-~]+$")]


class _Body(BaseModel):
    """A misspelt field is an error, not something to leave out silently."""

    model_config = ConfigDict(extra="forbid")


class StartBody(_Body):
    """A run to start: which agent, with what; `id` is the client's own name for it."""

    agent: Name
    input: Json = None
    id: Name | None = None
    conversation_id: Name | None = None
    metadata: Annotated[JsonDict, AfterValidator(_without_own_keys)] = Field(default_factory=dict[str, Any])


class SignalBody(_Body):
    """Something for a run; the same `id` is taken in once."""

    kind: AgentSignalKind
    payload: JsonDict = Field(default_factory=dict[str, Any])
    id: Name | None = None


class AnswerBody(_Body):
    """The answer to a question: `modified_payload` goes with modify, `result` with done, `comment` with all.

    With `resume` the run goes on once its last open question is answered; without it the answer is only stored.
    """

    request_id: Annotated[str, Field(min_length=1, max_length=2_000)]
    decision: ApprovalDecision | RecoveryDecision
    comment: Words | None = None
    modified_payload: JsonDict | None = None
    result: Json = None
    resume: bool = True


class CancelBody(_Body):
    """Why a run is to end."""

    reason: Words | None = None


class ForkBody(_Body):
    """Up to which row a run is taken over; all of them by default."""

    at: Annotated[int, Field(ge=1)] | None = None


def details_of(body: AnswerBody) -> dict[str, JsonValue]:
    """Return the details of an answer: only those that the client sent, since a result may be null."""
    sent = body.model_fields_set - {"request_id", "decision", "resume"}
    return {name: getattr(body, name) for name in sorted(sent)}


def signal_kind_of(body: SignalBody) -> AgentSignalKind:
    """The kind of a signal.

    Raises:
        RequestRefusedError: it has a way of its own, which checks more.
    """
    if body.kind in _OWN_ROUTES:
        raise RequestRefusedError(
            f"{body.kind.value!r} is no signal to send by itself. POST it to /runs/<id>/{_OWN_ROUTES[body.kind]}."
        )
    return body.kind


def cursor_of(last_event_id: str | None, after: str | None) -> str | None:
    """Return the cursor of a reader: the header is newer than the address, which reconnecting clients repeat.

    Raises:
        RequestRefusedError: it is no cursor.
    """
    cursor = last_event_id or after or None
    if cursor is not None:
        try:
            EventCursor.parse(cursor)
        except CallerError as error:
            raise RequestRefusedError(str(error)) from error
    return cursor
