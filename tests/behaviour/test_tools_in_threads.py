"""Tools that are called by threads, and tools that are called outside every run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    ApprovalDecision,
    IAgentModel,
    Pod,
    RecoveryStrategy,
    RunContext,
    ToolEffects,
    agent_tool,
    plain_calls,
)
from pilotage.agent import ToolApprovalRequirement
from pilotage.agent.ports.handlers import IAgentHooks
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.state import AgentState
from pilotage.errors import AgentToolDispatchError
from pilotage.runtime import AgentRuns, step
from pilotage.runtime.plugin import initialize
from pilotage.testing import MemoryStore, ScriptedModel, calls, says

READS = ToolEffects.read_only()
DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)


@Pod
class Shelf:
    def __init__(self) -> None:
        self.done: list[str] = []

    @agent_tool(effects=READS)
    def look(self, item: str) -> str:
        """Look for an item."""
        self.done.append(f"look {item}")
        return f"{item} is there"

    @agent_tool(effects=READS)
    def look_for_all(self) -> list[str]:
        """Look for everything, one by one."""
        return [self.look("apple"), self.look("pear")]

    @agent_tool(effects=READS)
    def order_and_look(self) -> str:
        """Order, then look."""
        return f"{self.order('apple')}, {self.look('apple')}"

    @agent_tool(effects=READS)
    def think(self) -> str:
        """Ask a model, in a thread."""
        return asyncio.run(_asked(ScriptedModel([])))

    @agent_tool(effects=ToolEffects.write_state(), approval=ToolApprovalRequirement.REQUIRED)
    def order(self, item: str) -> str:
        """Order an item."""
        self.done.append(f"order {item}")
        return f"{item} ordered"


async def _asked(model: IAgentModel) -> str:
    return await step("think", lambda: "thought", returns=str)


@Agent(spec=DURABLE)
class Clerk:
    """Look after the shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf


Body = Callable[[Shelf], object]


@Agent(spec=DURABLE)
class Worker:
    def __init__(self, shelf: Shelf) -> None:
        self.shelf = shelf

    async def execute(self) -> str:
        found = await asyncio.gather(
            *(asyncio.to_thread(self.shelf.look, item) for item in ("apple", "pear"))
        )
        # A wait for a person: what the threads did is replayed afterwards.
        ordered = await asyncio.to_thread(self.shelf.order, "plum")
        return ", ".join([*found, ordered])


@asynccontextmanager
async def office(
    store: MemoryStore, shelf: Shelf, *replies: object, hooks: object = None
) -> AsyncIterator[AgentRuns]:
    pods = [hooks] if hooks else []
    app = Application("office").add(Clerk, Worker, shelf, ScriptedModel(replies), *pods, *store.ports)  # type: ignore[arg-type]
    initialize(app)
    async with asyncio.timeout(120), app:
        yield app.get(AgentRuns)


async def test_a_tool_in_a_thread_calls_a_tool_that_reads_with_a_row() -> None:
    store, shelf = MemoryStore(), Shelf()
    async with office(store, shelf, calls("look_for_all"), says("Both.")) as runs:
        handle = await runs.start(Clerk, "What is there?")
        assert (await handle.result()).output == "Both."
    rows = [row.action_id async for row in store.journal.read(RunKey("default", handle.id))]
    assert sum("tool:look#" in row and "look_for_all" in row for row in rows) == 2, rows
    assert shelf.done == ["look apple", "look pear"]


async def test_threads_of_a_program_call_tools_and_replay_calls_nothing_again() -> None:
    store, shelf = MemoryStore(), Shelf()
    async with office(store, shelf) as runs:
        handle = await runs.start(Worker)
        assert (await handle.result()).status is AgentStatus.INTERRUPTED
        assert sorted(shelf.done) == ["look apple", "look pear"]
        (question,) = await runs.questions(handle.id)
        await runs.answer(handle.id, question.id, ApprovalDecision.APPROVE)
        result = await (await runs.resume(handle.id)).result()
        assert result.output == "apple is there, pear is there, plum ordered"
        assert sorted(shelf.done) == ["look apple", "look pear", "order plum"]
        assert await runs.verify(handle.id) > 0


