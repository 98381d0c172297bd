"""Steering instructions that are revised or withdrawn before the run takes them in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import pytest
from tests.behaviour.bureau import COMPLETED, DURABLE, Bureau, asked, hired, resumed, started, triple
from tests.behaviour.office import Worker
from tests.behaviour.postbox import STEERING, Parrot

from pilotage import Agent, AgentExecutionSpec, AgentStatus, AgentYield, Progress
from pilotage.agent import AgentSignal, AgentSignalEnd, AgentSteeringUpdate, RunAgentInput, on_signal
from pilotage.agent.evidence import AgentEvidenceKind
from pilotage.agent.ports.leases import has_something_to_do
from pilotage.errors import CallerError, SteeringConflictError
from pilotage.runtime import AgentRuns, next_signal
from pilotage.testing import ScriptedModel, says

STEERED = RunAgentInput("steered", "write a poem", steering_input_required=True)
SUPERSEDED, TAKEN, TOO_LATE = AgentSignalEnd.SUPERSEDED, AgentSignalEnd.TAKEN, AgentSignalEnd.TOO_LATE


@Agent(spec=AgentExecutionSpec(name="poet", recovery=DURABLE, accepted_signals=[STEERING]))
class Poet:
    """Write poems."""


def draft(text: str, revision: int = 1, input_id: str = "a") -> AgentSteeringUpdate:
    return AgentSteeringUpdate(input_id, text, revision, final=False)


def final(text: str, revision: int = 1, input_id: str = "a") -> AgentSteeringUpdate:
    return AgentSteeringUpdate(input_id, text, revision)


def withdrawn(revision: int, input_id: str = "a") -> AgentSteeringUpdate:
    return AgentSteeringUpdate(input_id, revision=revision, withdrawn=True)


async def ends(runs: AgentRuns, run_id: str) -> dict[str, str | None]:
    """The ends of all instructions of a run, by input and revision."""
    sent = await runs.services.signals.list_steering(run_id)
    return {f"{each.payload['input_id']}{each.payload['revision']}": each.end for each in sent}


def users(model: ScriptedModel, request: int = 0) -> Sequence[str]:
    return [message.text for message in model.requests[request].messages if message.role == "user"][1:]


async def test_a_required_instruction_is_the_final_one_and_drafts_let_nothing_begin() -> None:
    bureau, model = Bureau(), ScriptedModel([says("Waves.")])
    async with bureau.process(Poet, None, model=model) as runs:
        run_id = (await started(runs, Poet, STEERED)).state.id
        await runs.steer(run_id, draft("about the s"))
        assert triple((await resumed(runs, run_id)).state)[0] == AgentStatus.INTERRUPTED
        await runs.steer(run_id, draft("about the sea", 2))
        assert (await resumed(runs, run_id)).state.awaits == STEERING.value
        assert model.requests == []
        await runs.steer(run_id, final("about the sea and ships", 3))
        result = await resumed(runs, run_id)
        assert await runs.verify(run_id) > 0
        assert await ends(runs, run_id) == {"a1": TAKEN, "a2": TAKEN, "a3": TAKEN}
    assert triple(result.state) == COMPLETED
    assert users(model) == ["about the sea and ships"]


async def test_a_run_that_has_noted_a_draft_has_nothing_to_do_until_the_final_one_comes() -> None:
    bureau = Bureau()
    async with bureau.process(Poet, None, model=ScriptedModel([])) as runs:
        run_id = (await started(runs, Poet, STEERED)).state.id
        await runs.steer(run_id, draft("about the s"))
        state = (await resumed(runs, run_id)).state
        pending = [each.kind for each in await bureau.store.signals.list_pending(run_id)]
        assert pending == []
        assert not has_something_to_do(state, pending, bureau.clock.now())
        await runs.steer(run_id, final("about the sea", 2))
        assert has_something_to_do(state, [STEERING], bureau.clock.now())


async def test_a_withdrawn_instruction_is_never_used_and_the_run_waits_for_another() -> None:
    bureau, model = Bureau(), ScriptedModel([says("Waves.")])
    async with bureau.process(Poet, None, model=model) as runs:
        run_id = (await started(runs, Poet, STEERED)).state.id
        await runs.steer(run_id, final("about the sea"))
        await runs.steer(run_id, withdrawn(2))
        assert (await resumed(runs, run_id)).state.awaits == STEERING.value
        await runs.steer(run_id, final("about trees", input_id="b"))
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
        assert await ends(runs, run_id) == {"a1": SUPERSEDED, "a2": TAKEN, "b1": TAKEN}
        evidence = [
            each.payload["end"]
            for each in await runs.evidence(run_id)
            if each.kind is AgentEvidenceKind.SIGNAL and "end" in each.payload
        ]
        assert evidence == ["superseded"]
    assert users(model) == ["about trees"]


async def test_an_older_revision_that_comes_after_a_withdrawal_was_noted_is_superseded() -> None:
    bureau, model = Bureau(), ScriptedModel([says("Waves.")])
    async with bureau.process(Poet, None, model=model) as runs:
        run_id = (await started(runs, Poet, STEERED)).state.id
        await runs.steer(run_id, withdrawn(2))
        await resumed(runs, run_id)
    async with bureau.process(Poet, None, model=model) as runs:
        await runs.steer(run_id, final("the older one"))
        assert (await resumed(runs, run_id)).state.awaits == STEERING.value
        assert await ends(runs, run_id) == {"a1": SUPERSEDED, "a2": TAKEN}
        await runs.steer(run_id, final("the newer one", 3))
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
    assert users(model) == ["the newer one"]


async def test_what_was_taken_in_cannot_be_revised() -> None:
    bureau, agent = Bureau(), hired(accepted_signals=[STEERING])
    told: list[str] = []

    async def program(worker: Worker) -> object:
        first = (await asked(worker)).content
        await worker.desk.note("asked")
        run_id = (await worker_runs().list()).runs[0].id
        with pytest.raises(SteeringConflictError) as caught:
            await worker_runs().steer(run_id, final("about trees", 2))
        told.append(str(caught.value))
        assert (caught.value.revision, caught.value.is_taken) == (1, True)
        # The check of the sender is passed by: another process sent it at the same time.
        late = final("about trees", 2)
        await bureau.store.signals.append(
            AgentSignal(late.signal_id(run_id), run_id, STEERING, late.to_payload())
        )
        await worker.desk.note("sent")
        return [first, (await asked(worker)).content]

    found: list[AgentRuns] = []

    def worker_runs() -> AgentRuns:
        return found[0]

    async with bureau.process(agent, program, model=Parrot()) as runs:
        found.append(runs)
        handle = await runs.start(agent, "A-17", steering_input_required=True)
        run_id = (await handle.result()).state.id
        await runs.steer(run_id, final("about the sea"))
        result = await resumed(runs, run_id)
        assert await ends(runs, run_id) == {"a1": TAKEN, "a2": TOO_LATE}
        assert await runs.verify(run_id) > 0
    heard = "user: Well?; user: about the sea"
    assert result.output == [heard, heard]
    assert told == [
        "revision 2 of input 'a' is too late: the run has taken revision 1 in. "
        "Send a new instruction, with another input id."
    ]
    facts = [event.event_type for _, event in bureau.store.outbox]
    assert facts.count("AgentSignalTooLate") == 1


async def test_the_instruction_that_a_run_begins_with_is_not_withdrawn_any_more() -> None:
    bureau, agent = Bureau(), hired(accepted_signals=[STEERING])
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def program(worker: Worker) -> object:
        begun.set()
        await go_on.wait()
        return (await asked(worker)).content

    async with bureau.process(agent, program, model=Parrot()) as runs:
        handle = await runs.start(agent, "A-17", steering_input_required=True)
        run_id = (await handle.result()).state.id
        await runs.steer(run_id, final("about the sea"))
        handle = await runs.resume(run_id)
        await begun.wait()
        await runs.steer(run_id, withdrawn(2))
        go_on.set()
        assert (await handle.result()).output == "user: Well?; user: about the sea"
        assert await ends(runs, run_id) == {"a1": TAKEN, "a2": TOO_LATE}


async def test_a_live_run_heeds_revisions_until_its_next_boundary() -> None:
    bureau, agent = Bureau(), hired(accepted_signals=[STEERING])
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def program(worker: Worker) -> object:
        begun.set()
        await go_on.wait()
        return (await asked(worker)).content

    async with bureau.process(agent, program, model=Parrot()) as runs:
        handle = await runs.start(agent, "A-17")
        await begun.wait()
        await runs.steer(handle.id, final("one"))
        await runs.steer(handle.id, final("two", 2))
        await runs.steer(handle.id, final("other", input_id="b"))
        await runs.steer(handle.id, withdrawn(2, "b"))
        go_on.set()
        assert (await handle.result()).output == "user: Well?; user: two"
        assert await ends(runs, handle.id) == {"a1": SUPERSEDED, "a2": TAKEN, "b1": SUPERSEDED, "b2": TAKEN}


async def test_a_draft_keeps_no_run_from_ending() -> None:
    bureau, model = Bureau(), ScriptedModel([says("Waves.")])
    async with bureau.process(Poet, None, model=model) as runs:
        handle = await runs.start(Poet, "write a poem")
        await runs.steer(handle.id, draft("about the s"))
        assert triple((await handle.result()).state) == COMPLETED
        with pytest.raises(CallerError, match="takes no signals"):
            await runs.steer(handle.id, final("about the sea", 2))
    assert len(model.requests) == 1


async def test_the_same_revision_is_stored_once_and_another_content_is_a_conflict() -> None:
    bureau, model = Bureau(), ScriptedModel([says("Waves.")])
    async with bureau.process(Poet, None, model=model) as runs:
        run_id = (await started(runs, Poet, STEERED)).state.id
        first = await runs.steer(run_id, final("about the sea", 2))
        assert await runs.steer(run_id, final("about the sea", 2)) == first
        with pytest.raises(SteeringConflictError, match="was sent before, with another content"):
            await runs.steer(run_id, final("about trees", 2))
        await resumed(runs, run_id)
        assert (await runs.steer(run_id, final("about the sea", 2))).end is TAKEN
    assert users(model) == ["about the sea"]


async def test_of_two_senders_of_one_input_the_newer_revision_counts_and_the_other_is_refused() -> None:
    bureau, model = Bureau(), ScriptedModel([says("Waves.")])
    async with bureau.process(Poet, None, model=model) as runs:
        run_id = (await started(runs, Poet, STEERED)).state.id
        await runs.steer(run_id, final("of the second", 3))
        with pytest.raises(SteeringConflictError, match="revision 3 was sent before it") as caught:
            await runs.steer(run_id, final("of the first", 2))
        assert (caught.value.input_id, caught.value.revision, caught.value.is_taken) == ("a", 3, False)
        await runs.steer(run_id, final("of its own", input_id="b"))
        await resumed(runs, run_id)
    assert users(model) == ["of the second", "of its own"]


async def test_a_program_that_waits_for_an_instruction_gets_the_final_one() -> None:
    bureau, agent = Bureau(), hired(accepted_signals=[STEERING])

    async def program(worker: Worker) -> object:
        return (await next_signal(STEERING)).payload["text"]

    async with bureau.process(agent, program) as runs:
        run_id = (await started(runs, agent)).state.id
        await runs.steer(run_id, draft("tw"))
        assert (await resumed(runs, run_id)).state.awaits == STEERING.value
        assert await bureau.store.signals.list_pending(run_id) == []
        await runs.steer(run_id, final("two", 2))
        assert (await resumed(runs, run_id)).output == "two"


async def test_a_handler_gets_the_revision_that_counts() -> None:
    seen: list[str] = []

    @Agent(spec=AgentExecutionSpec(name="steered", recovery=DURABLE, accepted_signals=[STEERING]))
    class Steered(Worker):
        """Has a handler for instructions."""

        @on_signal(STEERING)
        async def steer(self, signal: AgentSignal) -> AsyncGenerator[AgentYield[object], None]:
            seen.append(str(signal.payload["text"]))
            yield Progress("steered")

    async def program(worker: Worker) -> object:
        return await worker.desk.note("done")

    bureau = Bureau()
    async with bureau.process(Steered, program) as runs:
        run_id = (await (await runs.start(Steered, "A-17", steering_input_required=True)).result()).state.id
        await runs.steer(run_id, final("one"))
        await runs.steer(run_id, final("two", 2))
        assert triple((await resumed(runs, run_id)).state) == COMPLETED
    assert seen == ["two"]


async def test_an_instruction_without_an_input_is_no_revision_and_cannot_be_revised() -> None:
    bureau, model = Bureau(), ScriptedModel([says("Waves.")])
    async with bureau.process(Poet, None, model=model) as runs:
        run_id = (await started(runs, Poet, STEERED)).state.id
        await runs.signal(run_id, STEERING, {"text": "first"})
        await runs.signal(run_id, STEERING, {"text": "second"})
        with pytest.raises(CallerError, match="is no revision of it"):
            await runs.signal(run_id, STEERING, {"text": "third", "input_id": "a", "revision": "2"})
        with pytest.raises(CallerError, match="has no text"):
            await runs.signal(run_id, STEERING, {"withdrawn": True})
        await resumed(runs, run_id)
    assert users(model) == ["first", "second"]
