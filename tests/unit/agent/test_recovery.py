"""Boundary rows: written as evidence, read back, and whether an action may be repeated."""

from __future__ import annotations

from itertools import product

import pytest

from pilotage.agent.evidence import AgentEvidenceKind
from pilotage.agent.recovery import (
    AgentActionBoundaryCheckpoint,
    AgentActionBoundaryStage,
    AgentActionKind,
    AgentResumeBoundary,
)
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