async def test_a_tool_in_a_thread_waits_for_an_approval_like_any_other() -> None:
    store, shelf = MemoryStore(), Shelf()
    async with office(store, shelf, calls("order_and_look"), says("Done.")) as runs:
        handle = await runs.start(Clerk, "Order.")
        assert (await handle.result()).status is AgentStatus.INTERRUPTED
        assert shelf.done == []
        (question,) = await runs.questions(handle.id)
        await runs.answer(handle.id, question.id, ApprovalDecision.APPROVE)
        assert (await (await runs.resume(handle.id)).result()).output == "Done."
    assert shelf.done == ["order apple", "look apple"]


async def test_models_and_steps_are_refused_in_a_thread_and_say_where_they_belong() -> None:
    shelf = Shelf()
    model = ScriptedModel([calls("think"), says("Well.")])
    app = Application("office").add(Clerk, shelf, model, *MemoryStore().ports)
    initialize(app)
    async with asyncio.timeout(120), app:
        result = await (await app.get(AgentRuns).start(Clerk, "Think.")).result()
    assert result.output == "Well."
    assert "event loop of the run" in str(model.requests[-1].messages[-1].content)


class Late(IAgentHooks):
    def __init__(self, shelf: Shelf) -> None:
        self.shelf, self.met = shelf, list[str]()

    async def post_run(self, context: RunContext, state: AgentState) -> None:
        self.met.append(self.shelf.look("late"))
        try:
            self.shelf.order("late")
        except AgentToolDispatchError as error:
            self.met.append(str(error))


async def test_a_hook_reads_plainly_and_is_refused_what_needs_a_run() -> None:
    store, shelf = MemoryStore(), Shelf()
    hook = Late(shelf)
    async with office(store, shelf, says("Nothing to do."), hooks=hook) as runs:
        assert (await (await runs.start(Clerk, "Wait.")).result()).output == "Nothing to do."
    assert hook.met[0] == "late is there"
    assert hook.met[1].startswith("Shelf.order is called outside every run")


async def test_outside_every_run_reading_is_plain_and_the_rest_needs_to_be_meant() -> None:
    shelf = Shelf()
    async with office(MemoryStore(), shelf):
        assert shelf.look("apple") == "apple is there"
        with pytest.raises(AgentToolDispatchError, match=r"write: with plain_calls\(\)"):
            shelf.order("apple")
        with plain_calls():
            assert shelf.order("apple") == "apple ordered"
        with pytest.raises(AgentToolDispatchError, match="outside every run"):
            shelf.order("apple")


def test_an_instance_made_by_hand_is_a_plain_object() -> None:
    assert Shelf().order("apple") == "apple ordered"


async def test_plain_calls_change_nothing_inside_a_run() -> None:
    store, shelf = MemoryStore(), Shelf()

    @Agent(spec=DURABLE)
    class Sly:
        def __init__(self, shelf: Shelf) -> None:
            self.shelf = shelf

        async def execute(self) -> str:
            with plain_calls():
                return await asyncio.to_thread(self.shelf.order, "apple")

    app = Application("office").add(Sly, shelf, *store.ports)
    initialize(app)
    async with asyncio.timeout(120), app:
        result = await (await app.get(AgentRuns).start(Sly)).result()
    assert (result.status, shelf.done) == (AgentStatus.INTERRUPTED, [])


async def test_a_thread_that_outlives_its_run_is_refused() -> None:
    store, shelf, ended = MemoryStore(), Shelf(), threading.Event()
    met: list[BaseException] = []

    @Agent(spec=DURABLE)
    class Leaves:
        def __init__(self, shelf: Shelf) -> None:
            self.shelf = shelf

        async def execute(self) -> str:
            asyncio.get_running_loop().run_in_executor(None, _later, self.shelf)
            return "left"

    def _later(shelf: Shelf) -> None:
        ended.wait(120)
        try:
            shelf.order("late")
        except AgentToolDispatchError as error:
            met.append(error)

    app = Application("office").add(Leaves, shelf, *store.ports)
    initialize(app)
    async with asyncio.timeout(120), app:
        assert (await (await app.get(AgentRuns).start(Leaves)).result()).output == "left"
        ended.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert len(met) == 1
    assert shelf.done == []
