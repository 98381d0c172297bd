"""Bodies of requests, and runs, results and evidence as clients see them. Pure.

Docstrings and fields of these classes are part of the OpenAPI description.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from math import isfinite
from typing import Annotated, Any

from fastapi import Path
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from pilotage.adapters.asgi.problems import RequestRefusedError
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.repositories import RunPage
from pilotage.agent.recovery_request import RecoveryDecision
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind, ApprovalDecision
from pilotage.agent.state import AgentState, AgentStateReason, AgentStateTransition, AgentStatus
from pilotage.errors import CallerError
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.runtime.events.feed import EventCursor
from pilotage.runtime.journal.resolution import ActionDone, ForkBefore, RunResolution, SkipAction

_OWN_ROUTES = {AgentSignalKind.APPROVAL_DECISION: "answers", AgentSignalKind.CANCEL: "cancel"}
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
    """Refuse a key that the runtime sets itself."""
    if _ALIAS in metadata:
        raise ValueError(f"the key {_ALIAS!r} is the run's own. Give a name for the run as id")
    return metadata


Json = Annotated[Any, AfterValidator(_finite)]
JsonDict = Annotated[dict[str, Any], AfterValidator(_finite)]
# Not every database keeps a null character.
Name = Annotated[str, Field(max_length=255, pattern=r"^[^\x00]*[^\x00\s][^\x00]*$")]
LongText = Annotated[str, Field(max_length=10_000)]
RunId = Annotated[str, Path(max_length=512, pattern=r"^[!-~]+$")]


class _Body(BaseModel):
    """A misspelt field is an error, not something to leave out silently."""

    model_config = ConfigDict(extra="forbid")


class StartBody(_Body):
    """A run to start: its agent and input; `id` is the client's own name for it.

    With `steering_input_required` it waits for a steering instruction before it begins.
    """

    agent: Name
    input: Json = None
    id: Name | None = None
    conversation_id: Name | None = None
    metadata: Annotated[JsonDict, AfterValidator(_without_own_keys)] = Field(default_factory=dict[str, Any])
    steering_input_required: bool = False


class SignalBody(_Body):
    """A signal for a run; the same `id` is taken in once."""

    kind: AgentSignalKind
    payload: JsonDict = Field(default_factory=dict[str, Any])
    id: Name | None = None

    def sent_kind(self) -> AgentSignalKind:
        """Return the kind of the signal; refuse a kind that has a route of its own, which checks more."""
        if self.kind in _OWN_ROUTES:
            raise RequestRefusedError(
                f"{self.kind.value!r} is no signal to send by itself. POST it to /runs/<id>/{_OWN_ROUTES[self.kind]}."
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


class CallSideView(BaseModel):
    """One side of a divergence. Arguments are as readers of the run may see them; `row` is that of a recorded call."""

    action: str
    kind: str
    label: str
    number: int | None = None
    arguments: Any = None
    row: int | None = None
    is_open: bool | None = None


class DivergenceView(BaseModel):
    """Difference between the program of a run and its record; `line` is that of the program's call."""

    action: str
    difference: str
    recorded: CallSideView | None = None
    asked: CallSideView | None = None
    line: str | None = None

    @classmethod
    def of(cls, state: AgentState) -> DivergenceView | None:
        """Return the divergence of a run that has diverged."""
        found = state.metadata.get("divergence")
        return cls.model_validate(found) if found and state.reason is AgentStateReason.DIVERGED else None


