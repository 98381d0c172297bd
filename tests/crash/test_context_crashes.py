"""A run with provided context and context actions, crashed at every write: its model is shown the same, once recorded.

Providers, observers and handlers answer differently each time they are asked, so a decision that is recorded and made
again would be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    Idempotency,
    RecoveryStrategy,
    RunAgentInput,
    RunResult,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentContext,
    AgentEvidenceKind,
    AgentTeammate,
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextPack,
    ContextPackRole,
    ContextRotSymptom,
    DelegationContextSlice,
    DelegationPacket,
    IAgentContextHandler,
    IAgentContextObserver,
    IAgentContextProvider,
    IAgentModel,
    ModelRequest,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelToolCall,
    ModelUsage,
    RunContext,
    RunKey,
    ToolApprovalRequirement,
)
from pilotage.agent.context import ContextTokenBudget
from pilotage.context import KeepRecent
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.testing import (
    Fault,
    FaultyJournal,
    MemoryStore,
    ProcessStopped,
    SeededIds,
    StopAfter,
    StopBefore,
)

STEPS = 4
EACH = ModelUsage(6, 4, 10)
KIND = ContextOptimizationActionKind


@Agent
class Digester:
    """Condense."""


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        refresh_context_each_step=True,
        teammates=[AgentTeammate("digester", Digester)],
        context_budget=ContextTokenBudget(max_tokens=1_000),
        compaction=[KeepRecent(turns=1)],
    )
)
class Clerk:
    """Work through a file."""

    @agent_tool(
        effects=ToolEffects.write_state(),
        idempotency=Idempotency.IDEMPOTENT,
        approval=ToolApprovalRequirement.NOT_REQUIRED,
    )
    async def stamp(self, number: int) -> str:
        """Stamp a page."""
        return f"stamp {number}: " + "ink " * 300


class World:
    """What goes on outside of the processes: answers that differ each time, and what models were shown."""

    def __init__(self) -> None:
        self.answers = count(1)
        self.shown: list[tuple[int, str]] = []


class Search(IAgentContextProvider):
    def __init__(self, world: World) -> None:
        self._world = world

    async def provide(self, run_input: RunAgentInput, model_step: int) -> AgentContext:
        number = next(self._world.answers)
        return AgentContext([pack("found", f"search {number}"), pack("more", f"more {number}")])


def pack(pack_id: str, content: str) -> ContextPack:
    """A pack that no stranger wrote, or the writing tool would need an approval."""
    return ContextPack(pack_id, content, "files", ContextPackRole.EVIDENCE, reads_untrusted=False)


class Observer(IAgentContextObserver):
    async def observe(
        self, context: RunContext, packs: Sequence[ContextPack], manifest: ContextManifest
    ) -> Sequence[ContextHealthSignal]:
        return [
            ContextHealthSignal(f"odd/{pack.id}", ContextRotSymptom.POLLUTED, pack_id=pack.id)
            for pack in packs
        ]


class Handler(IAgentContextHandler):
    """Drops one pack, delegates another, compresses what is too large, asks for a refresh that is refused."""

    async def select_optimization_actions(
        self, signals: Sequence[ContextHealthSignal], manifest: ContextManifest
    ) -> Sequence[ContextOptimizationAction]:
        ids = [entry.pack_id for entry in manifest.entries]
        actions = [ContextOptimizationAction("refresh", KIND.RETRIEVAL_REFRESH)]
        if "more" in ids:
            actions.append(ContextOptimizationAction("drop", KIND.CONTEXT_SLICE_DROP, (), ("more",)))
        if "note" in ids:
            actions.append(
                ContextOptimizationAction("digest", KIND.DELEGATION, (), ("note",), delegation_ref="digester")
            )
        if any(signal.symptom is ContextRotSymptom.OVER_BUDGET for signal in signals):
            actions.append(ContextOptimizationAction("shorten", KIND.COMPRESSION))
        return actions

    async def slice_for_child(
        self, packet: DelegationPacket, packs: Sequence[ContextPack]
    ) -> DelegationContextSlice:
        return packet.context


class Model(IAgentModel):
    """Stamps one page after the other; the reply depends on the number of calls in the transcript alone."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def complete(self, request: ModelRequest) -> ModelResponse:
        return ModelResponse("short", usage=EACH)

    async def stream(self, request: ModelRequest):  # type: ignore[no-untyped-def]
        text = "\n".join(message.text for message in request.messages)
        done = max((n for n in range(1, STEPS) if f"stamp {n}:" in text), default=0)
        if "Condense this material" not in text:
            self._world.shown.append((done, text))
        if "Condense this material" in text or done == STEPS - 1:
            response = ModelResponse(f"Done: {text.count('search')}.", usage=EACH)
        else:
            call = ModelToolCall("stamp", {"number": done + 1}, f"call-{done + 1}")
            response = ModelResponse("", tool_calls=[call], usage=EACH)
            yield ModelStreamEvent(ModelStreamEventKind.TOOL_CALL_CANDIDATE, tool_call=call)
        yield ModelStreamEvent(ModelStreamEventKind.DONE, response=response)


