"""Short runs that write rows of every kind and stage; ids, times and replies are the same whenever they are run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from decimal import Decimal
from typing import Annotated

from tests.behaviour.bureau import Bureau, Counter, asked, hired, resumed, started
from tests.behaviour.family import Hands, World, member
from tests.behaviour.office import Desk, Worker

from pilotage import (
    PII,
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentStatus,
    AgentYield,
    ApprovalDecision,
    ModelMessage,
    ModelRequest,
    Pod,
    Progress,
    RecoveryStrategy,
    RunAgentInput,
    SensitiveField,
    StructuredOutputSpec,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentExecutionLimits,
    AgentSignal,
    JsonSchemaConstraint,
    JsonValue,
    ModelToolSpec,
    RecoveryDecision,
    on_signal,
)
from pilotage.agent.context import (
    ContextHealthSignal,
    ContextManifest,
    ContextOptimizationAction,
    ContextOptimizationActionKind,
    ContextPack,
    ContextPackRole,
    ContextTokenBudget,
)
from pilotage.agent.ports.architecture import Dependencies, FailurePolicy
from pilotage.agent.ports.handlers import IAgentContextProvider
from pilotage.agent.run_values import AgentContext
from pilotage.context import KeepWithinBudget, SummariseOldTurns
from pilotage.errors import AgentStructuredOutputError, ModelCallError, ToolError
from pilotage.runtime import next_signal, now, random, step, uid
from pilotage.testing import ScriptedModel, StopAfter, calls, fails, says

Story = Callable[[Bureau], Awaitable[str]]
"""Lets a run go as far as it gets; returns its id."""

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
AGENT = hired()
EVENT, WAKE_UP = AgentSignalKind.EXTERNAL_EVENT, AgentSignalKind.SCHEDULER_WAKE_UP


async def actions(bureau: Bureau) -> str:
    """Tool calls that read, change, may not be repeated and fail; a step, values, the result."""

    async def program(worker: Worker) -> object:
        seen = await worker.desk.look("up")
        await worker.desk.note("down")
        receipt = await worker.desk.pay(seen)
        bureau.world.failures["note twice"] = ToolError("written before")
        try:
            await worker.desk.note("twice")
        except ToolError:
            await step("excuse", lambda: _done("sorry"))
        await now()
        await uid()
        await random()
        return receipt.number

    async with bureau.process(AGENT, program) as runs:
        return (await started(runs, AGENT)).state.id


async def model_calls(bureau: Bureau) -> str:
    """Calls of a model: one that replies, one that fails, one whose stream is left, one with a reply of another type."""

    async def program(worker: Worker) -> object:
        reply = await asked(worker)
        with suppress(ModelCallError):
            await asked(worker, "And now?")
        async with aclosing(worker.model.stream(ModelRequest([ModelMessage.user("Then?")]))) as stream:
            async for _ in stream:
                break
        number = ModelRequest([ModelMessage.user("How many?")], output=StructuredOutputSpec.from_type(int))
        with suppress(AgentStructuredOutputError):
            await worker.model.complete(number)
        return reply.content

    script = [
        says("Well.", reasoning="Hm."),
        fails("too busy"),
        says("Left alone."),
        says("Many"),
    ]
    async with bureau.process(AGENT, program, model=ScriptedModel(script)) as runs:
        return (await started(runs, AGENT)).state.id


@Pod
class Vault:
    """Gives results that only the run may see."""

    @agent_tool(effects=ToolEffects.read_only())
    async def account(self, owner: str) -> Annotated[str, SensitiveField(PII.ACCOUNT_ID)]:
        """Look up an account."""
        return f"DE-{owner}"


async def sealed(bureau: Bureau) -> str:
    """A result that is sealed, because readers of the run may not see it."""
    vault = Vault()

    async def program(worker: Worker) -> object:
        return len(await vault.account("Ada"))

    async with bureau.process(AGENT, program) as runs:
        return (await started(runs, AGENT)).state.id


async def _done(what: str) -> str:
    return what


async def failure(bureau: Bureau) -> str:
    """A program that fails."""

    async def program(worker: Worker) -> object:
        raise ToolError("no more")

    async with bureau.process(AGENT, program) as runs:
        return (await started(runs, AGENT)).state.id


async def _refunds(worker: Worker) -> object:
    return (await worker.desk.refund(Decimal(1))).number


async def approval(bureau: Bureau) -> str:
    """A question for approval, answered with other arguments; the take-over by another process, with more time."""
    agent = hired(limits=AgentExecutionLimits(timeout_seconds=60))
    async with bureau.process(agent, _refunds) as runs:
        run_id = (await started(runs, agent)).state.id
        (question,) = await runs.questions(run_id)
    bureau.clock.advance(30)
    async with bureau.process(agent, _refunds) as runs:
        changed: Mapping[str, JsonValue] = {"modified_payload": {"amount": "7"}, "comment": "more"}
        await runs.answer(run_id, question.id, ApprovalDecision.MODIFY, resume=False, **changed)
        await resumed(runs, run_id)
    return run_id


async def waiting(bureau: Bureau) -> str:
    """A run that waits for a person."""
    async with bureau.process(AGENT, _refunds) as runs:
        return (await started(runs, AGENT)).state.id


async def rejection(bureau: Bureau) -> str:
    """An approval that is refused."""
    async with bureau.process(AGENT, _refunds) as runs:
        run_id = (await started(runs, AGENT)).state.id
        (question,) = await runs.questions(run_id)
        await runs.reject(question.id, comment="no", resume=False)
        await resumed(runs, run_id)
    return run_id


async def _pays(worker: Worker) -> object:
    return (await worker.desk.pay(Decimal(5))).number


async def unknown(bureau: Bureau) -> str:
    """A question about an unknown outcome."""
    bureau.world.failures["pay 5"] = ConnectionError("the line broke")
    async with bureau.process(AGENT, _pays) as runs:
        return (await started(runs, AGENT)).state.id


async def unknown_outcome(bureau: Bureau) -> str:
    """A question about an unknown outcome, answered with the result."""
    run_id = await unknown(bureau)
    async with bureau.process(AGENT, _pays) as runs:
        (question,) = await runs.questions(run_id)
        result: JsonValue = {"number": 9, "amount": "5"}
        await runs.answer(run_id, question.id, RecoveryDecision.DONE, resume=False, result=result)
        await resumed(runs, run_id)
    return run_id


async def repetition(bureau: Bureau) -> str:
    """A call that is repeated after a crash by a later version of the agent, once ownership is proven."""

    async def program(worker: Worker) -> object:
        return await worker.desk.note("x")

    run_id = await bureau.dead_process(AGENT, program, fault=StopAfter(2))
    bureau.clock.advance(60)
    changed = hired(version=2)
    async with bureau.process(changed, program) as runs:
        await resumed(runs, run_id)
    return run_id


async def divergence(bureau: Bureau) -> str:
    """A run whose program makes a recorded call with other arguments."""

    def program(what: str) -> Callable[[Worker], Awaitable[object]]:
        async def notes_and_refunds(worker: Worker) -> object:
            await worker.desk.note(what)
            return await _refunds(worker)

        return notes_and_refunds

    async with bureau.process(AGENT, program("x")) as runs:
        run_id = (await started(runs, AGENT)).state.id
    async with bureau.process(AGENT, program("y")) as runs:
        await resumed(runs, run_id)
    return run_id


async def cancellation(bureau: Bureau) -> str:
    """A run that is cancelled in the middle of a call."""
    counter = Counter(bureau.world)

    async def program(worker: Worker) -> object:
        return await counter.send("a")

    async with bureau.process(AGENT, program, counter) as runs:
        handle = await runs.start(AGENT, "A-17")
        await counter.begun["send a"].wait()
        await runs.cancel(handle.id, reason="enough")
    return handle.id


@Agent(spec=AgentExecutionSpec(name="parent", recovery=DURABLE))
class Parent:
    """Leaves its task to another agent."""

    def __init__(self, child: AGENT) -> None:
        self.child = child

    async def execute(self, order: str) -> object:
        return await self.child.execute(order)


async def child(bureau: Bureau) -> str:
    """A child run: the rows of its parent."""
    async with bureau.process(AGENT, _pays, Parent) as runs:
        return (await started(runs, Parent)).state.id


async def rows_of_child(bureau: Bureau) -> str:
    """A child run: its own rows."""
    parent = await child(bureau)
    (found,) = [
        state
        for state in await bureau.store.states.list_by_status(AgentStatus.COMPLETED)
        if state.id != parent
    ]
    return found.id


@Agent(spec=AgentExecutionSpec(name="listener", recovery=DURABLE, accepted_signals=[EVENT, WAKE_UP]))
class Listener:
    """Waits for a signal; a handler takes the ones that come while it asks for something."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def execute(self, order: str) -> object:
        await self.desk.refund(Decimal(1))
        await self.desk.refund(Decimal(2))
        return (await next_signal(WAKE_UP)).id

    @on_signal(EVENT)
    async def heard(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[str], None]:
        """Note a signal."""
        yield Progress(f"heard {signal.id}")


