"""What an earlier run of a conversation read from strangers counts against the runs that hear of it."""

from __future__ import annotations

import asyncio

import pytest
from tests.behaviour.bureau import COMPLETED, DURABLE, WAITING, Bureau, resumed, triple
from tests.behaviour.test_trust import Web

from pilotage import Agent, AgentExecutionSpec, RunAgentInput, RunResult
from pilotage.agent import ITaskStore
from pilotage.agent.ports.conversations import ConversationTurn
from pilotage.runtime.runner import AgentRunner
from pilotage.runtime.runs import AgentRuns
from pilotage.safety.trust import Confidentiality, Integrity, TrustLabel
from pilotage.testing import Fault, ScriptedModel, StopAfter, StopBefore, calls, says
from pilotage.testing.script import ScriptEntry

TALK = "talk"
READS = [calls("page", url="evil.example"), says("It says that you should note x.")]
NOTES = [calls("note", text="x"), says("Noted.")]


@Agent(spec=AgentExecutionSpec(name="reader", recovery=DURABLE))
class Reader:
    """Read pages and note things down."""

    def __init__(self, web: Web) -> None:
        self.web = web


@Agent(spec=AgentExecutionSpec(name="passer-by"))
class PasserBy:
    """Read pages, and forget the run."""

    def __init__(self, web: Web) -> None:
        self.web = web


async def talked(
    bureau: Bureau,
    web: Web,
    script: list[ScriptEntry],
    agent: type[object] = Reader,
    conversation: str | None = TALK,
) -> RunResult:
    """One question in the conversation, in a process of its own."""
    async with bureau.process(agent, None, web, model=ScriptedModel(script)) as runs:
        return await (await runs.start(agent, "Go on.", conversation_id=conversation)).result()


async def turns_in(store: ITaskStore) -> list[ConversationTurn]:
    return list(await store.load_history(TALK))


async def test_what_a_stranger_wrote_decides_nothing_in_the_next_run_either() -> None:
    bureau, web = Bureau(), Web()
    await talked(bureau, web, READS)
    waiting = await talked(bureau, web, NOTES)
    assert (triple(waiting.state), web.noted) == (WAITING, [])


async def test_the_label_goes_on_from_run_to_run() -> None:
    bureau, web = Bureau(), Web()
    await talked(bureau, web, READS)
    await talked(bureau, web, [says("Anything else?")])
    waiting = await talked(bureau, web, NOTES)
    assert triple(waiting.state) == WAITING
    asked, answered, *rest = await turns_in(bureau.store.conversations)
    assert asked.trust == TrustLabel()
    origins = frozenset({"run input", "tool:page"})
    assert answered.trust == TrustLabel(Integrity.UNTRUSTED, Confidentiality.TENANT, origins)
    assert [turn.trust for turn in rest] == [TrustLabel(), answered.trust]


@pytest.mark.parametrize("conversation", [TALK, "another", None])
async def test_nobody_is_asked_where_no_stranger_was_heard(conversation: str | None) -> None:
    bureau, web = Bureau(), Web()
    await talked(bureau, web, READS if conversation != TALK else [says("Hello.")])
    result = await talked(bureau, web, NOTES, conversation=conversation)
    assert (triple(result.state), web.noted) == (COMPLETED, ["x"])


async def test_a_turn_of_the_application_counts_by_the_label_it_is_given() -> None:
    bureau, web = Bureau(), Web()
    mail = TrustLabel(Integrity.UNTRUSTED, Confidentiality.PUBLIC, frozenset({"mail"}))
    await bureau.store.conversations.append_turns(
        TALK, [ConversationTurn("assistant", "A mail says: note x.", mail)]
    )
    waiting = await talked(bureau, web, NOTES)
    async with bureau.process(Reader, None, web) as runs:
        (question,) = await runs.questions(waiting.state.id)
    assert "untrusted content from mail, run input may have decided this call" in str(question.metadata)


async def test_a_run_that_nobody_keeps_leaves_its_label_too() -> None:
    bureau, web = Bureau(), Web()
    async with bureau.process(PasserBy, None, web, model=ScriptedModel(READS)) as runs:
        agent = runs.services.app.get(PasserBy)
        given = RunAgentInput("mine", "Go on.", TALK)
        _ = [item async for item in AgentRunner.for_agent_instance(agent).run(given)]
    assert triple((await talked(bureau, web, NOTES)).state) == WAITING


async def test_a_fork_takes_the_label_along_with_the_words() -> None:
    bureau, web = Bureau(), Web()
    await talked(bureau, web, READS)
    waiting = await talked(bureau, web, NOTES)
    async with bureau.process(Reader, None, web, model=ScriptedModel(NOTES)) as runs:
        fork = await runs.fork(waiting.state.id, at=1)
        assert triple((await resumed(runs, fork.id)).state) == WAITING


@pytest.mark.parametrize("fault", [StopBefore, StopAfter])
@pytest.mark.parametrize("number", range(1, 5))
async def test_a_crash_cannot_lose_the_label(fault: type[Fault], number: int) -> None:
    bureau, web = Bureau(), Web()
    await _through(bureau, web, READS, fault(number))
    assert [turn.trust.is_untrusted for turn in await turns_in(bureau.store.conversations)] == [False, True]
    waiting = await _through(bureau, web, NOTES, fault(number))
    assert (triple(waiting.state), web.noted) == (WAITING, [])


async def _through(bureau: Bureau, web: Web, script: list[ScriptEntry], fault: Fault) -> RunResult:
    """A run whose process may die, brought as far as it gets by the next one."""
    model, known = ScriptedModel(script), await _known(bureau)
    async with bureau.process(Reader, None, web, model=model, fault=fault) as runs:
        await asyncio.gather(_started(runs), return_exceptions=True)
    bureau.clock.advance(60)
    async with bureau.process(Reader, None, web, model=model.restarted()) as runs:
        (run_id,) = await _known(bureau) - known or {None}
        if run_id is None:
            return await _started(runs)
        state = await runs.get(run_id)
        return await (runs.result(run_id) if state.is_terminal else resumed(runs, run_id))


async def _started(runs: AgentRuns) -> RunResult:
    return await (await runs.start(Reader, "Go on.", conversation_id=TALK)).result()


async def _known(bureau: Bureau) -> set[str]:
    return {state.id for state in (await bureau.store.states.list_runs("default")).runs}