class RunView(BaseModel):
    """The state of a run; `divergence` is there if it has diverged from its record."""

    id: str
    agent_type: str
    status: AgentStatus
    transition: AgentStateTransition | None
    reason: AgentStateReason | None
    current_activity: str | None
    awaits: str | None
    metadata: dict[str, Any]
    created_at: datetime | None
    updated_at: datetime | None
    wake_at: datetime | None
    divergence: DivergenceView | None = None

    @classmethod
    def of(cls, state: AgentState) -> RunView:
        """Return the state of a run without its tenant, which is the caller's."""
        return cls(
            id=state.id,
            agent_type=state.agent_type,
            status=state.status,
            transition=state.transition,
            reason=state.reason,
            current_activity=state.current_activity,
            awaits=state.awaits,
            metadata=json_object(state.metadata),
            created_at=state.created_at,
            updated_at=state.updated_at,
            wake_at=state.wake_at,
            divergence=DivergenceView.of(state),
        )


class AnsweredView(RunView):
    """A run with a new answer; `is_waiting` says that no process drives the run yet: a worker or a resume will."""

    is_waiting: bool = False

    @classmethod
    def with_answer(cls, state: AgentState, *, is_waiting: bool) -> AnsweredView:
        """Return the run with whether its answer waits."""
        return cls(**RunView.of(state).model_dump(), is_waiting=is_waiting)


class RunPageView(BaseModel):
    """Some runs, newest first; `cursor` given as `after` leads to the next page."""

    runs: list[RunView]
    cursor: str | None

    @classmethod
    def of(cls, page: RunPage) -> RunPageView:
        """Return a page of runs."""
        return cls(runs=[RunView.of(state) for state in page.runs], cursor=page.cursor)


class ResultView(BaseModel):
    """The result of a run; `output` is there once there is one."""

    run: RunView
    output: Any
    error: dict[str, Any] | None
    interruption_reason: str | None
    turns: int
    usage: dict[str, Any]
    spent: dict[str, Any]
    artifacts: dict[str, Any]

    @classmethod
    def of(cls, result: RunResult) -> ResultView:
        """Return the result of a run without the exception of a failure."""
        return cls(
            run=RunView.of(result.state),
            output=to_json_value(result.output),
            error=None if result.error is None else json_object(result.error),
            interruption_reason=result.interruption_reason,
            turns=result.turns,
            usage=json_object(result.usage),
            spent=json_object(result.spent),
            artifacts=json_object(result.artifacts),
        )


class EvidenceView(BaseModel):
    """One entry of the evidence of a run."""

    id: str
    kind: AgentEvidenceKind
    summary: str | None
    payload: dict[str, Any]
    digest: str | None
    reference: str | None
    created_at: datetime | None

    @classmethod
    def of(cls, evidence: AgentEvidence) -> EvidenceView:
        """Return one entry."""
        return cls(
            id=evidence.id,
            kind=evidence.kind,
            summary=evidence.summary,
            payload=json_object(evidence.payload),
            digest=evidence.digest,
            reference=evidence.reference,
            created_at=evidence.created_at,
        )


class EvidencesView(BaseModel):
    """All evidence of a run, in order."""

    evidence: list[EvidenceView]

    @classmethod
    def of(cls, evidence: Iterable[AgentEvidence]) -> EvidencesView:
        """Return the evidence of a run."""
        return cls(evidence=[EvidenceView.of(each) for each in evidence])


class SignalView(BaseModel):
    """A signal that is on its way to its run; sent again, it has the `end` of the first one with its id."""

    id: str
    run_id: str
    kind: AgentSignalKind
    end: AgentSignalEnd | None = None

    @classmethod
    def of(cls, signal: AgentSignal) -> SignalView:
        """Return a signal without its payload, which the sender knows."""
        return cls(id=signal.id, run_id=signal.agent_state_id, kind=signal.kind, end=signal.end)


class CancelledView(BaseModel):
    """Result of a cancellation: if it did not end the run, the run had ended, or its process will cancel it."""

    cancelled: bool
    is_on_its_way: bool = False


class VerifiedView(BaseModel):
    """Number of checked rows of the run's journal."""

    rows: int


def json_object(value: object) -> dict[str, Any]:
    """Return a value as an object of JSON; an empty one for anything that is none."""
    found = to_json_value(value)
    return dict(found) if isinstance(found, dict) else {}
