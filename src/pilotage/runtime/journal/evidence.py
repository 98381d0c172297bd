"""The journal as evidence: what a run did, as everybody may read it. Pure.

Rows are evidence already: each has a guarded view, the time it was written and its place in the chain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import EvidenceCapture
from pilotage.context.kept_manifest import whole_manifest
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.events.event_log import is_erased

CAPTURE = "capture"
"""How the view of a tool's result was made; left out of the row of one that is structured, as nearly all are."""

MANIFEST = "manifest"
"""What a model was shown; of a transcript and nothing else only the figures are kept."""

_KINDS = {
    AgentActionKind.MODEL_CALL: AgentEvidenceKind.MODEL,
    AgentActionKind.TOOL_CALL: AgentEvidenceKind.TOOL,
    AgentActionKind.APPROVAL_WAIT: AgentEvidenceKind.APPROVAL,
    AgentActionKind.DELEGATION: AgentEvidenceKind.DELEGATION,
    AgentActionKind.SIGNAL: AgentEvidenceKind.SIGNAL,
    AgentActionKind.STEP: AgentEvidenceKind.STEP,
    AgentActionKind.VALUE: AgentEvidenceKind.VALUE,
}


def evidence_in(run_id: str, rows: Iterable[JournalRow]) -> Iterator[AgentEvidence]:
    """What each action of a run left behind, in order."""
    for row in rows:
        if row.kind is None:
            continue
        place: dict[str, JsonValue] = {
            "action_id": row.action_id,
            "action_kind": row.kind.value,
            "stage": row.stage.value,
            "attempt": row.attempt,
            "idempotency": row.idempotency.value,
        }
        view = cast(JsonObject, row.view) if isinstance(row.view, Mapping) else {"view": row.view}
        if is_erased(row):
            view = {"erased": True}
        if row.kind is AgentActionKind.TOOL_CALL and "result" in view:
            view = {CAPTURE: EvidenceCapture.STRUCTURED.value, **view}
        if row.kind is AgentActionKind.MODEL_CALL and isinstance(kept := view.get(MANIFEST), Mapping):
            view = {**view, MANIFEST: whole_manifest(kept, row.action_id)}
        yield AgentEvidence(
            f"{run_id}:{row.seq}",
            run_id,
            _KINDS.get(row.kind, AgentEvidenceKind.ACTION_BOUNDARY),
            {**place, **view},
            digest=row.digest,
            created_at=row.created_at,
        )