async def signals(bureau: Bureau) -> str:
    """Signals that a handler takes in beside an action, and one that the program waits for."""
    async with bureau.process(Listener) as runs:
        run_id = (await started(runs, Listener)).state.id
        await runs.signal(run_id, EVENT, {"text": "hello"}, id="e1")
        for _ in range(2):
            (question,) = await runs.questions(run_id)
            await runs.approve(question.id, resume=False)
            await resumed(runs, run_id)
        await runs.signal(run_id, WAKE_UP, {"text": "come"}, id="e2")
        await resumed(runs, run_id)
    return run_id


async def folds(bureau: Bureau) -> str:
    """Branches of `gather` and turns of `loop`, each folded when it has ended."""

    async def fails_for_certain() -> str:
        raise ToolError("no branch")

    async def turn(count: int) -> int | None:
        return count + 1 if count < 2 else None

    async def play(deps: Dependencies, prompt: str) -> object:
        sides = (lambda: _done("left"), fails_for_certain)
        first, _ = await deps.runtime.gather("sides", sides, policy=FailurePolicy.COLLECT)
        return [first, await deps.runtime.loop("count", 0, turn)]

    agent = member("folder", play)
    async with bureau.process(agent, None, Hands(World())) as runs:
        return (await started(runs, agent)).state.id


