"""How an action ends that does not give a plain result: what its program gets, what the journal says, who is asked.

Rows are the ways in which an attempt ends, columns the idempotency of the action.
"""

from __future__ import annotations

import asyncio
from decimal import Decimal
from enum import StrEnum

import pytest
from tests.behaviour.bureau import RECOVERY, WAITING, Bureau, hired, resumed, started, triple
from tests.behaviour.office import Worker
from tests.crash.kinds import Ending, Kind, Outside, actions_over

from pilotage import TimeoutPolicy
from pilotage.agent import AgentApprovalRequest, AgentRecoveryRequest, JournalStage, JsonValue
from pilotage.errors import ToolError
from pilotage.jsonvalue import as_object


class How(StrEnum):
    """How an attempt ends, seen from its program."""

    TOOL_ERROR = "ToolError"
    EXCEPTION = "other exception"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled by its program"
    UNENCODABLE = "result that cannot be encoded"


class Cell(StrEnum):
    """What comes of the action."""

    FAILED = "the program gets a ToolError, which is recorded"
    FOUND = "reconcile finds the result, which is recorded"
    CUT_SHORT = "the program gets its cancellation, which is recorded"
    UNKNOWN = "the program gets nothing, and a person is asked"
    COMPLETE = "it comes to its end, and the program gets the result"


REPEATABLE = (Kind.READ_ONLY, Kind.IDEMPOTENT, Kind.KEYED, Kind.RECONCILED, Kind.IDEMPOTENT_STEP)
UNREPEATABLE = (Kind.UNBACKED, Kind.UNREPEATABLE, Kind.RECONCILED_UNREPEATABLE, Kind.STEP)


def row(repeatable: Cell, unrepeatable: Cell, reconciled: Cell | None = None) -> dict[Kind, Cell]:
    """A row of the table; an unrepeatable action that can be reconciled may differ."""
    cells = dict.fromkeys(REPEATABLE, repeatable) | dict.fromkeys(UNREPEATABLE, unrepeatable)
    return cells if reconciled is None else cells | {Kind.RECONCILED_UNREPEATABLE: reconciled}


TABLE: dict[How, dict[Kind, Cell]] = {
    How.TOOL_ERROR: row(Cell.FAILED, Cell.FAILED),
    How.EXCEPTION: row(Cell.FAILED, Cell.UNKNOWN, Cell.FOUND),
    How.TIMEOUT: row(Cell.FAILED, Cell.UNKNOWN, Cell.FOUND),
    How.CANCELLED: row(Cell.CUT_SHORT, Cell.COMPLETE),
    How.UNENCODABLE: row(Cell.FAILED, Cell.UNKNOWN, Cell.FOUND),
}
STEPS = (Kind.STEP, Kind.IDEMPOTENT_STEP)
CELLS = [
    (how, kind, cell)
    for how, cells in TABLE.items()
    for kind, cell in cells.items()
    if not (how is How.TIMEOUT and kind in STEPS)  # a step has no time limit of its own
]

WORDS = {
    How.TOOL_ERROR: "refused",
    How.EXCEPTION: "ConnectionError (error ",
    How.TIMEOUT: "ToolTimeoutError: ",
    How.UNENCODABLE: "was done, but its result cannot be recorded",
}
AGENT = hired()


class Scene:
    """An action that ends in a certain way, and what its program gets of it in each attempt at the run."""

    def __init__(self, how: How, kind: Kind) -> None:
        hangs = how in (How.TIMEOUT, How.CANCELLED)
        self._how, self._kind = how, kind
        self.outside = Outside(Ending.HANGS if hangs else Ending(how.value))
        timeout = TimeoutPolicy(0.005) if how is How.TIMEOUT else None
        self._act = actions_over(self.outside, timeout)[kind]
        self.got: list[tuple[str, str]] = []

    async def program(self, worker: Worker) -> object:
        """Do the action, and then something that a person must allow: there the run waits with its record."""
        try:
            self.got.append(("result", str(await self._acted())))
        except (ToolError, asyncio.CancelledError) as error:
            self.got.append((type(error).__name__, str(error)))
        return (await worker.desk.refund(Decimal(1))).number

    async def _acted(self) -> object:
        if self._how is not How.CANCELLED:
            return await self._act()
        acting = asyncio.ensure_future(self._act())
        await self.outside.begun.wait()
        acting.cancel()
        await asyncio.sleep(0)
        self.outside.may_end.set()
        return await acting


_TYPE_AND_ID = ("error_type", "error_id")


async def recorded(bureau: Bureau, run_id: str) -> list[JsonValue]:
    """The outcomes of the action in the journal, as readers get them."""
    return [
        {name: each for name, each in as_object(row.view).items() if name not in _TYPE_AND_ID}
        for row in await bureau.rows(run_id)
        if row.stage is JournalStage.AFTER and row.action_id.startswith("run/") and "#1" in row.action_id
    ]


@pytest.mark.parametrize(("how", "kind", "cell"), CELLS)
async def test_an_action_ends_as_the_table_says(how: How, kind: Kind, cell: Cell) -> None:
    bureau, scene = Bureau(), Scene(how, kind)
    async with bureau.process(AGENT, scene.program) as runs:
        ended = await started(runs, AGENT)
        run_id = ended.state.id
        questions = [type(each) for each in await runs.questions(run_id)]
    outcomes = await recorded(bureau, run_id)
    match cell:
        case Cell.FAILED:
            ((error, words),) = scene.got
            assert (error, outcomes) == ("ToolError", [{"error": words}])
            assert WORDS[how] in words
        case Cell.FOUND:
            assert (scene.got, outcomes) == ([("result", "found")], [{"result": "found"}])
        case Cell.CUT_SHORT:
            assert (scene.got, outcomes) == ([("CancelledError", "")], [{"cut_short": True}])
        case Cell.COMPLETE:
            assert (scene.got, outcomes) == ([("result", "effect 1")], [{"result": "effect 1"}])
        case Cell.UNKNOWN:
            assert (scene.got, outcomes) == ([], [])
    is_unknown = cell is Cell.UNKNOWN
    assert triple(ended.state) == (RECOVERY if is_unknown else WAITING)
    assert questions == [AgentRecoveryRequest if is_unknown else AgentApprovalRequest]
    assert (scene.outside.attempts, scene.outside.reconciled) == (1, int(cell is Cell.FOUND))


RECORDED = [(how, kind) for how, kind, cell in CELLS if cell in (Cell.FAILED, Cell.FOUND)]


@pytest.mark.parametrize(("how", "kind"), RECORDED)
async def test_replay_gives_the_program_the_same_outcome_without_another_attempt(
    how: How, kind: Kind
) -> None:
    bureau, scene = Bureau(), Scene(how, kind)
    async with bureau.process(AGENT, scene.program) as runs:
        run_id = (await started(runs, AGENT)).state.id
    async with bureau.process(AGENT, scene.program) as runs:
        assert triple((await resumed(runs, run_id)).state) == WAITING
    live, replayed = scene.got
    assert live == replayed
    assert scene.outside.attempts == 1
