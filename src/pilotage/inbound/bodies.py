"""Bodies of requests, whatever transport they come by. Pure.

Each is a pydantic model: parse with `StartBody.model_validate_json(text)`. Docstrings and fields of these classes are
part of the OpenAPI description.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pilotage.agent.messages import MediaPart
from pilotage.agent.recovery_request import RecoveryDecision
from pilotage.agent.signals import AgentSignalKind, ApprovalDecision
from pilotage.errors import CallerError
from pilotage.inbound.problems import RequestRefusedError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.events.feed import EventCursor
from pilotage.runtime.journal.resolution import ActionDone, ForkBefore, RunResolution, SkipAction

_OWN_REQUESTS = {
    AgentSignalKind.APPROVAL_DECISION: "an answer: POST /runs/<id>/answers over HTTP",
    AgentSignalKind.CANCEL: "a cancellation: POST /runs/<id>/cancel over HTTP",
}
_ALIAS = "alias"


def finite(value: Any) -> Any:
    """Return a value without numbers that a decoder accepts and JSON does not have; the caller bounds its depth.

    Raises:
        ValueError: it has such a number.
    """
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
    """Refuse a key that the runtime sets itself."""
    if _ALIAS in metadata:
        raise ValueError(f"the key {_ALIAS!r} is the run's own. Give a name for the run as id")
    return metadata


Json = Annotated[Any, AfterValidator(finite)]
JsonDict = Annotated[dict[str, Any], AfterValidator(finite)]
# Not every database keeps a null character.
Name = Annotated[str, Field(max_length=255, pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")]
LongText = Annotated[str, Field(max_length=10_000)]
RunId = Annotated[str, Field(max_length=512, pattern=r"^[!-~]+$")]


class _Body(BaseModel):
    """A misspelt field is an error, not something to leave out silently."""

    model_config = ConfigDict(extra="forbid")


class AttachmentBody(_Body):
    """Media that were uploaded before, by their digest; members of the answer to the upload may stand here too."""

    digest: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    name: Name | None = None
    media_type: str | None = None
    size: int | None = None

    def part(self) -> MediaPart:
        """Return the part of the run's input; its type is that of the bytes."""
        return MediaPart(self.media_type or "application/octet-stream", digest=self.digest, name=self.name)


class StartBody(_Body):
    """A run to start: its agent and input; `id` is the client's own name for it.

    With `steering_input_required` it waits for a steering instruction before it begins. `attachments` are media that
    were uploaded before; the input is a text then.
    """

    agent: Name
    input: Json = None
    attachments: Annotated[list[AttachmentBody], Field(max_length=100)] = Field(
        default_factory=list[AttachmentBody]
    )
    id: Name | None = None
    conversation_id: Name | None = None
    metadata: Annotated[JsonDict, AfterValidator(_without_own_keys)] = Field(default_factory=dict[str, Any])
    steering_input_required: bool = False


class SignalBody(_Body):
    """A signal for a run; the same `id` is taken in once.

    The payload of a message or an instruction has a `text`; that of a message may have `attachments`, media that were
    uploaded before.
    """

    kind: AgentSignalKind
    payload: JsonDict = Field(default_factory=dict[str, Any])
    id: Name | None = None

    def sent_kind(self) -> AgentSignalKind:
        """Return the kind of the signal; refuse a kind that has a request of its own, which checks more."""
        if self.kind in _OWN_REQUESTS:
            raise RequestRefusedError(
                f"{self.kind.value!r} is no signal to send by itself. Send it as {_OWN_REQUESTS[self.kind]}."
            )
        return self.kind


class InnerAnswerBody(_Body):
    """The answer to an open action inside of the one that a question is about: `result` goes with done."""

    decision: RecoveryDecision
    comment: LongText | None = None
    result: Json = None


class AnswerBody(_Body):
    """The answer to a question: `modified_payload` goes with modify, `result` with done, `comment` with all.

    With retry, `actions` has an answer to each open action inside that needs one, by its id.
    With `resume` the run goes on once its last open question is answered; without it the answer is only stored.
    """

    request_id: Annotated[str, Field(min_length=1, max_length=2_000)]
    decision: ApprovalDecision | RecoveryDecision
    comment: LongText | None = None
    modified_payload: JsonDict | None = None
    result: Json = None
    actions: dict[str, InnerAnswerBody] | None = None
    resume: bool = True

    def details(self) -> dict[str, JsonValue]:
        """Return the details of the answer: only those that the client sent, since a result may be null."""
        sent = self.model_fields_set - {"request_id", "decision", "resume", "actions"}
        details: dict[str, JsonValue] = {name: getattr(self, name) for name in sorted(sent)}
        if self.actions:
            inside = {
                each: answer.model_dump(mode="json", exclude_unset=True)
                for each, answer in self.actions.items()
            }
            details["actions"] = inside
        return details


class CancelBody(_Body):
    """Reason for a cancellation."""

    reason: LongText | None = None


class ResolutionBody(_Body):
    """The decision about a diverged run: one of `skip`, `done` with `result`, and `fork_at`; `reason` is recorded.

    With `resume` the run goes on at once; without it, when it is resumed or a worker takes it up.
    """

    reason: Annotated[str, Field(min_length=1, max_length=10_000)]
    skip: Annotated[str, Field(min_length=1, max_length=2_000)] | None = None
    done: Annotated[str, Field(min_length=1, max_length=2_000)] | None = None
    result: Json = None
    fork_at: Annotated[int, Field(ge=1)] | None = None
    resume: bool = True

    @model_validator(mode="after")
    def _one_decision(self) -> ResolutionBody:
        """Refuse a body that decides nothing, or several things."""
        if len([each for each in (self.skip, self.done, self.fork_at) if each is not None]) != 1:
            raise ValueError("give one of skip, done and fork_at")
        if (self.done is not None) is not ("result" in self.model_fields_set):
            raise ValueError("done and result go together; a result may be null")
        return self

    def resolution(self) -> RunResolution:
        """Return the decision."""
        if self.skip is not None:
            return SkipAction(self.skip)
        return ActionDone(self.done, self.result) if self.done is not None else ForkBefore(self.fork_at or 1)


class ForkBody(_Body):
    """Up to which row a run is taken over; all of them by default."""

    at: Annotated[int, Field(ge=1)] | None = None


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
