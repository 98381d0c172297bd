"""Evidence from journal rows: their guarded views with time and digest, for readers outside of the run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import EvidenceCapture
from pilotage.context.kept_manifest import whole_manifest
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.events.event_log import is_erased
from pilotage.runtime.journal import stored_words as words

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
    """Return one piece of evidence for each row of an action, in order."""
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
        view = row.view if isinstance(row.view, Mapping) else {words.VIEW: row.view}
        if is_erased(row):
            view = {words.ERASED: True}
        if row.kind is AgentActionKind.TOOL_CALL and words.RESULT in view:
            view = {words.CAPTURE: EvidenceCapture.STRUCTURED.value, **view}
        if row.kind is AgentActionKind.MODEL_CALL and isinstance(
            manifest := view.get(words.MANIFEST), Mapping
        ):
            view = {**view, words.MANIFEST: whole_manifest(manifest, row.action_id)}
        yield AgentEvidence(
            f"{run_id}:{row.seq}",
            run_id,
            _KINDS.get(row.kind, AgentEvidenceKind.ACTION_BOUNDARY),
            {**place, **view},
            digest=row.digest,
            created_at=row.created_at,
        )
