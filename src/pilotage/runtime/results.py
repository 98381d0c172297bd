"""The result and the evidence of a run, from its rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceKind
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.agent.tools.metadata import EvidenceCapture
from pilotage.context.assemble import whole_manifest
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.events.event_log import is_erased
from pilotage.runtime.events.projections import CANCELLED
from pilotage.runtime.exposure.trust import label_in
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_check import result_row
from pilotage.runtime.journal.record_fields import record_of, with_record
from pilotage.runtime.journal.records import decode_result
from pilotage.safety.trust import TrustLabel


def result_in(state: AgentState, rows: Sequence[JournalRow]) -> RunResult:
    """Return the result in the rows of a run; that of a cancelled run is in its state."""
    result = decode_result(state, result_row(rows))
    error = cancellation_error(state)
    return result if error is None else replace(result, error=error)


def as_shown(row: JournalRow) -> JournalRow:
    """Return the row of a result with its view for its record; every other row as it is."""
    return with_record(row, row.view) if row.action_id == words.RESULT_ACTION else row


def label_at_end(rows: Sequence[JournalRow]) -> TrustLabel:
    """Return the trust label of a run's result."""
    result = result_row(rows)
    return TrustLabel() if result is None else label_in(record_of(result))


def typed_output(definition: AgentDefinition, output: JsonValue) -> object:
    """Return a recorded answer in the type that the agent declares; as JSON where it declares none or does not fit."""
    execution = definition.execution
    wanted = execution.output_type if execution is not None else definition.spec.output_type
    if wanted is None:
        return output
    try:
        return StructuredOutputSpec.from_type(wanted).decode(output)
    except (AgentDefinitionError, AgentStructuredOutputError):
        return output


def cancellation_error(state: AgentState) -> JsonObject | None:
    """Return the error of a cancelled run, by its state; None for one that ended in another way."""
    reason = state.metadata.get("cancellation_reason")
    if state.reason is AgentStateReason.CANCELLATION_CLEANUP_FAILED:
        code, words = state.reason.value, "the run was cancelled, and cleaning up after it failed"
    elif state.status is AgentStatus.CANCELLED:
        code, words = CANCELLED, str(reason or "the run was cancelled")
    else:
        return None
    who: JsonObject = {"reason": reason, "requested_by": state.metadata.get("cancellation_requested_by")}
    return {"code": code, "message": words, "retryable": False, "metadata": who}


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
