"""What recovery stands on: the rows around each action.

Pure. BEFORE says that an action is about to begin, AFTER that its outcome is known. The rows are written as
evidence of kind ACTION_BOUNDARY and read back from it; `resume` decides from them how a run goes on.
"""

from __future__ import annotations

from dataclasses import field
from enum import StrEnum
from typing import TypeVar

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.checks import reject_blank
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, empty_object
from pilotage.values import value

E = TypeVar("E", bound=StrEnum)


class AgentActionKind(StrEnum):
    """The kinds of action: everything whose outcome a run cannot compute from what it knows."""

    MODEL_CALL = "model_call"
    TOOL_CALL = "tool_call"
    APPROVAL_WAIT = "approval_wait"
    DELEGATION = "delegation"
    SIGNAL = "signal"
    STEP = "step"
    VALUE = "value"


class AgentActionBoundaryStage(StrEnum):
    """Which side of the action a row stands for."""

    BEFORE = "before"
    AFTER = "after"


@value
class AgentActionBoundaryCheckpoint:
    """One row of an action's boundary, before it is recorded.

    `idempotency` is the effective one: whoever writes the row has taken into account what the action can
    really do. An action that only reads is written as IDEMPOTENT; so is a model call, unless the model acts
    on its own behind the port.
    """

    action_id: str
    action_kind: AgentActionKind
    stage: AgentActionBoundaryStage
    idempotency: Idempotency = Idempotency.UNKNOWN
    metadata: JsonObject = field(default_factory=empty_object)

    def __post_init__(self) -> None:
        reject_blank(self, action_id=self.action_id)

    @classmethod
    def before_model_call(
        cls,
        action_id: str,
        *,
        idempotency: Idempotency = Idempotency.UNKNOWN,
        metadata: JsonObject | None = None,
    ) -> AgentActionBoundaryCheckpoint:
        """A model is about to be called."""
        stage = AgentActionBoundaryStage.BEFORE
        return cls(action_id, AgentActionKind.MODEL_CALL, stage, idempotency, metadata or {})

    @classmethod
    def after_model_call(
        cls,
        action_id: str,
        *,
        idempotency: Idempotency = Idempotency.UNKNOWN,
        metadata: JsonObject | None = None,
    ) -> AgentActionBoundaryCheckpoint:
        """The model's reply is complete."""
        stage = AgentActionBoundaryStage.AFTER
        return cls(action_id, AgentActionKind.MODEL_CALL, stage, idempotency, metadata or {})

    @classmethod
    def before_tool_call(
        cls, action_id: str, *, idempotency: Idempotency, metadata: JsonObject | None = None
    ) -> AgentActionBoundaryCheckpoint:
        """A tool is about to be called."""
        stage = AgentActionBoundaryStage.BEFORE
        return cls(action_id, AgentActionKind.TOOL_CALL, stage, idempotency, metadata or {})

    @classmethod
    def after_tool_call(
        cls, action_id: str, *, idempotency: Idempotency, metadata: JsonObject | None = None
    ) -> AgentActionBoundaryCheckpoint:
        """The tool's outcome is known."""
        stage = AgentActionBoundaryStage.AFTER
        return cls(action_id, AgentActionKind.TOOL_CALL, stage, idempotency, metadata or {})

    @classmethod
    def before_approval_wait(
        cls, action_id: str, *, metadata: JsonObject | None = None
    ) -> AgentActionBoundaryCheckpoint:
        """A person is about to be asked; asking twice is not the same as asking once."""
        stage = AgentActionBoundaryStage.BEFORE
        return cls(
            action_id, AgentActionKind.APPROVAL_WAIT, stage, Idempotency.NON_IDEMPOTENT, metadata or {}
        )

    @classmethod
    def after_approval_wait(
        cls, action_id: str, *, metadata: JsonObject | None = None
    ) -> AgentActionBoundaryCheckpoint:
        """The person has decided."""
        stage = AgentActionBoundaryStage.AFTER
        return cls(
            action_id, AgentActionKind.APPROVAL_WAIT, stage, Idempotency.NON_IDEMPOTENT, metadata or {}
        )

    def to_evidence_candidate(self, summary: str | None = None) -> AgentEvidenceCandidate:
        """The row as a record of the run."""
        payload: JsonObject = {
            "action_id": self.action_id,
            "action_kind": self.action_kind.value,
            "stage": self.stage.value,
            "idempotency": self.idempotency.value,
            "metadata": self.metadata,
        }
        return AgentEvidenceCandidate(AgentEvidenceKind.ACTION_BOUNDARY, payload, summary)


_REPEATABLE = frozenset({Idempotency.IDEMPOTENT, Idempotency.CONDITIONALLY_IDEMPOTENT})
# Reading a clock again changes nothing, and a signal whose consumption was not recorded is still pending.
_ALWAYS_REPEATABLE = frozenset({AgentActionKind.VALUE, AgentActionKind.SIGNAL})


@value
class AgentResumeBoundary:
    """One recorded row of an action's boundary, and the evidence it was read from."""

    action_id: str
    action_kind: AgentActionKind
    stage: AgentActionBoundaryStage
    idempotency: Idempotency
    evidence_id: str

    @classmethod
    def from_evidence(cls, evidence: AgentEvidence) -> AgentResumeBoundary:
        """Read a row back.

        Raises:
            AgentDefinitionError: the payload is not that of a boundary.
        """
        action_id = evidence.payload.get("action_id")
        if not isinstance(action_id, str) or not action_id.strip():
            raise AgentDefinitionError(
                f"Evidence {evidence.id!r} has the action_id {action_id!r}. Use the id of the action."
            )
        return cls(
            action_id,
            _member(evidence, "action_kind", AgentActionKind),
            _member(evidence, "stage", AgentActionBoundaryStage),
            _member(evidence, "idempotency", Idempotency),
            evidence.id,
        )

    @property
    def may_be_repeated(self) -> bool:
        """Whether the action may run again though nobody knows if it already did."""
        if self.action_kind is AgentActionKind.APPROVAL_WAIT:
            return False
        return self.action_kind in _ALWAYS_REPEATABLE or self.idempotency in _REPEATABLE


def _member(evidence: AgentEvidence, name: str, members: type[E]) -> E:
    given = evidence.payload.get(name)
    member = next((each for each in members if each.value == given), None)
    if member is None:
        raise AgentDefinitionError(
            f"Evidence {evidence.id!r} has the {name} {given!r}. Use one of: {', '.join(members)}."
        )
    return member
