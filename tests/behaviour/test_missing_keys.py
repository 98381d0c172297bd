"""An application without a key: start-up names what it could not seal, and a run that needs a seal is interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated

import pytest
from tests.behaviour.bureau import COMPLETED, Bureau, hired, resumed, started, triple
from tests.behaviour.family import Family, member, resume, start
from tests.behaviour.office import UNGATED, Worker

from pilotage import PII, Agent, AgentExecutionSpec, Pod, RecoveryStrategy, SensitiveField, agent_tool
from pilotage.agent import AgentRecoveryRequest, RecoveryDecision, RunPausedEvent
from pilotage.agent.ports.architecture import Dependencies
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.state import AgentStateReason, AgentStatus
from pilotage.architectures import Supervisor
from pilotage.errors import AgentPersistenceConfigurationError
from pilotage.testing import ScriptedModel

Iban = Annotated[str, SensitiveField(PII.ACCOUNT_ID)]
MINE = "DE00SENSITIVE"
INTERRUPTED = (AgentStatus.INTERRUPTED, AgentStateReason.RECOVERY_REQUIRES_HITL)


@Pod
class Safe:
    """Tools whose arguments or results only the caller may read."""

    def __init__(self) -> None:
        self.paid: list[str] = []

    @agent_tool(approval=UNGATED)
    async def pay(self, iban: Iban) -> int:
        """Pay."""
        self.paid.append(iban)
        return len(self.paid)

    @agent_tool(approval=UNGATED)
    async def open_account(self) -> Iban:
        """Open an account."""
        self.paid.append(MINE)
        return MINE


@Pod
class Accounting:
    """A service that has tools only through what it injects."""

    def __init__(self, safe: Safe) -> None:
        self.safe = safe


@Agent(spec=AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Clerk:
    def __init__(self, accounting: Accounting) -> None:
        self.accounting = accounting

    async def execute(self, question: str) -> int:
        return await self.accounting.safe.pay(MINE)


@Agent(name="payer", spec=AgentExecutionSpec(name="payer"))
class Payer:
    """Not durable by itself."""

    async def execute(self, iban: Iban) -> int:
        return len(iban)


@Agent(
    name="chief",
    spec=AgentExecutionSpec(
        name="chief",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        architecture=Supervisor(workers={"payer": Payer}),
    ),
)
class Chief:
    """Hands work to a worker whose input is sensitive."""


async def test_start_up_names_the_workers_of_a_durable_agent() -> None:
    family = Family(has_sealer=False)
    with pytest.raises(AgentPersistenceConfigurationError) as caught:
        async with family.process(Chief, Payer, model=ScriptedModel([])):
            pass
    assert "Payer -> input: replay needs what others must not read: sensitive input (iban)" in str(
        caught.value
    )
    assert "pilotage[sealing]" in str(caught.value)
    async with family.process(Payer):
        """By itself the worker is ephemeral, and nothing of it is recorded."""


async def test_start_up_names_the_tools_of_services_that_an_agent_uses() -> None:
    with pytest.raises(AgentPersistenceConfigurationError, match=r"Clerk -> Safe\.pay: replay needs"):
        async with Bureau().process(Clerk, None, Safe, Accounting, has_sealer=False):
            pass


async def _alone(act: Callable[[], Awaitable[object]]) -> object:
    return await act()


async def _in_a_group(act: Callable[[], Awaitable[object]]) -> object:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(_alone(act))
    return task.result()


async def _swallowed(act: Callable[[], Awaitable[object]]) -> object:
    with suppress(BaseException):
        return await act()
    return "nothing happened"


@pytest.mark.parametrize("calling", [_alone, _in_a_group, _swallowed])
async def test_a_call_that_would_have_to_be_sealed_does_not_begin_and_interrupts_the_run(
    calling: Callable[[Callable[[], Awaitable[object]]], Awaitable[object]],
) -> None:
    bureau, agent, safe = Bureau(), hired(), Safe()

    async def program(_: Worker) -> object:
        # No constructor names the object, so start-up does not know of it.
        return await calling(lambda: safe.pay(MINE))

    async with bureau.process(agent, program, has_sealer=False) as runs:
        handle = await runs.start(agent, "A-17")
        events = [event async for event in handle.events()]
        state = (await handle.result()).state
        assert (state.status, state.reason, safe.paid) == (*INTERRUPTED, [])
        assert "/tool:pay#1'" in str(state.current_activity)
        assert "must be sealed, and nothing provides IRecordSealer" in str(state.current_activity)
        assert "PILOTAGE_SEALING_KEY_FILE" in str(state.current_activity)
        assert state.metadata["seal_missing"] == state.current_activity
        paused = events[-1]
        assert isinstance(paused, RunPausedEvent)
        assert paused.prompt == state.current_activity
        await runs.verify(handle.id)
        again = (await resumed(runs, handle.id)).state
        assert (again.status, again.reason, safe.paid) == (*INTERRUPTED, [])
    async with bureau.process(agent, program) as runs:
        done = await resumed(runs, handle.id)
        assert (triple(done.state), done.output, safe.paid) == (COMPLETED, 1, [MINE])


async def test_a_result_that_cannot_be_sealed_is_an_unknown_outcome() -> None:
    bureau, agent, safe = Bureau(), hired(), Safe()

    async def program(_: Worker) -> object:
        return len(await safe.open_account())

    async with bureau.process(agent, program, has_sealer=False) as runs:
        state = (await started(runs, agent)).state
        assert (state.status, state.reason, safe.paid) == (*INTERRUPTED, [MINE])
    async with bureau.process(agent, program) as runs:
        await resumed(runs, state.id)
        (question,) = await runs.questions(state.id)
        assert isinstance(question, AgentRecoveryRequest)
        await runs.answer(state.id, question.id, RecoveryDecision.DONE, result=MINE, resume=False)
        done = await resumed(runs, state.id)
        assert (triple(done.state), done.output, safe.paid) == (COMPLETED, len(MINE), [MINE])


@Agent(name="keeper", spec=AgentExecutionSpec(name="keeper", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Keeper:
    async def execute(self, question: str) -> str:
        return question


async def test_a_task_that_cannot_be_sealed_starts_no_child_and_interrupts_the_parent() -> None:
    family = Family(has_sealer=False)

    async def parent(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("payer", "payer", MINE)

    chief = member("parent", parent)
    async with family.process(chief, Payer) as runs:
        state = (await start(runs, chief)).state
        assert (state.status, state.reason) == INTERRUPTED
        assert "must be sealed" in str(state.current_activity)
        assert [each.agent_type for each in await family.states()] == ["parent"]
    family.has_sealer = True
    async with family.process(chief, Payer) as runs:
        assert (await resume(runs, state.id)).output == len(MINE)


async def test_a_child_that_lacks_a_key_interrupts_its_parent_with_its_reason() -> None:
    family, safe = Family(has_sealer=False), Safe()

    async def parent(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("kid", "child", "work")

    async def child(deps: Dependencies, prompt: str) -> object:
        return await safe.pay(MINE)

    agents = (member("parent", parent), member("child", child))
    async with family.process(*agents) as runs:
        state = (await start(runs, agents[0])).state
        kid = await family.state_of("child")
        for each in (state, kid):
            assert (each.status, each.reason) == INTERRUPTED
            assert "'run/tool:pay#1'" in str(each.current_activity)
    family.has_sealer = True
    async with family.process(*agents) as runs:
        assert (await resume(runs, state.id)).output == 1
    assert safe.paid == [MINE]


async def test_a_task_without_sensitive_parts_is_recorded_without_a_key() -> None:
    family = Family(has_sealer=False)

    async def parent(deps: Dependencies, prompt: str) -> object:
        return await deps.runtime.spawn_child("keeper", "keeper", "a plain task")

    chief = member("parent", parent)
    async with family.process(chief, Keeper) as runs:
        assert (await start(runs, chief)).output == "a plain task"


async def test_who_starts_a_run_with_an_input_that_cannot_be_sealed_gets_the_error() -> None:
    family = Family(has_sealer=False)

    @Agent(name="late", spec=AgentExecutionSpec(name="late", recovery=RecoveryStrategy.ACTION_BOUNDARY))
    class Late:
        async def execute(self, iban: Iban) -> int:
            return len(iban)

    family.has_sealer = True
    async with family.process(Late) as runs:
        object.__setattr__(runs.services, "sealer", None)
        with pytest.raises(RecordSealError, match="must be sealed"):
            await runs.start(Late, MINE)
        assert await family.states() == []
