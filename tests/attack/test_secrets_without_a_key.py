"""Secrets in an application without a key: nothing can be sealed, so what is stored is plain and has none of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Annotated

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Idempotency,
    Pod,
    RecoveryStrategy,
    RunContext,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentContext,
    AgentSignalKind,
    ApprovalDecision,
    ContextFreshness,
    ContextPack,
    ContextPackRole,
    ISecrets,
    JsonSchemaConstraint,
    ModelToolSpec,
    RecoveryDecision,
    RejectionPolicy,
    RunAgentInput,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime import next_signal, step
from pilotage.runtime.journal.seals import Seals
from pilotage.safety import SecretField, SecretRef
from pilotage.testing import ScriptedModel, StopAfter, StopBefore, calls, says
from tests.behaviour.bureau import WAITING, Bureau, hired, resumed, started, triple
from tests.behaviour.office import GATED, OUTSIDE, UNGATED, Worker

pytestmark = pytest.mark.attack("canaries")

SECRET = "correct-horse-battery-staple"
AGENT = hired(
    "keyless", on_rejection=RejectionPolicy.TELL_MODEL, accepted_signals=[AgentSignalKind.USER_MESSAGE]
)


class Vault(ISecrets):
    """Hands out one secret."""

    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return SECRET


@Pod
class Safe:
    """Tools that get a secret, and tools that are given it as text."""

    @agent_tool(effects=ToolEffects.read_only())
    async def unlock(self, key: Annotated[str, SecretField()]) -> str:
        """Open the safe."""
        return f"opened with {key}"

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def put(self, text: str) -> str:
        """Put something in."""
        return f"put {text}"

    @agent_tool(effects=ToolEffects.read_only())
    async def refuse(self) -> str:
        """Fail, and say why."""
        raise ToolError(f"not with {SECRET}")

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=GATED)
    async def pay(self, text: str) -> str:
        """Pay; a person has to allow it."""
        return f"paid {text}"

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED)
    async def wire(self) -> str:
        """Wire money over a line that breaks."""
        raise ConnectionError(SECRET)


SAFE = Safe()
Act = Callable[[], Awaitable[object]]


async def caught(act: Act) -> str:
    try:
        return str(await act())
    except ToolError as error:
        return str(error)


ACTS: dict[str, Act] = {
    "a tool's result": lambda: SAFE.unlock("given by the run"),
    "an argument": lambda: SAFE.put(SECRET),
    "a tool error": SAFE.refuse,
    "a step": lambda: step("look", lambda: {"found": SECRET}, idempotency=Idempotency.IDEMPOTENT),
    "a comment": lambda: SAFE.pay("five"),
    "a gated argument": lambda: SAFE.pay(SECRET),
    "a result of a person": SAFE.wire,
    "a message": lambda: next_signal(AgentSignalKind.USER_MESSAGE),
}


@pytest.mark.parametrize("name", ACTS)
async def test_no_row_state_or_signal_holds_a_secret_and_replay_gives_the_same(name: str) -> None:
    bureau, got = Bureau(), list[str]()

    async def program(worker: Worker) -> object:
        await SAFE.unlock("given by the run")
        got.append(await caught(ACTS[name]))
        await worker.desk.refund(Decimal(1))
        return SECRET

    vault = Vault()
    async with bureau.process(AGENT, program, vault, has_sealer=False) as runs:
        result = await started(runs, AGENT, "A-17")
        run_id = result.state.id
        if name == "a message":
            await runs.signal(run_id, AgentSignalKind.USER_MESSAGE, {"text": f"use {SECRET}"})
            result = await resumed(runs, run_id)
        (question,) = await runs.questions(run_id)
        if name in ("a comment", "a gated argument"):
            await runs.answer(run_id, question.id, ApprovalDecision.REJECT, comment=SECRET, resume=False)
        if name == "a result of a person":
            done = RecoveryDecision.DONE
            await runs.answer(run_id, question.id, done, result=f"{SECRET}!", comment=SECRET, resume=False)
        assert_no_secret(await everything(bureau, run_id))
        if name in ("a comment", "a gated argument", "a result of a person"):
            result = await resumed(runs, run_id)
        assert triple(result.state) == WAITING
    async with bureau.process(AGENT, program, vault, has_sealer=False) as runs:
        assert triple((await resumed(runs, run_id)).state) == WAITING
        (question,) = await runs.questions(run_id)
        await runs.approve(question.id, resume=False)
        assert (await resumed(runs, run_id)).output == SECRET
        events = [event async for event in runs.events(run_id, follow=False)]
        assert (await runs.result(run_id)).output == "[SECRET]"
    live, *replayed = got
    assert replayed == [live] * len(replayed)
    assert SECRET not in live
    assert_no_secret([*await everything(bureau, run_id), repr(events)])


@pytest.mark.parametrize("name", ACTS)
async def test_no_sealed_record_holds_a_secret(name: str) -> None:
    bureau, vault = Bureau(), Vault()

    async def program(worker: Worker) -> object:
        await SAFE.unlock("given by the run")
        await caught(ACTS[name])
        await worker.desk.refund(Decimal(1))
        return SECRET

    async with bureau.process(AGENT, program, vault) as runs:
        run_id = (await started(runs, AGENT, "A-17")).state.id
        if name == "a message":
            await runs.signal(run_id, AgentSignalKind.USER_MESSAGE, {"text": f"use {SECRET}"})
            await resumed(runs, run_id)
    rows = Seals(bureau.store.sealer, RunKey("default", run_id)).opened_rows(await bureau.rows(run_id))
    assert_no_secret([repr((row.action_id, row.record, row.view)) for row in rows])


GOT: list[tuple[str, list[str], str]] = []


def letterbox(default: str) -> Callable[..., Awaitable[str]]:
    """A tool of a release, which may have another default than the one before."""

    @Pod
    class Letterbox:
        @agent_tool(
            effects=OUTSIDE, idempotency=Idempotency.IDEMPOTENT, approval=UNGATED, reads_untrusted=False
        )
        async def post(self, text: str, lines: list[str], how: str = default) -> str:
            """Post a letter."""
            GOT.append((text, lines, how))
            return "posted"

    return Letterbox().post


@pytest.mark.parametrize("has_sealer", [True, False], ids=["key", "no key"])
@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
async def test_a_call_that_is_repeated_after_a_crash_has_its_secret_and_no_mark(
    fault: type[StopBefore | StopAfter], has_sealer: bool
) -> None:
    def posting(post: Callable[..., Awaitable[str]]) -> Callable[[Worker], Awaitable[object]]:
        async def program(worker: Worker) -> object:
            await SAFE.unlock("given by the run")
            return await post(f"with {SECRET}", lines=["dear", SECRET])

        return program

    for commit in range(2, 9):
        GOT.clear()
        bureau, first, second = Bureau(), posting(letterbox("gently")), posting(letterbox("roughly"))
        async with bureau.process(AGENT, first, Vault(), fault=fault(commit), has_sealer=has_sealer) as runs:
            handle = await runs.start(AGENT, "A-17")
            (ended,) = await asyncio.gather(handle.result(), return_exceptions=True)
        run, has_begun = RunKey("default", handle.id), "BEFORE" in repr(await bureau.rows(handle.id))
        bureau.clock.advance(60)
        async with bureau.process(AGENT, second, Vault(), has_sealer=has_sealer) as runs:
            assert (await resumed(runs, handle.id)).output == "posted"
        how = "gently" if has_begun else "roughly"
        assert [(f"with {SECRET}", ["dear", SECRET], how)] * len(GOT) == GOT
        assert GOT
        rows = Seals(bureau.store.sealer, run).opened_rows(await bureau.rows(handle.id))
        assert_no_secret([repr((row.record, row.view)) for row in rows])
        if not isinstance(ended, BaseException):
            return
    raise AssertionError("the run has more commits")


@Agent(spec=AgentExecutionSpec(name="talker", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Talker:
    """Talk."""

    def __init__(self, safe: Safe) -> None:
        self.safe = safe


async def test_a_secret_that_a_model_repeats_is_in_no_turn_and_the_next_run_does_not_know_it() -> None:
    bureau = Bureau()
    model = ScriptedModel([calls("unlock"), says(f"It is {SECRET}."), says(f"As I said: {SECRET}.")])
    async with bureau.process(Talker, None, Safe, Vault(), model=model, has_sealer=False) as runs:
        for words in ("open it", f"was it {SECRET}?"):
            run = await runs.start(Talker, words, conversation_id="talk")
            seen = [event async for event in run.events()]
            result = await run.result()
            assert "[SECRET]" in result.output, "the reply of a model is masked before its program reads it"
            assert_no_secret([*await everything(bureau, run.id), repr(seen), result.output])
    turns = await bureau.store.conversations.load_history("talk")
    assert [turn.message.text for turn in turns] == [
        "open it",
        "It is [SECRET].",
        "was it [SECRET]?",
        "As I said: [SECRET].",
    ]
    assert SECRET not in repr(model.requests)


async def test_a_secret_in_the_context_or_the_tools_of_a_caller_is_in_no_row() -> None:
    bureau = Bureau()
    model = ScriptedModel([calls("unlock"), says("Open."), says("Well.")])
    pack = ContextPack("p", f"use {SECRET}", "notes", ContextPackRole.EVIDENCE, ContextFreshness.CURRENT)
    schema: JsonObject = {"type": "object", "properties": {"a": {"type": "string", "title": SECRET}}}
    tool = ModelToolSpec("pick", JsonSchemaConstraint(schema), f"Pick {SECRET}.")
    given = RunAgentInput("r", "go on", context=AgentContext([pack]), deferred_tools=[tool])
    async with bureau.process(Talker, None, Safe, Vault(), model=model, has_sealer=False) as runs:
        await started(runs, Talker, "open it")
        run_id = (await started(runs, Talker, given)).state.id
        assert_no_secret(await everything(bureau, run_id))
    assert "use [SECRET]" in str(model.requests[-1])
    assert SECRET not in str(model.requests[-1])


async def everything(bureau: Bureau, run_id: str) -> list[str]:
    """All that the store has of a run."""
    store = bureau.store
    rows = [repr(row) async for row in store.journal.read(RunKey("default", run_id))]
    evidence, signals = await store.evidence.list_by_state(run_id), await store.signals.list_pending(run_id)
    turns = await store.conversations.load_history("talk")
    return [*rows, repr((evidence, signals, turns, await store.states.get(run_id), store.outbox))]


def assert_no_secret(texts: list[str]) -> None:
    found = [text for text in texts if SECRET in text]
    assert found == []
