"""Secrets in an application without a key: nothing can be sealed, so what is stored is plain and has none of them."""

from __future__ import annotations

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
from pilotage.agent import AgentSignalKind, ApprovalDecision, ISecrets, RecoveryDecision, RejectionPolicy
from pilotage.agent.ports.persistence import RunKey
from pilotage.errors import ToolError
from pilotage.runtime import next_signal, step
from pilotage.safety import SecretField, SecretRef
from pilotage.testing import ScriptedModel, calls, says
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
