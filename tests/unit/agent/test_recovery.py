"""Boundary rows are written and read back, and decide how a run goes on."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.recovery import (
    AgentActionBoundaryCheckpoint,
    AgentActionBoundaryStage,
    AgentActionKind,
    AgentResumeAction,
    AgentResumeBoundary,
    plan_agent_resume,
)
from pilotage.agent.signals import AgentSignal, AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentState, AgentStatus
from pilotage.agent.tools.metadata import Idempotency

Checkpoint = AgentActionBoundaryCheckpoint
BEFORE, AFTER = AgentActionBoundaryStage.BEFORE, AgentActionBoundaryStage.AFTER
IDEMPOTENT = Idempotency.IDEMPOTENT


@pytest.mark.parametrize(
    ("made", "kind", "stage", "idempotency"),
    [
        (Checkpoint.before_model_call("a"), AgentActionKind.MODEL_CALL, BEFORE, Idempotency.UNKNOWN),
        (Checkpoint.after_model_call("a"), AgentActionKind.MODEL_CALL, AFTER, Idempotency.UNKNOWN),
        (
            Checkpoint.before_model_call("a", idempotency=IDEMPOTENT),
            AgentActionKind.MODEL_CALL,
            BEFORE,
            IDEMPOTENT,
        ),
        (
            Checkpoint.before_tool_call("a", idempotency=IDEMPOTENT),
            AgentActionKind.TOOL_CALL,
            BEFORE,
            IDEMPOTENT,
        ),
        (
            Checkpoint.after_tool_call("a", idempotency=IDEMPOTENT),
            AgentActionKind.TOOL_CALL,
            AFTER,
            IDEMPOTENT,
        ),
        (
            Checkpoint.before_approval_wait("a"),
            AgentActionKind.APPROVAL_WAIT,
            BEFORE,
            Idempotency.NON_IDEMPOTENT,
        ),
        (
            Checkpoint.after_approval_wait("a"),
            AgentActionKind.APPROVAL_WAIT,
            AFTER,
            Idempotency.NON_IDEMPOTENT,
        ),
    ],
)
def test_each_factory_makes_the_row_its_name_says(
    made: Checkpoint, kind: AgentActionKind, stage: AgentActionBoundaryStage, idempotency: Idempotency
) -> None:
    assert made == Checkpoint("a", kind, stage, idempotency)


@pytest.mark.parametrize(
    ("kind", "stage", "idempotency"), [*product(AgentActionKind, AgentActionBoundaryStage, Idempotency)]
)
def test_a_row_survives_the_way_through_evidence(
    kind: AgentActionKind, stage: AgentActionBoundaryStage, idempotency: Idempotency
) -> None:
    candidate = Checkpoint("a", kind, stage, idempotency, {"turn": 2}).to_evidence_candidate("row")
    assert candidate.kind is AgentEvidenceKind.ACTION_BOUNDARY
    assert candidate.payload["metadata"] == {"turn": 2}
    assert candidate.summary == "row"
    evidence = candidate.to_evidence(evidence_id="e-1", agent_state_id="run-1")
    assert AgentResumeBoundary.from_evidence(evidence) == AgentResumeBoundary(
        "a", kind, stage, idempotency, "e-1"
    )


REPEATABLE = {Idempotency.IDEMPOTENT, Idempotency.CONDITIONALLY_IDEMPOTENT}


@pytest.mark.parametrize(
    ("kind", "repeatable"),
    [
        (AgentActionKind.MODEL_CALL, REPEATABLE),
        (AgentActionKind.TOOL_CALL, REPEATABLE),
        (AgentActionKind.DELEGATION, REPEATABLE),
        (AgentActionKind.STEP, REPEATABLE),
        (AgentActionKind.APPROVAL_WAIT, set()),
        (AgentActionKind.SIGNAL, set(Idempotency)),
        (AgentActionKind.VALUE, set(Idempotency)),
    ],
)
def test_what_may_be_repeated_depends_on_kind_and_idempotency(
    kind: AgentActionKind, repeatable: set[Idempotency]
) -> None:
    rows = [AgentResumeBoundary("a", kind, BEFORE, each, "e-1") for each in Idempotency]
    assert {row.idempotency for row in rows if row.may_be_repeated} == repeatable


ENDED = [AgentStatus.COMPLETED, AgentStatus.FAILED, AgentStatus.CANCELLED]
LIVE = [AgentStatus.CREATED, AgentStatus.ACTIVE, AgentStatus.INTERRUPTED]
SAFE, UNSAFE = Idempotency.IDEMPOTENT, Idempotency.NON_IDEMPOTENT


def run_in(status: AgentStatus) -> AgentState:
    return AgentState("run-1", "Bank", status, metadata={"kept": True})


def row(
    action_id: str,
    stage: AgentActionBoundaryStage,
    idempotency: Idempotency = SAFE,
    kind: AgentActionKind = AgentActionKind.TOOL_CALL,
) -> AgentEvidence:
    checkpoint = AgentActionBoundaryCheckpoint(action_id, kind, stage, idempotency)
    evidence_id = f"{action_id}/{stage.value}"
    return checkpoint.to_evidence_candidate().to_evidence(evidence_id=evidence_id, agent_state_id="run-1")


UNREADABLE = AgentEvidence("e-1", "run-1", AgentEvidenceKind.ACTION_BOUNDARY, {"action_id": ""})
OTHER_RUNS = AgentEvidence("e-1", "run-2", AgentEvidenceKind.TOOL)
NOTE = AgentEvidence("n-1", "run-1", AgentEvidenceKind.TOOL, {"result": 1})


@pytest.mark.parametrize(("status", "evidence"), [*product(ENDED, [[], [UNREADABLE], [OTHER_RUNS]])])
def test_a_finished_run_is_not_resumable_whatever_its_record_holds(
    status: AgentStatus, evidence: list[AgentEvidence]
) -> None:
    plan = plan_agent_resume(run_in(status), evidence)
    assert (plan.action, plan.boundary) == (AgentResumeAction.NOT_RESUMABLE, None)
    assert plan.state == run_in(status)
    assert not plan.can_resume_automatically
    assert not plan.requires_human_input


@pytest.mark.parametrize(("status", "evidence"), [*product(LIVE, [[], [NOTE]])])
def test_a_run_without_boundaries_starts(status: AgentStatus, evidence: list[AgentEvidence]) -> None:
    plan = plan_agent_resume(run_in(status), evidence)
    assert (plan.action, plan.boundary, plan.state) == (AgentResumeAction.START, None, run_in(status))
    assert plan.can_resume_automatically


MODEL, TOOL, WAIT = AgentActionKind.MODEL_CALL, AgentActionKind.TOOL_CALL, AgentActionKind.APPROVAL_WAIT
SEQUENTIAL_TABLE = [
    *(
        (kind, AFTER, each, AgentResumeAction.SKIP_COMPLETED)
        for kind in (MODEL, TOOL, WAIT)
        for each in Idempotency
    ),
    *((WAIT, BEFORE, each, AgentResumeAction.REQUIRE_HITL) for each in Idempotency),
    *(
        (kind, BEFORE, idempotency, action)
        for kind in (MODEL, TOOL)
        for idempotency, action in (
            (Idempotency.IDEMPOTENT, AgentResumeAction.RETRY),
            (Idempotency.CONDITIONALLY_IDEMPOTENT, AgentResumeAction.RETRY),
            (Idempotency.NON_IDEMPOTENT, AgentResumeAction.REQUIRE_HITL),
            (Idempotency.UNKNOWN, AgentResumeAction.REQUIRE_HITL),
        )
    ),
]


@pytest.mark.parametrize("status", LIVE)
@pytest.mark.parametrize(("kind", "stage", "idempotency", "action"), SEQUENTIAL_TABLE)
def test_the_last_boundary_of_a_sequential_journal_decides(
    status: AgentStatus,
    kind: AgentActionKind,
    stage: AgentActionBoundaryStage,
    idempotency: Idempotency,
    action: AgentResumeAction,
) -> None:
    journal = [row("first", BEFORE), NOTE, row("first", AFTER), row("last", BEFORE, idempotency, kind)]
    if stage is AFTER:
        journal.append(row("last", AFTER, idempotency, kind))
    plan = plan_agent_resume(run_in(status), [*journal, NOTE])
    assert plan.action is action
    assert plan.boundary is not None
    assert (plan.boundary.action_id, plan.boundary.stage) == ("last", stage)
    assert plan.state.recovery_marker == "last"
    assert plan.requires_human_input is (action is AgentResumeAction.REQUIRE_HITL)
    assert plan.can_resume_automatically is not plan.requires_human_input
    if plan.requires_human_input:
        triple = (plan.state.status, plan.state.transition, plan.state.reason)
        assert triple == AgentSituation.RECOVERY_REQUIRED.value
    else:
        assert replace(plan.state, recovery_marker=None) == run_in(status)


@pytest.mark.parametrize(
    ("journal", "action", "deciding", "unfinished"),
    [
        pytest.param(
            [row("a", BEFORE), row("b", BEFORE)],
            AgentResumeAction.RETRY,
            "a",
            ["a", "b"],
            id="all may be repeated",
        ),
        pytest.param(
            [row("a", BEFORE), row("b", BEFORE, UNSAFE), row("c", BEFORE, UNSAFE), row("d", BEFORE)],
            AgentResumeAction.REQUIRE_HITL,
            "b",
            ["a", "b", "c", "d"],
            id="one that may not be repeated needs a person",
        ),
        pytest.param(
            [row("a", BEFORE, UNSAFE), row("b", BEFORE), row("b", AFTER)],
            AgentResumeAction.REQUIRE_HITL,
            "a",
            ["a"],
            id="a finished sibling does not hide an open action",
        ),
        pytest.param(
            [row("a", BEFORE, UNSAFE), row("b", BEFORE), row("a", AFTER, UNSAFE)],
            AgentResumeAction.RETRY,
            "b",
            ["b"],
            id="rows of two actions may alternate",
        ),
        pytest.param(
            [row("a", BEFORE), row("b", BEFORE), row("a", AFTER), row("b", AFTER)],
            AgentResumeAction.SKIP_COMPLETED,
            "b",
            [],
            id="nothing open",
        ),
        pytest.param(
            [row("a", BEFORE, UNSAFE), row("a", AFTER, UNSAFE), row("a", BEFORE, UNSAFE)],
            AgentResumeAction.REQUIRE_HITL,
            "a",
            ["a"],
            id="a new attempt opens the action again",
        ),
    ],
)
def test_open_actions_are_folded_over_the_whole_journal(
    journal: list[AgentEvidence], action: AgentResumeAction, deciding: str, unfinished: list[str]
) -> None:
    plan = plan_agent_resume(run_in(AgentStatus.ACTIVE), journal)
    assert plan.action is action
    assert plan.boundary is not None
    assert plan.boundary.action_id == deciding
    assert [each.action_id for each in plan.open_boundaries] == unfinished


def test_a_run_that_was_being_cancelled_finishes_its_cleanup() -> None:
    plan = plan_agent_resume(run_in(AgentStatus.CANCELLING), [row("a", BEFORE, UNSAFE)])
    assert plan.action is AgentResumeAction.FINISH_CANCELLATION
    assert plan.state == run_in(AgentStatus.CANCELLING)
    assert [each.action_id for each in plan.open_boundaries] == ["a"]
    assert plan.can_resume_automatically


@pytest.mark.parametrize("status", AgentStatus)
def test_signals_are_passed_on_in_every_plan(status: AgentStatus) -> None:
    signal = AgentSignal("s-1", "run-1", AgentSignalKind.USER_MESSAGE)
    assert plan_agent_resume(run_in(status), [], [signal]).signals == (signal,)
