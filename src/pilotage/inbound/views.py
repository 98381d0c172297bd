"""Runs, results, evidence and signals as clients see them. Pure.

Docstrings and fields of these classes are part of the OpenAPI description.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.media import size_of
from pilotage.agent.messages import MediaPart
from pilotage.agent.ports.costs import CostSum
from pilotage.agent.ports.repositories import RunPage
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalEnd, AgentSignalKind
from pilotage.agent.state import AgentState, AgentStateReason, AgentStateTransition, AgentStatus
from pilotage.jsonvalue import to_json_value


class View(BaseModel):
    """Fields of a value of the contract, under the same names."""

    @classmethod
    def showing(cls, shown: object, **own: object) -> Self:
        """Return the view of a value: `own` fields as they are given, all others from the value, as JSON."""
        same = {
            name: to_json_value(getattr(shown, name))
            for name in cls.model_fields
            if name not in own and hasattr(shown, name)
        }
        return cls.model_validate({**same, **own})


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


class RunView(View):
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
        return cls.showing(state, divergence=DivergenceView.of(state))


class AnsweredView(RunView):
    """A run with a new answer; `is_waiting` says that no process drives the run yet: a worker or a resume will."""

    is_waiting: bool = False

    @classmethod
    def with_answer(cls, state: AgentState, *, is_waiting: bool) -> AnsweredView:
        """Return the run with whether its answer waits."""
        return cls(**RunView.of(state).model_dump(), is_waiting=is_waiting)


class DamagedRunView(View):
    """A run whose stored state is damaged; `problem` names the entry and the way out."""

    id: str
    problem: str


class RunPageView(BaseModel):
    """Some runs, newest first; `cursor` given as `after` leads to the next page.

    Runs of the page whose stored state is damaged are in `damaged`, and not in `runs`.
    """

    runs: list[RunView]
    cursor: str | None
    damaged: list[DamagedRunView] = []

    @classmethod
    def of(cls, page: RunPage) -> RunPageView:
        """Return a page of runs."""
        return cls(
            runs=[RunView.of(state) for state in page.runs],
            cursor=page.cursor,
            damaged=[DamagedRunView.showing(each) for each in page.damaged],
        )


class MediaView(View):
    """Media as a run takes them: their type and digest, their size in bytes, the name of their file."""

    media_type: str
    digest: str
    size: int
    name: str | None = None

    @classmethod
    def of(cls, part: MediaPart) -> MediaView:
        """Return the view of stored media."""
        return cls(media_type=part.media_type, digest=part.digest or "", size=size_of(part), name=part.name)


class CostSumView(View):
    """The sum of the charges of a group. Amounts are exact texts by currency; `unpriced` charges are in none of them.

    `estimated` charges have counts that the server did not report.
    """

    group: dict[str, str | None]
    amounts: dict[str, str]
    charges: int
    unpriced: int
    estimated: int
    input_tokens: int
    output_tokens: int
    total_tokens: int
    cached_tokens: int
    cache_written_tokens: int
    reasoning_tokens: int


class CostsView(View):
    """Sums of costs, one for each group."""

    sums: list[CostSumView]

    @classmethod
    def of(cls, sums: Iterable[CostSum]) -> CostsView:
        """Return the sums."""
        return cls(sums=[CostSumView.model_validate(each.to_payload()) for each in sums])


class ResultView(View):
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
        return cls.showing(result, run=RunView.of(result.state))


class EvidenceView(View):
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
        return cls.showing(evidence)


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
