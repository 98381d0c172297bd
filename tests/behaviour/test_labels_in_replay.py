"""A run that comes back knows the label it had: of results, failures, refusals, and of calls inside of calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest
from tests.behaviour.bureau import Bureau, resumed

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Idempotency,
    Pod,
    RecoveryStrategy,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import DataAccess, RecoveryDecision, ToolApprovalRequirement
from pilotage.agent.ports.permissions import (
    IAgentPermissions,
    PermissionDecision,
    PermissionRequest,
    PermissionVerdict,
)
from pilotage.errors import ToolError
from pilotage.runtime import AgentRuns, step
from pilotage.runtime.exposure.trust import RUN_INPUT, label_in
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import record_of
from pilotage.safety.trust import TrustLabel
from pilotage.testing import StopAfter, StopBefore

LOOK_UP = ToolEffects(DataAccess.READ, network=True)
UNGATED = ToolApprovalRequirement.NOT_REQUIRED


@Pod
class Web:
    @agent_tool(effects=LOOK_UP)
    async def page(self) -> str:
        """Read a page."""
        return "words"

    @agent_tool(effects=LOOK_UP)
    async def broken(self) -> str:
        """Break."""
        raise RuntimeError("words of a page")

    @agent_tool(effects=ToolEffects.read_only())
    async def inside(self) -> str:
        """Read in the house what another tool reads elsewhere."""
        return await self.page()

    @agent_tool(effects=ToolEffects.read_only())
    async def failing_inside(self) -> str:
        """Fail after something was read elsewhere."""
        await self.page()
        raise ToolError("no")

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED)
    async def keep(self) -> str:
        """Keep what was read elsewhere; only a person knows whether that has happened."""
        return await self.page()

    @agent_tool(effects=ToolEffects.read_only())
    async def waiting_inside(self) -> str:
        """Read something elsewhere, and never come back."""
        await self.page()
        await asyncio.Event().wait()
        return "never"

    @agent_tool(effects=LOOK_UP)
    async def forbidden(self) -> str:
        """Nobody may call this."""
        return "words"

    @agent_tool(effects=ToolEffects.read_only())
    async def look(self) -> str:
        """Look something up in the house."""
        return "seen"


class Rules(IAgentPermissions):
    async def check(self, request: PermissionRequest) -> PermissionDecision:
        is_denied = request.name == "forbidden"
        return PermissionDecision(PermissionVerdict.DENY if is_denied else PermissionVerdict.ALLOW)


Program = Callable[[Web], Awaitable[object]]


class Doing:
    def __init__(self, program: Program) -> None:
        self.program = program


@Agent(spec=AgentExecutionSpec(name="doer", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Doer:
    def __init__(self, web: Web, doing: Doing) -> None:
        self.web, self.doing = web, doing

    async def execute(self, order: str) -> str:
        with suppress(ToolError):
            await self.doing.program(self.web)
        await step("after", lambda: "done", idempotency=Idempotency.IDEMPOTENT)
        return await self.web.look()


async def _cut(web: Web) -> object:
    with suppress(TimeoutError):
        async with asyncio.timeout(0.01):
            await web.waiting_inside()
    return None


async def _step(web: Web) -> object:
    return await step("fetch", lambda: "words", idempotency=Idempotency.IDEMPOTENT, reads_untrusted=True)


async def _step_inside(web: Web) -> object:
    return await step("around", web.page, idempotency=Idempotency.IDEMPOTENT)


PROGRAMS: dict[str, tuple[Program, frozenset[str]]] = {
    "a result": (lambda web: web.page(), frozenset({"tool:page"})),
    "a failure": (lambda web: web.broken(), frozenset({"tool:broken"})),
    "a call inside": (lambda web: web.inside(), frozenset({"tool:page"})),
    "a call inside of one that failed": (lambda web: web.failing_inside(), frozenset({"tool:page"})),
    "a call inside of one that changes something": (lambda web: web.keep(), frozenset({"tool:page"})),
    "a call inside of one that was cut short": (_cut, frozenset({"tool:page"})),
    "a call that was refused": (lambda web: web.forbidden(), frozenset()),
    "a step": (_step, frozenset({"step:fetch"})),
    "a call inside of a step": (_step_inside, frozenset({"tool:page"})),
}


async def label_of(bureau: Bureau, run_id: str) -> TrustLabel:
    """The label of a run's result; one that is not recorded is the one that every run starts with."""
    (row,) = [row for row in await bureau.rows(run_id) if row.action_id == words.RESULT_ACTION]
    record = record_of(row)
    return label_in(record) if "trust" in record else RUN_INPUT


async def ended(runs: AgentRuns, run_id: str) -> None:
    """Bring a run to its end; a person says that what is unknown was done."""
    result = await resumed(runs, run_id)
    if result.status is AgentStatus.INTERRUPTED:
        (question,) = await runs.questions(run_id)
        await runs.answer(run_id, question.id, RecoveryDecision.DONE, result="words")
        result = await resumed(runs, run_id)
    assert result.status is AgentStatus.COMPLETED


@pytest.mark.parametrize("name", PROGRAMS)
async def test_the_label_is_the_same_live_and_after_a_crash_at_any_write(name: str) -> None:
    program, origins = PROGRAMS[name]
    expected = RUN_INPUT.origins | origins
    bureau, points = Bureau(), 0
    async with bureau.process(Doer, None, Web, Doing(program), Rules()) as runs:
        handle = await runs.start(Doer, "A-17")
        await handle.result()
    assert (await label_of(bureau, handle.id)).origins == expected
    for fault in (StopBefore, StopAfter):
        for number in range(2, bureau.journal.commits + 1):
            points += await _crashed(program, fault(number), expected)
    assert points > 1


async def _crashed(program: Program, fault: StopBefore | StopAfter, expected: frozenset[str]) -> int:
    bureau = Bureau()
    async with bureau.process(Doer, None, Web, Doing(program), Rules(), fault=fault) as runs:
        handle = await runs.start(Doer, "A-17")
        (end,) = await asyncio.gather(handle.result(), return_exceptions=True)
        if not isinstance(end, BaseException):
            return 0
    bureau.clock.advance(3600)
    async with bureau.process(Doer, None, Web, Doing(program), Rules()) as runs:
        if not (await runs.get(handle.id)).is_terminal:
            await ended(runs, handle.id)
    has_page = any(row.action_id.endswith("tool:page#1") for row in await bureau.rows(handle.id))
    # Of a read that was never recorded only a person's words are known, who says what came of the call around it.
    known = expected if has_page or "tool:page" not in expected else RUN_INPUT.origins
    assert (await label_of(bureau, handle.id)).origins == known, fault
    return 1
