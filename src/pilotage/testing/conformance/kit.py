"""Base classes of the kits, their runs, and the rows and payloads that they commit."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import cast

import pytest

from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey, SealedRecord
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue

PassTime = Callable[[float], Awaitable[None]]
LONG = 3600.0

RUN = RunKey("default", "run-1")
OTHER_RUN = RunKey("default", "run-2")
FOREIGN_RUN = RunKey("elsewhere", "run-1")


class Kit:
    """The promises of a port as async tests; an adapter derives from it and gives the fixtures."""

    pytestmark = pytest.mark.asyncio


class TimedKit(Kit):
    """A kit whose tests let the time of leases, claims and waits run out."""

    short = 30.0
    """Their length in seconds; use less if a test must wait in real time."""


PAYLOAD: JsonObject = {
    "text": "Grüße, 世界 🚢",
    "nul": "a\u0000b",
    "half of a pair": "\ud83d",
    "numbers": [0, -1, 1.5, 2**63, 1e-9],
    "nothing": None,
    "truth": [True, False],
    "deep": {"": [[], {}, [{"a": "b"}]]},
    "z first": 1,
    "a last": 2,
}
"""JSON that stores like to change: order of keys, large numbers, text that not every column takes."""

UNSTORABLE = cast(JsonValue, {"handle": object()})
"""No JSON: no adapter can store it."""


def row(
    seq: int,
    action_id: str = "",
    *,
    stage: JournalStage = JournalStage.AFTER,
    attempt: int = 1,
    epoch: int = 1,
    record: JsonValue | SealedRecord = None,
    view: JsonValue = None,
    number: int = 0,
    turn: int | None = None,
) -> JournalRow:
    """Return a row of a tool call; its action is named after its number where no name is given."""
    kind = None if stage is JournalStage.CLAIMED else AgentActionKind.TOOL_CALL
    return JournalRow(
        seq=seq,
        action_id=action_id or f"root/pay#{seq}",
        kind=kind,
        stage=stage,
        attempt=attempt,
        epoch=epoch,
        fingerprint=f"fingerprint-{seq}",
        idempotency=Idempotency.NON_IDEMPOTENT,
        record=record,
        view=view,
        digest=f"digest-{seq}",
        number=number,
        turn=turn,
    )


def claim(seq: int, epoch: int) -> JournalRow:
    """Return the row with which an owner takes a run over."""
    return row(seq, "claim", stage=JournalStage.CLAIMED, epoch=epoch)


def commit_of(*rows: JournalRow, run: RunKey = RUN, token: str = "") -> JournalCommit:
    """Return a commit of rows after the head that their numbers expect."""
    head = rows[0].seq - 1
    return JournalCommit(run, token or f"token-{head}", head, rows)


async def commit_one(journal: IAgentJournal, commit: JournalCommit) -> CommitOutcome:
    """Return the outcome of a commit that is sent alone."""
    (outcome,) = await journal.commit([commit])
    return outcome


async def rows_of(journal: IAgentJournal, run: RunKey = RUN, after: int = 0) -> Sequence[JournalRow]:
    """Return the rows of a run as a list."""
    return [each async for each in journal.read(run, after)]


async def numbers_of(journal: IAgentJournal, run: RunKey = RUN, after: int = 0) -> Sequence[int]:
    """Return the numbers of a run's rows."""
    return [each.seq for each in await rows_of(journal, run, after)]