class Bureau:
    """One run, carried on by as many processes as it takes."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.world = World()
        self.ids = SeededIds(1)
        self.commits = 0

    async def carry_through(self, *faults: Fault) -> RunResult:
        result: RunResult | None = None
        for fault in (*faults, None, None):
            result = result or await self._one_process(fault)
        assert result is not None
        return result

    async def _one_process(self, fault: Fault | None) -> RunResult | None:
        journal = FaultyJournal(self.store.journal, fault)
        app = Application("bureau").add(Clerk, Digester, Model(self.world), journal, self.ids)
        app.add(Search(self.world), Observer(), Handler())
        app.add(self.store.states, self.store.signals, self.store.evidence)
        initialize(app)
        async with app:
            try:
                return await self._carried_on(app.get(AgentRuns))
            except ProcessStopped:
                return None
            finally:
                self.commits = max(self.commits, journal.commits)

    async def _carried_on(self, runs: AgentRuns) -> RunResult:
        states = [each for status in AgentStatus for each in await self.store.states.list_by_status(status)]
        known = [each for each in states if each.agent_type == "Clerk"]
        if not known:
            given = RunAgentInput("work", "Stamp all.", context=AgentContext([pack("note", "Ada called.")]))
            return await (await runs.start(Clerk, given)).result()
        if known[0].is_terminal:
            return await runs.result(known[0].id)
        return await (await runs.resume(known[0].id)).result()

    async def check_shown(self, run_id: str) -> None:
        """Compare the context of each recorded reply with the one that the model was shown."""
        provided: dict[int, str] = {}
        async for row in self.store.journal.read(RunKey("default", run_id)):
            call, _, name = row.action_id.rpartition("/")
            if name == "provided":
                found = row.record["given"]["packs"][0]["content"]  # type: ignore[index,call-overload]
                provided[int(call.rpartition("#")[2]) - 1] = f"| {found}"
        assert sorted(provided) == list(range(STEPS))
        last = dict(self.world.shown)
        for step, found in provided.items():
            assert found in last[step]
            assert "| more" not in last[step]
            assert "Ada called" not in last[step]
            assert '<context id="delegated:digest"' in last[step]

    async def proven(self, run_id: str) -> list[tuple[object, object]]:
        """The actions as evidence has them, once each."""
        found = await self.store.evidence.list_by_state(run_id)
        actions = [each.payload for each in found if each.kind is AgentEvidenceKind.CONTEXT_OPTIMIZATION]
        return sorted({(each["action"]["id"], each["stage"]) for each in actions})  # type: ignore[index]


async def undisturbed() -> tuple[Bureau, RunResult]:
    bureau = Bureau()
    return bureau, await bureau.carry_through()


async def test_the_run_does_all_that_can_be_done_to_a_context() -> None:
    bureau, result = await undisturbed()
    assert result.status is AgentStatus.COMPLETED
    proven = await bureau.proven(result.state.id)
    assert [action for action, stage in proven if stage == "after"] == [
        "digest",
        "drop",
        "refresh",
        "shorten",
    ]


@pytest.mark.parametrize("stop", [StopBefore, StopAfter])
async def test_a_run_goes_on_after_every_write_with_what_was_decided(stop: Callable[[int], Fault]) -> None:
    reference, expected = await undisturbed()
    proven = await reference.proven(expected.state.id)
    for number in range(1, reference.commits + 1):
        bureau = Bureau()
        result = await bureau.carry_through(stop(number))
        assert (result.status, result.output) == (expected.status, expected.output), number
        assert result.spent == expected.spent, number
        assert await bureau.proven(result.state.id) == proven, number
        await bureau.check_shown(result.state.id)


async def test_a_second_crash_while_the_run_comes_back_changes_nothing() -> None:
    reference, expected = await undisturbed()
    for number in range(2, reference.commits + 1, 2):
        for again in (1, 2, 3):
            bureau = Bureau()
            result = await bureau.carry_through(StopAfter(number), StopBefore(again))
            assert (result.output, result.spent) == (expected.output, expected.spent), (number, again)
