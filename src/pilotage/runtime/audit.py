"""The audit log of runs: entries made from the rows of their journals.

An attempt that ends writes every entry that the log lacks, those of earlier attempts included, whose process may have
been killed. Entries name actions, outcomes and evidence; they never hold payloads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.ports.observability import AuditEntry, IAgentAuditLog
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentState
from pilotage.errors import AgentDefinitionError
from pilotage.ids import IClock
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, text_digest
from pilotage.runtime.history import RunReader
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import object_or_empty
from pilotage.runtime.journal.resolution import resolution_in
from pilotage.runtime.journal.start_record import claimed_by, decode_start
from pilotage.runtime.services import Services

_NAMES: Mapping[AgentActionKind, str] = {
    AgentActionKind.MODEL_CALL: "model",
    AgentActionKind.TOOL_CALL: "tool",
    AgentActionKind.STEP: "step",
    AgentActionKind.DELEGATION: "delegation",
    AgentActionKind.SIGNAL: "signal",
}
_ENDED = "run.ended"


class AuditTrail:
    """Writes the audit log of an application from the journals of its runs."""

    def __init__(self, log: IAgentAuditLog, records: RunReader, clock: IClock) -> None:
        self._log = log
        self._records = records
        self._clock = clock

    async def write(self, run: RunKey) -> None:
        """Write the entries that the log lacks of a run; where the log fails, the next attempt that ends does it."""
        with suppress(Exception):
            await self._write(run)

    async def _write(self, run: RunKey) -> None:
        rows = await self._records.rows(run)
        state = await self._records.find(run.run_id, run.tenant_id)
        if not rows or state is None:
            return
        by = decode_start(rows[0]).principal
        known = await self._log.list_by_run(by, run.run_id)
        refs, acts = {each.evidence_ref for each in known}, {each.act for each in known}
        for entry in entries_in(run, by, rows):
            if entry.evidence_ref not in refs:
                await self._log.record(entry)
        if state.is_terminal and _ENDED not in acts:
            await self._log.record(self._ended(state, by))

    def _ended(self, state: AgentState, by: Principal) -> AuditEntry:
        facts: JsonObject = {"reason": state.reason.value} if state.reason else {}
        at = state.updated_at or self._clock.now()
        return AuditEntry(state.id, by, _ENDED, state.status.value, at, metadata=facts)


def entries_in(run: RunKey, by: Principal, rows: Sequence[JournalRow]) -> Iterator[AuditEntry]:
    """Return the entries for the rows of a run, in order; `by` is the principal it acts for."""
    for row in rows:
        found = _claim(row, run, by) if row.kind is None else _action(row, row.kind, by)
        if found is None or row.created_at is None:
            continue
        principal, act, outcome, facts = found
        yield AuditEntry(
            run.run_id,
            principal,
            act,
            outcome,
            row.created_at,
            evidence_ref=f"{run.run_id}:{row.seq}",
            metadata=facts,
        )


_Found = tuple[Principal, str, str, JsonObject]


def _claim(row: JournalRow, run: RunKey, by: Principal) -> _Found | None:
    """Return the entry of a start or a take-over; other CLAIMED rows have none."""
    if row.seq == 1:
        return by, "run.started", "started", {"agent": object_or_empty(row.record).get(words.AGENT)}
    owner = claimed_by(row)
    if owner is None:
        return None
    if (decided := resolution_in(row)) is not None:
        return Principal(owner, run.tenant_id), "run.resolved", str(decided.get(words.DECISION)), decided
    return Principal(owner, run.tenant_id), "run.resumed", "resumed", {"epoch": row.epoch}


def _action(row: JournalRow, kind: AgentActionKind, by: Principal) -> _Found | None:
    view = object_or_empty(row.view)
    if kind is AgentActionKind.APPROVAL_WAIT:
        return _question(row, by, view)
    name = _NAMES.get(kind)
    if name is None or row.stage is not JournalStage.AFTER:
        return None
    label = row.action_id.rpartition("/")[2].partition("#")[0]
    act = label.replace(":", ".", 1) if label.startswith(f"{name}:") else f"{name}.{label}"
    facts: JsonObject = {"action_id": row.action_id, "attempt": row.attempt, "epoch": row.epoch}
    return (
        by,
        "model.call" if act == "model.model" else act,
        "failed" if words.ERROR in view else "done",
        facts,
    )


def _question(row: JournalRow, by: Principal, view: Mapping[str, JsonValue]) -> _Found | None:
    """Return the entry of a question or of its answer."""
    about, _, what = row.action_id.rpartition("/")
    name = words.APPROVAL if what.startswith(words.APPROVAL) else words.RECOVERY
    if row.stage is JournalStage.BEFORE:
        return by, f"{name}.asked", "waiting", {"action_id": about, "request_id": view.get(words.ID)}
    if row.stage is not JournalStage.AFTER:
        return None
    if words.OUTDATED in view:
        return by, f"{name}.{words.OUTDATED}", "asked anew", {"action_id": about}
    answer = str(view.get(words.DECISION) or view.get(words.ANSWER) or "answered")
    principal_id = view.get(words.DECIDED_BY)
    answerer = Principal(principal_id, by.tenant) if isinstance(principal_id, str) and principal_id else by
    return answerer, f"{name}.answered", answer, {"action_id": about}


def evaluation_of(
    services: Services,
    state: AgentState,
    given: AgentEvidenceCandidate,
    by: Principal,
    evidence_id: str | None = None,
) -> AgentEvidence:
    """Return the evaluation of a run as readers may see it, with the principal that made it.

    Raises:
        AgentDefinitionError: it is evidence of another kind, which only runs themselves record.
    """
    if given.kind is not AgentEvidenceKind.EVALUATION:
        raise AgentDefinitionError(
            f"evidence of the kind {given.kind.value!r} cannot be added: runs record it themselves. "
            "Give the kind 'evaluation'."
        )
    redactor = services.redactor(services.definition_of(state.agent_type), state.tenant_id)
    payload = {**given.payload, "recorded_by": by.id}
    guarded = redactor.json(payload)
    shown = replace(
        given,
        payload=guarded,
        summary=given.summary and redactor.text(given.summary),
        digest=text_digest(canonical_json(guarded)),
    )
    return shown.to_evidence(
        evidence_id=evidence_id or f"{state.id}:evaluation:{services.ids.uid()}",
        agent_state_id=state.id,
        created_at=services.clock.now(),
    )
