"""Evidence of contexts: the exact model requests, and what is done to a context.

Snapshots of requests are off by default: every snapshot has the whole transcript, so their size grows with the square
of a run's length. The redacted request is readable by all readers of the run; if it differs from the full one, the
full one is sealed with the application's key, and dropped if there is no key. Neither has secrets. Replay does not
need them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pilotage.agent.context import (
    ContextHealthSignal,
    ContextOptimizationAction,
    ContextOptimizationEvidenceStage,
)
from pilotage.agent.evidence import AgentEvidence, AgentEvidenceCandidate, AgentEvidenceKind
from pilotage.agent.messages import ModelMessage
from pilotage.agent.model_request import ModelRequest
from pilotage.agent.ports.persistence import JournalStage, RunKey, SealedRecord
from pilotage.agent.ports.sealing import IRecordSealer, RecordSealError, SealContext
from pilotage.jsonvalue import JsonObject, JsonValue, object_or_empty, to_json_value
from pilotage.runtime.exposure.redactor import Redactor, secretless, shown_request
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.record_fields import object_field, optional_object, text_field
from pilotage.runtime.journal.seals import Seals, WithoutKey

_STAGES = ContextOptimizationEvidenceStage


class Proofs:
    """Collects the evidence of one context change; a change that is made again proves the same again."""

    def __init__(self, ledger: Ledger, redactor: Redactor, action_id: str) -> None:
        self._ledger = ledger
        self._redactor = redactor
        # Evidence is never repeated: a change that was not committed is proven again by another attempt.
        attempt = f"@{ledger.epoch}" if ledger.epoch > 1 else ""
        self._prefix = f"{ledger.run.run_id}:{action_id}{attempt}"
        self._evidence: list[AgentEvidence] = []

    def add(self, candidate: AgentEvidenceCandidate, name: str) -> None:
        """Add one piece of evidence, redacted."""
        shown = self._redactor.json(candidate.payload)
        self._evidence.append(
            replace(candidate, payload=shown).to_evidence(
                evidence_id=f"{self._prefix}:{name}", agent_state_id=self._ledger.run.run_id
            )
        )

    def add_action(
        self,
        action: ContextOptimizationAction,
        signals: Sequence[ContextHealthSignal],
        name: str,
        outcome: JsonObject,
    ) -> None:
        """Add the evidence of an action before and after it; the outcome is in the metadata of the latter."""
        ended = replace(action, metadata={**action.metadata, **outcome})
        record = AgentEvidenceCandidate.context_optimization
        self.add(record(action=action, stage=_STAGES.BEFORE, signals=signals), f"{name}-before")
        self.add(record(action=ended, stage=_STAGES.AFTER, signals=signals), f"{name}-after")

    def record(self) -> None:
        """Record the evidence with the next commit."""
        evidence, self._evidence = self._evidence, []
        for each in evidence:
            self._ledger.add_evidence(each)


def refused(reason: str) -> JsonObject:
    """Return the outcome of an action that is not carried out."""
    return {"outcome": "refused", "refused_because": reason}


def done(**facts: JsonValue) -> JsonObject:
    """Return the outcome of an action that was carried out."""
    return {"outcome": "done", **facts}


class PromptSnapshots:
    """Records the model requests of one run attempt."""

    def __init__(self, ledger: Ledger, redactor: Redactor, seals: Seals) -> None:
        self._ledger = ledger
        self._redactor = redactor
        self._seals = seals
        self._count = 0

    def keep(self, action_id: str, model: str, request: ModelRequest) -> None:
        """Record a request before it is sent; it is committed together with its outcome."""
        self._count += 1
        run_id, epoch = self._ledger.run.run_id, self._ledger.epoch
        place = f"{action_id}/{words.PROMPT}@{epoch}.{self._count}"
        shown = _as_json(shown_request(request, self._redactor))
        if not self._redactor.is_idle:
            shown = {**shown, "tools": self._redactor.json(shown["tools"])}
        payload: dict[str, JsonValue] = {
            "action_id": action_id,
            "model": model,
            "place": place,
            words.PROMPT: shown,
        }
        sealed = self._sealed(place, secretless(_as_json(request), self._redactor), shown)
        if sealed is not None:
            payload["sealed"] = {words.KEY_ID: sealed.key_id, words.CIPHERTEXT: sealed.ciphertext}
        manifest = request.context_manifest
        self._ledger.add_evidence(
            AgentEvidence(
                f"{run_id}:{place}",
                run_id,
                AgentEvidenceKind.CONTEXT,
                payload,
                summary=f"what {model!r} was asked in {action_id}",
                manifest_ref=manifest.id if manifest is not None else None,
                reference=action_id,
            )
        )

    def _sealed(self, place: str, whole: JsonValue, shown: JsonValue) -> SealedRecord | None:
        try:
            sealed = self._seals.closed(
                whole,
                shown,
                action_id=place,
                stage=JournalStage.BEFORE,
                attempt=1,
                without_key=WithoutKey.FETCH_AGAIN,
            )
        except RecordSealError:
            # Only the redacted prompt remains readable; the run itself needs none.
            return None
        return sealed if isinstance(sealed, SealedRecord) else None


def is_prompt(evidence: AgentEvidence) -> bool:
    """Return whether a piece of evidence is a prompt snapshot."""
    return evidence.kind is AgentEvidenceKind.CONTEXT and words.PROMPT in evidence.payload


def prompt_in(evidence: AgentEvidence, run: RunKey, sealer: IRecordSealer | None) -> JsonObject:
    """Return the model request of a snapshot: the full one if a sealer is given, else the redacted one.

    Raises:
        RecordSealError: the application's key does not unseal the request.
    """
    sealed = optional_object(evidence.payload, "sealed")
    if sealed is None or sealer is None:
        return object_field(evidence.payload, words.PROMPT)
    context = SealContext(run, text_field(evidence.payload, "place"), JournalStage.BEFORE, 1)
    closed = SealedRecord(text_field(sealed, words.KEY_ID), text_field(sealed, words.CIPHERTEXT))
    opened: JsonObject = json.loads(sealer.open(context, closed))
    return opened


def _shown(message: ModelMessage) -> JsonValue:
    """Return a message with its reasoning, and without what only its provider reads."""
    shown = to_json_value(message)
    return {**object_or_empty(shown), words.REASONING: message.reasoning} if message.reasoning else shown


def _as_json(request: ModelRequest) -> JsonObject:
    """Return the request as JSON, without the functions of its tools."""
    calling, output = request.tool_calling, request.structured_output
    return {
        "messages": [_shown(message) for message in request.messages],
        "tools": [to_json_value(tool) for tool in calling.tools] if calling else [],
        "tool_choice": calling.choice.value if calling else None,
        "output_schema": output.constraint.schema if output else None,
        "sampling": to_json_value(request.sampling),
    }