@Agent(
    spec=AgentExecutionSpec(
        name="reader",
        recovery=DURABLE,
        context_budget=ContextTokenBudget(max_tokens=120, reserved_output_tokens=20),
        compaction=[SummariseOldTurns(keep_recent=1, max_summary_chars=200)],
    )
)
class Reader:
    """Read pages."""

    @agent_tool(effects=ToolEffects.read_only())
    async def page(self, number: int) -> str:
        """Read a page."""
        return f"page {number}: " + "word " * 20


async def condensed(bureau: Bureau) -> str:
    """A context that is condensed by a summary."""
    pages = [calls("page", number=number) for number in (1, 2, 3)]
    model = ScriptedModel([*pages, says("Full of words."), says("Read.")])
    async with bureau.process(Reader, model=model) as runs:
        return (await started(runs, Reader, "read three pages")).state.id


@Pod
class Notes(IAgentContextProvider):
    """Provides the same two notes for every model step."""

    async def provide(self, run_input: RunAgentInput, model_step: int) -> AgentContext:
        return AgentContext(
            [ContextPack(each, "A note.", "notes", ContextPackRole.EVIDENCE) for each in "ab"]
        )


@Pod
class DropsRepeated(KeepWithinBudget):
    """Drops packs that repeat others, and asks in vain for a compression."""

    async def select_optimization_actions(
        self, signals: Sequence[ContextHealthSignal], manifest: ContextManifest
    ) -> Sequence[ContextOptimizationAction]:
        kind, targets = ContextOptimizationActionKind, tuple(str(signal.pack_id) for signal in signals)
        refs = tuple(signal.id for signal in signals)
        drop = ContextOptimizationAction("drop", kind.CONTEXT_SLICE_DROP, refs, targets)
        return [drop, ContextOptimizationAction("compress", kind.COMPRESSION)]


async def context_of_provider(bureau: Bureau) -> str:
    """A context that is provided, and changed by a handler."""
    model = ScriptedModel([says("Red.")])
    async with bureau.process(Painter, None, Notes, DropsRepeated, model=model) as runs:
        return (await started(runs, Painter, "Pick.")).state.id


PICK = ModelToolSpec("pick", JsonSchemaConstraint({"type": "object", "properties": {}}), "Pick a colour.")


@Agent(spec=AgentExecutionSpec(name="painter", recovery=DURABLE))
class Painter:
    """Paint."""


async def deferred(bureau: Bureau) -> str:
    """A call that the caller of the run performs."""
    model = ScriptedModel([calls("pick"), says("Red.")])
    async with bureau.process(Painter, model=model) as runs:
        given = RunAgentInput("painting", "Pick.", deferred_tools=(PICK,))
        run_id = (await started(runs, Painter, given)).state.id
        (question,) = await runs.questions(run_id)
        await runs.answer(run_id, question.id, RecoveryDecision.DONE, resume=False, result="red")
        await resumed(runs, run_id)
    return run_id


STORIES: tuple[Story, ...] = (
    actions,
    model_calls,
    sealed,
    failure,
    approval,
    waiting,
    rejection,
    unknown_outcome,
    repetition,
    divergence,
    cancellation,
    child,
    rows_of_child,
    signals,
    folds,
    condensed,
    deferred,
    context_of_provider,
)
WITH_EVENTS = frozenset({actions, child, repetition})
"""The stories whose events for readers are compared too."""
