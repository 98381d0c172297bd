"""Short ways to write actions and rows in tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonValue
from pilotage.runtime.journal.chain import NO_HEAD, chained
from pilotage.runtime.journal.scope import Action, fingerprint_of

CLAIMED, BEFORE, AFTER = JournalStage.CLAIMED, JournalStage.BEFORE, JournalStage.AFTER
TOOL, WAIT = AgentActionKind.TOOL_CALL, AgentActionKind.APPROVAL_WAIT


def an_action(
    action_id: str = "run/tool:pay#1",
    *,
    kind: AgentActionKind = TOOL,
    asked: JsonValue = None,
    idempotency: Idempotency = Idempotency.NON_IDEMPOTENT,
    is_read_only: bool = False,
) -> Action:
    """An action whose name is in its id."""
    name = action_id.rpartition(":")[2].partition("#")[0]
    fingerprint = fingerprint_of("run-1", action_id, kind, name, asked)
    return Action(action_id, kind, name, asked, asked, idempotency, is_read_only, fingerprint)


def a_row(
    action: Action, stage: JournalStage = AFTER, *, seq: int = 1, attempt: int = 1, record: JsonValue = None
) -> JournalRow:
    """A row of an action, not chained to any other."""
    return JournalRow(
        seq,
        action.id,
        action.kind,
        stage,
        attempt,
        1,
        action.fingerprint,
        action.idempotency,
        record,
        None,
        "unchained",
    )


def a_claim(seq: int = 1, epoch: int = 1) -> JournalRow:
    """A row that says who owns the run."""
    return JournalRow(
        seq, "run", None, CLAIMED, 1, epoch, "", Idempotency.IDEMPOTENT, None, None, "unchained"
    )


def a_journal(rows: Iterable[JournalRow]) -> list[JournalRow]:
    """The rows numbered and chained as a journal has them."""
    chain: list[JournalRow] = []
    for seq, row in enumerate(rows, start=1):
        previous = chain[-1].digest if chain else NO_HEAD.digest
        chain.append(chained(replace(row, seq=seq), previous))
    return chain
