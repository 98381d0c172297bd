"""Secrets of runs that another process goes on with: whatever was handed out to calls of the run is masked there too."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Annotated

import pytest

from pilotage import AgentStatus, Pod, RunContext, ToolEffects, agent_tool
from pilotage.agent import ISecrets
from pilotage.agent.ports.architecture import Dependencies
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import CallerError, PermissionDeniedError, ToolError
from pilotage.safety import SecretField, SecretRef
from pilotage.testing import ProcessStopped, StopAfter
from tests.behaviour.family import Family, member, resume, start

pytestmark = pytest.mark.attack("canaries")

SECRET = "correct-horse-battery-staple"


class Vault(ISecrets):
    """Hands out one secret, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        self.asked.append(ref.id)
        return SECRET


@Pod
class Safe:
    """Tools that get a secret, directly or through another tool."""

    @agent_tool(effects=ToolEffects.read_only())
    async def unlock(self, key: Annotated[str, SecretField(label="safe-key")]) -> str:
        """Open the safe."""
        return "open"

    @agent_tool(effects=ToolEffects.read_only())
    async def look_inside(self) -> str:
        """Look into the safe."""
        return await self.unlock("given by the run")

    @agent_tool(effects=ToolEffects.read_only())
    async def fail(self, key: Annotated[str, SecretField(label="safe-key")]) -> str:
        """Fail to open it."""
        raise ToolError("it is stuck")


SAFE = Safe()


async def unlocked() -> str:
    return await SAFE.unlock("given by the run")


async def stuck() -> str:
    try:
        return await SAFE.fail("given by the run")
    except ToolError as error:
        return str(error)


async def one_turn(_: str) -> str | None:
    return None if _ else await unlocked()


Use = Callable[[Dependencies], Awaitable[object]]
USES: dict[str, Use] = {
    "a call": lambda deps: unlocked(),
    "a failed call": lambda deps: stuck(),
    "a call inside a tool": lambda deps: SAFE.look_inside(),
    "a folded branch": lambda deps: deps.runtime.gather("sides", [unlocked, unlocked]),
    "a folded branch that failed": lambda deps: deps.runtime.gather("sides", [stuck]),
    "a tool in a folded branch": lambda deps: deps.runtime.gather("sides", [SAFE.look_inside]),
    "a folded turn": lambda deps: deps.runtime.loop("turns", "", one_turn),
    "a turn in a branch": lambda deps: deps.runtime.gather(
        "sides", [partial(deps.runtime.loop, "turns", "", one_turn)]
    ),
}


class Locked(ISecrets):
    """Hands out nothing."""

    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        raise PermissionDeniedError(f"{context.principal.id} may not have {ref.id!r}")


@pytest.mark.parametrize("use", ["a failed call", "a folded branch that failed"])
async def test_a_run_whose_call_got_no_secret_goes_on_without_it(use: str) -> None:
    family = Family(has_sealer=False)

    async def play(deps: Dependencies, prompt: str) -> object:
        await USES[use](deps)
        return await family.hands.ask("paused here")

    agent = member("keeper", play)
    async with family.process(agent, add=[Locked()]) as runs:
        run_id = (await start(runs, agent)).state.id
    async with family.process(agent, add=[Locked()]) as runs:
        await family.answer(runs, run_id)
        assert (await resume(runs, run_id)).state.status is AgentStatus.COMPLETED


@pytest.mark.parametrize("use", USES)
async def test_the_secrets_of_replayed_calls_are_masked_in_another_process(use: str) -> None:
    family, vault = Family(has_sealer=False), Vault()

    async def play(deps: Dependencies, prompt: str) -> object:
        await USES[use](deps)
        await family.hands.ask("paused here")
        yielded = f"the key is {SECRET}"
        await deps.tell(deps.progress(yielded))
        return yielded

    agent = member("keeper", play)
    async with family.process(agent, add=[vault]) as runs:
        run_id = (await start(runs, agent)).state.id
    assert "safe-key" in vault.asked
    vault.asked.clear()
    async with family.process(agent, add=[vault]) as runs:
        await family.answer(runs, run_id)
        assert (await resume(runs, run_id)).state.status is AgentStatus.COMPLETED
        events = [event async for event in runs.events(run_id, follow=False)]
        result = await runs.result(run_id)
    rows = [repr(row) async for row in family.store.journal.read(RunKey("default", run_id))]
    assert vault.asked
    assert SECRET not in repr((rows, events, result, await family.store.states.get(run_id)))


@pytest.mark.parametrize("use", ["a folded branch", "a tool in a folded branch", "a folded turn"])
@pytest.mark.parametrize("commit", range(1, 9))
async def test_the_secrets_are_masked_after_a_crash_behind_any_commit(use: str, commit: int) -> None:
    family, vault = Family(has_sealer=False), Vault()

    async def play(deps: Dependencies, prompt: str) -> object:
        await USES[use](deps)
        await family.hands.write("once")
        return f"the key is {SECRET}"

    agent = member("keeper", play)
    async with family.process(agent, fault=StopAfter(commit), add=[vault]) as runs:
        with suppress(ProcessStopped):
            await start(runs, agent)
    run_id = (await family.state_of("keeper")).id
    async with family.process(agent, add=[vault]) as runs:
        with suppress(CallerError):  # it may have ended already
            await resume(runs, run_id)
    rows = [repr(row) async for row in family.store.journal.read(RunKey("default", run_id))]
    assert SECRET not in repr((rows, await family.store.states.get(run_id)))
    assert set(family.world.done.values()) <= {1}
