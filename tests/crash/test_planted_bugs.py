"""Planted bugs: each breaks one rule of durability, and a probe through the public surface must notice it.

This is the one place where our own code is patched, because a test of the tests needs a broken runtime. A probe
passes on the runtime as it is, and fails by an assertion as soon as its bug is planted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from decimal import Decimal
from functools import partial
from typing import Annotated

import pytest

from pilotage import (
    Agent,
    AgentExecutionSpec,
    AgentSignalKind,
    AgentStatus,
    AgentYield,
    Application,
    ApprovalDecision,
    Final,
    ModelMessage,
    ModelRequest,
    Pod,
    Progress,
    RecoveryStrategy,
    RunContext,
    SecretField,
    agent_tool,
)
from pilotage.agent import (
    AgentEvent,
    AgentEventKind,
    AgentRef,
    AgentSession,
    CommitOutcome,
    Dependencies,
    HookVerdict,
    IAgentHooks,
    IAgentJournal,
    ISecrets,
    JournalCommit,
    JournalStage,
    ModelToolCall,
    Proceed,
    RecoveryDecision,
    SecretRef,
    StepStartedEvent,
    Veto,
)
from pilotage.agent.recovery import AgentActionKind
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonValue
from pilotage.runtime import AgentRuns
from pilotage.runtime.door.step import step
from pilotage.runtime.journal.lease import LeaseSettings
from pilotage.runtime.plugin import initialize
from pilotage.testing import (
    ProcessStopped,
    ScriptedModel,
    StopAfter,
    StopBefore,
    VirtualClock,
    calls,
    says,
    turn,
)
from tests.behaviour import (
    test_external_events,
    test_kill_switches,
    test_no_signal_is_ignored,
    test_sealed_signals,
)
from tests.behaviour.office import (
    OUTSIDE,
    UNGATED,
    Clerk,
    Desk,
    Office,
    PatientClerk,
    Program,
    Worker,
    answer,
    resume,
    start,
)
from tests.crash import planted, test_signal_crashes
from tests.crash.machine import DistantJournal
from tests.crash.process import Processes, assert_done_right

APPROVE, REJECT = ApprovalDecision.APPROVE, ApprovalDecision.REJECT
QUESTION = ModelRequest([ModelMessage.user("How much?")])

Bug = Callable[[planted.Planting], None]
Probe = Callable[[], Awaitable[None]]


async def ended(attempt: Awaitable[object]) -> None:
    """Wait for an attempt, whatever it ends with: a probe looks at what came of it."""
    await asyncio.gather(attempt, return_exceptions=True)


async def pay(worker: Worker) -> object:
    return (await worker.desk.pay(Decimal(1))).number


async def refund(worker: Worker) -> object:
    return (await worker.desk.refund(Decimal(5))).number


async def refund_twice(worker: Worker) -> object:
    return [await refund(worker), await refund(worker)]


async def pay_then_wait(worker: Worker) -> object:
    """A payment may be refused; then the run waits for a person."""
    try:
        await worker.desk.pay(Decimal(1))
    except ToolError as error:
        await worker.desk.note(str(error))
    return await refund(worker)


async def a_death_around_any_effect_repeats_nothing() -> None:
    for moment in ("dies_before", "dies_after"):
        for number in range(1, 5):
            processes = Processes()
            setattr(processes.world, moment, number)
            assert_done_right(processes, await processes.carry_through())


async def only_the_approval_is_asked_where_a_tool_can_find_out() -> None:
    processes = Processes()
    processes.world.dies_after = 3
    assert_done_right(processes, await processes.carry_through())
    assert len(processes.answered) == 1


async def an_undisturbed_run_ends_well() -> None:
    office = Office()
    async with office.process(pay) as runs:
        handle = await runs.start(Clerk, "A-17")
        await ended(handle.result())
        assert (await runs.get(handle.id)).status is AgentStatus.COMPLETED


async def an_owner_who_lost_the_run_does_not_act() -> None:
    office = Office()
    reached, opened = asyncio.Event(), asyncio.Event()

    async def held(worker: Worker) -> object:
        reached.set()
        await opened.wait()
        return await pay(worker)

    async with office.process(held) as owner, office.process(pay) as taker:
        handle = await owner.start(Clerk, "A-17")
        await reached.wait()
        await resume(taker, handle.id)
        opened.set()
        await ended(handle.result())
    assert office.world.done == ["pay 1"]


async def of_two_who_resume_at_once_one_acts() -> None:
    office = Office()

    async def note(worker: Worker) -> object:
        return await worker.desk.note("paid")

    office.world.failures["note paid"] = ProcessStopped("while noting")
    async with office.process(note) as runs:
        handle = await runs.start(Clerk, "A-17")
        await ended(handle.result())
    async with office.process(note) as one, office.process(note) as other:
        await asyncio.gather(*(ended(resume(runs, handle.id)) for runs in (one, other)))
    assert [knock[0] for knock in office.world.knocks] == ["note paid", "note paid"]


async def a_second_call_is_asked_about_again() -> None:
    office = Office()
    async with office.process(refund_twice) as runs:
        run_id = (await start(runs)).state.id
        await answer(runs, run_id, APPROVE)
        assert office.world.done == ["refund 5"]
        assert len(await runs.questions(run_id)) == 1


async def a_second_unknown_outcome_is_asked_about_again() -> None:
    office = Office()
    async with office.process(pay) as runs:
        office.world.failures["pay 1"] = OSError("line is dead")
        run_id = (await start(runs)).state.id
        (first,) = await runs.questions(run_id)
        office.world.failures["pay 1"] = OSError("line is dead again")
        await ended(answer(runs, run_id, RecoveryDecision.RETRY))
        asked = [request.id for request in await runs.questions(run_id)]
    assert len(asked) == 1
    assert asked != [first.id]
    assert [knock[2] for knock in office.world.knocks] == [1, 2]


async def awaiting_in_another_order_is_no_other_program() -> None:
    office = Office()

    async def in_order(worker: Worker) -> object:
        first, second = worker.desk.note("a"), worker.desk.note("b")
        return [await first, await second, await refund(worker)]

    async def backwards(worker: Worker) -> object:
        first, second = worker.desk.note("a"), worker.desk.note("b")
        return [await second, await first, await refund(worker)]

    async with office.process(in_order) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(backwards) as runs:
        result = await answer(runs, run_id, APPROVE)
    assert result.status is AgentStatus.COMPLETED


async def another_argument_interrupts_the_run() -> None:
    async def pay_more(worker: Worker) -> object:
        await worker.desk.pay(Decimal(2))
        return await refund(worker)

    await assert_diverges(pay_more)


async def an_action_left_out_interrupts_the_run() -> None:
    async def do_nothing(worker: Worker) -> object:
        return "done"

    await assert_diverges(do_nothing)


async def assert_diverges(changed: Callable[[Worker], Awaitable[object]]) -> None:
    """A program that was changed behind a payment stops and says why."""
    office = Office()
    async with office.process(pay_then_wait) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(changed) as runs:
        state = (await resume(runs, run_id)).state
    assert state.status is AgentStatus.INTERRUPTED
    assert "divergence" in state.metadata


async def what_is_done_is_not_done_again() -> None:
    office = Office()
    async with office.process(pay_then_wait) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(pay_then_wait) as runs:
        await ended(answer(runs, run_id, APPROVE))
        assert (await runs.get(run_id)).status is AgentStatus.COMPLETED
    assert office.world.done == ["pay 1", "refund 5"]


async def a_refused_payment_stays_refused() -> None:
    office = Office()
    office.world.failures["pay 1"] = ToolError("no money")
    async with office.process(pay_then_wait) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(pay_then_wait) as runs:
        await answer(runs, run_id, APPROVE)
        assert (await runs.get(run_id)).status is AgentStatus.COMPLETED
    assert office.world.done == ["note no money", "refund 5"]


async def an_unknown_outcome_is_left_to_a_person() -> None:
    office = Office()
    office.world.failures["pay 1"] = OSError("line is dead")
    async with office.process(pay_then_wait) as runs:
        run_id = (await start(runs)).state.id
        (request,) = await runs.questions(run_id)
    assert "It is not known" in str(getattr(request, "reason", ""))
    assert office.world.done == []


async def an_answer_is_used_up() -> None:
    office = Office()
    async with office.process(refund) as runs:
        run_id = (await start(runs)).state.id
        await answer(runs, run_id, APPROVE)
        assert (await runs.result(run_id)).late_signals == ()
    assert await office.store.signals.list_pending(run_id) == []


async def an_answer_and_what_it_allows_are_one_commit() -> None:
    office = Office()
    async with office.process(refund) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(refund, fault=StopAfter(2)) as runs:
        await ended(answer(runs, run_id, APPROVE))
    begun = [(row.action_id, row.stage) for row in await office.rows(run_id)]
    assert await office.store.signals.list_pending(run_id) == []
    assert ("run/tool:refund#1", JournalStage.BEFORE) in begun


async def nobody_hears_of_an_end_that_is_not_committed() -> None:
    office = Office()
    told: list[AgentEvent] = []

    async def listen(events: AsyncIterator[AgentEvent]) -> None:
        told.extend([event async for event in events])

    async with office.process(pay, fault=StopBefore(3)) as runs:
        handle = await runs.start(Clerk, "A-17")
        await asyncio.gather(handle.result(), listen(handle.events()), return_exceptions=True)
    assert office.world.done == ["pay 1"]
    assert [event.kind for event in told] == [AgentEventKind.RUN_STARTED]


async def work_is_stopped_when_the_cancellation_is_recorded() -> None:
    office = Office()
    reached = asyncio.Event()
    seen: list[AgentStatus] = []

    async def hold() -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            (state,) = await office.store.states.list_resume_candidates()
            seen.append(state.status)

    async with office.process(lambda _: step("hold", hold)) as runs:
        handle = await runs.start(Clerk, "A-17")
        await reached.wait()
        await ended(runs.cancel(handle.id))
        await ended(handle.result())
    assert seen == [AgentStatus.CANCELLING]


async def siblings_of_a_waiting_branch_come_to_their_end() -> None:
    office = Office()

    async def sibling(worker: Worker) -> None:
        await worker.desk.note("early")
        for _ in range(20):
            await asyncio.sleep(0)
        await worker.desk.note("late")

    async def both(worker: Worker) -> object:
        await asyncio.gather(refund(worker), sibling(worker))

    async with office.process(both) as runs:
        await start(runs)
    assert office.world.done == ["note early", "note late"]


async def an_end_comes_behind_what_is_under_way() -> None:
    office = Office()
    reached = asyncio.Event()

    async def work() -> None:
        reached.set()
        for _ in range(20):
            await asyncio.sleep(0)

    async def hasty(worker: Worker) -> object:
        task = asyncio.create_task(step("work", work))
        await reached.wait()
        return task.done()

    async with office.process(hasty) as runs:
        rows = await office.rows((await start(runs)).state.id)
    assert [row.kind for row in rows if row.stage is JournalStage.AFTER] == [
        AgentActionKind.STEP,
        AgentActionKind.VALUE,
    ]


async def a_waiting_branch_does_nothing_more() -> None:
    office = Office()

    async def stubborn(worker: Worker) -> object:
        try:
            return await refund(worker)
        finally:
            await worker.desk.note("cleaning up")

    async with office.process(stubborn) as runs:
        await start(runs)
    assert office.world.done == []


async def what_was_told_is_not_told_again() -> None:
    office = Office()

    async def told(worker: Worker) -> AsyncGenerator[AgentYield[object], None]:
        yield Progress("paying")
        await pay(worker)
        yield Progress("giving back")
        yield Final(await refund(worker))

    async def program(worker: Worker) -> object:
        return told(worker)

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        handle = await runs.resume(run_id)
        await handle.result()
        again = [event.step_name async for event in handle.events() if isinstance(event, StepStartedEvent)]
    assert "paying" not in again


@Agent(
    spec=AgentExecutionSpec(
        name="listener",
        recovery=RecoveryStrategy.ACTION_BOUNDARY,
        accepted_signals=[AgentSignalKind.USER_MESSAGE],
    )
)
class Listener(Worker):
    """Takes messages in."""


class Moody(IAgentHooks):
    """Vetoes payments while it is in the mood."""

    is_against = True

    async def pre_tool(self, context: RunContext, call: ModelToolCall) -> HookVerdict:
        return Veto("not today") if self.is_against and call.name == "pay" else Proceed()


class Vault(ISecrets):
    """Knows every secret."""

    async def resolve(self, ref: SecretRef, context: RunContext) -> str:
        return f"s3cret-{ref.id}"


@Pod
class Mail:
    """Needs a key to send anything."""

    @agent_tool(effects=OUTSIDE, approval=UNGATED, reads_untrusted=False)
    async def send(self, to: str, key: Annotated[str, SecretField()] = "") -> bool:
        """Send a mail; whether the key was the right one."""
        return key == "s3cret-key"


@asynccontextmanager
async def process_with(
    office: Office,
    program: Callable[[Worker], Awaitable[object]],
    *pods: object,
    model: ScriptedModel | None = None,
    journal: IAgentJournal | None = None,
    clock: VirtualClock | None = None,
) -> AsyncGenerator[AgentRuns, None]:
    """A process of the office that has more in it, leases too."""
    app = Application("office").add(Clerk, Listener, Desk, Program(program), office.world, *pods)
    own, *shared = office.store.ports
    app.add(model or ScriptedModel([]), journal or own, *shared, office.ids, clock or office.clock)
    initialize(app)
    async with app:
        yield app.get(AgentRuns)


async def a_message_is_heard_where_the_run_stands() -> None:
    office = Office()

    async def talk(worker: Worker) -> object:
        first = await worker.model.complete(QUESTION)
        await refund(worker)
        messages = [*QUESTION.messages, first.message, ModelMessage.user("Sure?")]
        return (await worker.model.complete(ModelRequest(messages))).content

    async with process_with(office, talk, model=ScriptedModel([says("One.")])) as runs:
        run_id = (await start(runs, Listener)).state.id
        await runs.signal(run_id, AgentSignalKind.USER_MESSAGE, {"text": "Hurry."})
    model = ScriptedModel([says("Yes.")])
    async with process_with(office, talk, model=model) as runs:
        await answer(runs, run_id, APPROVE)
    (request,) = model.requests
    assert [message.text for message in request.messages] == ["How much?", "One.", "Sure?", "Hurry."]


async def what_was_vetoed_stays_vetoed() -> None:
    office, hook = Office(), Moody()
    async with process_with(office, pay_then_wait, hook) as runs:
        run_id = (await start(runs)).state.id
        hook.is_against = False
        await answer(runs, run_id, APPROVE)
    assert office.world.done == ["note 'pay' is not allowed: not today", "refund 5"]


async def a_rejection_is_heard_once() -> None:
    office = Office()

    async def persistent(worker: Worker) -> object:
        try:
            await worker.desk.refund(Decimal(5))
        except ToolError:
            return (await worker.desk.refund(Decimal(1))).number

    async with office.process(persistent) as runs:
        run_id = (await start(runs, PatientClerk)).state.id
        await answer(runs, run_id, REJECT)
        asked = [request.arguments for request in await runs.questions(run_id)]
    assert asked == [{"amount": "1"}]


async def a_secret_is_in_no_row() -> None:
    office, mail = Office(), Mail()
    async with process_with(office, lambda _: mail.send("ada"), Vault()) as runs:
        result = await start(runs)
        rows = await office.rows(result.state.id)
    assert result.output is True
    assert "s3cret" not in str(rows)


async def a_model_is_not_asked_again_about_what_a_tool_acted_on() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        async for event in worker.model.stream(QUESTION):
            if event.is_text_delta:
                await worker.desk.pay(Decimal(1))
        return "paid"

    office.world.failures["pay 1"] = ProcessStopped("while paying")
    async with office.process(program, model=ScriptedModel([says("One")])) as runs:
        handle = await runs.start(Clerk, "A-17")
        await ended(handle.result())
    model = ScriptedModel([says("Two")])
    async with office.process(program, model=model) as runs:
        await ended(resume(runs, handle.id))
        assert len(await runs.questions(handle.id)) == 1, (
            "the run diverged, instead of asking about the payment"
        )
    assert list(model.requests) == []


class Freezing(DistantJournal):
    """A journal whose process freezes once: between the word that a call is written down and the call."""

    def __init__(self, journal: IAgentJournal, meanwhile: Callable[[], Awaitable[None]]) -> None:
        super().__init__(journal)
        self._meanwhile = meanwhile
        self._was_frozen = False

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        outcomes = await super().commit(commits)
        begins = any(row.stage is JournalStage.BEFORE for commit in commits for row in commit.rows)
        if begins and not self._was_frozen:
            self._was_frozen = True
            await self._meanwhile()
        return outcomes


async def an_owner_that_was_frozen_for_long_does_not_act() -> None:
    office = Office()
    own_clock = VirtualClock()

    async def meanwhile() -> None:
        """Another process takes the run over and does what the frozen one was about to do."""
        office.clock.advance(2 * LeaseSettings().seconds)
        async with process_with(office, pay) as taker:
            (state,) = await office.store.states.list_resume_candidates()
            await resume(taker, state.id)
            await answer(taker, state.id, RecoveryDecision.RETRY)
        own_clock.advance(2 * LeaseSettings().seconds)

    journal = Freezing(office.store.journal, meanwhile)
    async with process_with(office, pay, journal=journal, clock=own_clock) as owner:
        handle = await owner.start(Clerk, "A-17")
        await ended(handle.result())
    assert office.world.done == ["pay 1"]


class Gathers:
    """Pays twice, side by side."""

    name, version = "gathers", 1

    async def run(
        self, session: AgentSession, deps: Dependencies, prompt: str
    ) -> AsyncGenerator[AgentEvent, None]:
        branches = [partial(self.pay, deps, amount) for amount in ("1", "2")]
        session.output = list(await deps.runtime.gather("pay", branches, limit=1))
        yield deps.progress("paid")

    async def pay(self, deps: Dependencies, amount: str) -> JsonValue:
        """Pay; the receipt says how much."""
        return (await deps.tools.call(ModelToolCall("pay", {"amount": amount}))).result

    def declared_workers(self) -> Mapping[str, AgentRef]:
        return {}


class Loops(Gathers):
    """Pays twice, one after the other."""

    name = "loops"

    async def run(
        self, session: AgentSession, deps: Dependencies, prompt: str
    ) -> AsyncGenerator[AgentEvent, None]:
        async def turn(receipts: list[JsonValue]) -> list[JsonValue] | None:
            if len(receipts) == 2:
                return None
            return [*receipts, await self.pay(deps, str(len(receipts) + 1))]

        session.output = await deps.runtime.loop("pay", list[JsonValue](), turn)
        yield deps.progress("paid")


class Payer:
    """Has a desk to pay at."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk


@Agent(
    spec=AgentExecutionSpec(name="gathers", architecture=Gathers(), recovery=RecoveryStrategy.ACTION_BOUNDARY)
)
class GatheringPayer(Payer):
    """Pays as told."""


@Agent(spec=AgentExecutionSpec(name="loops", architecture=Loops(), recovery=RecoveryStrategy.ACTION_BOUNDARY))
class LoopingPayer(Payer):
    """Pays as told."""


async def assert_both_are_paid(agent: type[Payer]) -> None:
    """A process dies while paying: a person is asked, then both payments are made, and known."""
    office = Office()
    office.world.failures["pay 1"] = ProcessStopped("while paying")
    async with process_with(office, pay, agent) as runs:
        handle = await runs.start(agent, "Pay.")
        await ended(handle.result())
    async with process_with(office, pay, agent) as runs:
        assert (await resume(runs, handle.id)).status is AgentStatus.INTERRUPTED
        for question in await runs.questions(handle.id):
            await runs.answer(handle.id, question.id, RecoveryDecision.RETRY)
        result = await resume(runs, handle.id)
    assert sorted(office.world.done) == ["pay 1", "pay 2"]
    assert isinstance(result.output, list)
    assert [paid["amount"] for paid in result.output] == ["1", "2"]


async def a_branch_that_has_not_ended_is_entered_again() -> None:
    await assert_both_are_paid(GatheringPayer)


async def a_turn_that_has_not_ended_is_made_again() -> None:
    await assert_both_are_paid(LoopingPayer)


@Agent(spec=AgentExecutionSpec(name="cashier", recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Cashier(Payer):
    """Give money back."""


async def an_answer_waits_until_what_it_allows_begins() -> None:
    office = Office()
    asked = calls("refund", {"amount": "5"}), calls("refund", {"amount": "1"})
    async with process_with(office, pay, Cashier, model=ScriptedModel([turn(*asked)])) as runs:
        run_id = (await (await runs.start(Cashier, "Give back 5, then 1.")).result()).state.id
        _, second = await runs.questions(run_id)
        await runs.approve(second.id)
        await resume(runs, run_id)
        waiting = [signal.payload["request_id"] for signal in await office.store.signals.list_pending(run_id)]
        assert waiting == [second.id]
        assert len(await runs.questions(run_id)) == 1


async def a_message_stays_in_the_transcript_when_its_branch_is_folded() -> None:
    for number in range(2, 8):
        await test_external_events.test_a_message_that_a_folded_branch_took_in_is_in_the_transcript_after_a_crash(
            number
        )


async def what_handlers_say_is_told_once() -> None:
    await test_signal_crashes.test_what_handlers_say_is_told_once_whatever_happens()


async def a_switch_is_seen_between_two_actions() -> None:
    await test_kill_switches.test_a_switch_is_seen_between_two_actions_of_a_run_that_goes_on()


async def an_answer_is_not_to_be_read_in_the_queue() -> None:
    await test_sealed_signals.test_what_a_person_changes_is_sealed_in_the_queue_and_used_all_the_same()


async def a_message_at_the_end_is_heard() -> None:
    for at in test_no_signal_is_ignored.places():
        await test_no_signal_is_ignored.test_a_message_is_taken_or_shown_to_be_too_late(
            test_no_signal_is_ignored.Declared, at
        )


async def a_message_that_nothing_takes_is_shown() -> None:
    for at in test_no_signal_is_ignored.places():
        await test_no_signal_is_ignored.test_a_message_is_taken_or_shown_to_be_too_late(
            test_no_signal_is_ignored.Plain, at
        )


CAUGHT: list[tuple[Bug, Probe]] = [
    (planted.no_barrier_before_an_action, a_death_around_any_effect_repeats_nothing),
    (planted.after_is_written_before_the_effect, a_death_around_any_effect_repeats_nothing),
    (planted.what_needs_a_person_is_repeated, a_death_around_any_effect_repeats_nothing),
    (planted.every_attempt_has_a_key_of_its_own, a_death_around_any_effect_repeats_nothing),
    (planted.a_resumed_run_starts_from_nothing, what_is_done_is_not_done_again),
    (planted.reconcile_is_ignored, only_the_approval_is_asked_where_a_tool_can_find_out),
    (planted.a_moved_head_is_ignored, an_owner_who_lost_the_run_does_not_act),
    (planted.attempts_share_their_tokens, of_two_who_resume_at_once_one_acts),
    (planted.no_claim_on_resume, of_two_who_resume_at_once_one_acts),
    (planted.an_approval_serves_a_second_call, a_second_call_is_asked_about_again),
    (planted.a_retry_serves_every_later_attempt, a_second_unknown_outcome_is_asked_about_again),
    (planted.ordinals_are_taken_when_awaited, awaiting_in_another_order_is_no_other_program),
    (planted.fingerprints_are_ignored, another_argument_interrupts_the_run),
    (planted.left_out_actions_are_ignored, an_action_left_out_interrupts_the_run),
    (planted.a_tool_error_is_not_recorded, a_refused_payment_stays_refused),
    (planted.an_unknown_outcome_is_a_failure, an_unknown_outcome_is_left_to_a_person),
    (planted.signals_are_not_consumed, an_answer_is_used_up),
    (planted.a_decision_is_used_up_before_the_action_begins, an_answer_and_what_it_allows_are_one_commit),
    (planted.the_end_is_told_before_it_is_committed, nobody_hears_of_an_end_that_is_not_committed),
    (
        planted.the_work_is_stopped_before_the_cancellation_is_recorded,
        work_is_stopped_when_the_cancellation_is_recorded,
    ),
    (planted.a_pause_does_not_wait_for_siblings, siblings_of_a_waiting_branch_come_to_their_end),
    (planted.an_end_does_not_wait_for_what_is_under_way, an_end_comes_behind_what_is_under_way),
    (planted.a_message_is_taken_in_while_replaying, a_message_is_heard_where_the_run_stands),
    (planted.a_waiting_branch_goes_on, a_waiting_branch_does_nothing_more),
    (planted.a_replay_tells_everything_again, what_was_told_is_not_told_again),
    (planted.a_veto_is_not_recorded, what_was_vetoed_stays_vetoed),
    (planted.a_rejection_is_not_recorded, a_rejection_is_heard_once),
    (planted.secrets_are_recorded, a_secret_is_in_no_row),
    (planted.a_tool_does_not_wait_for_the_open_reply, a_model_is_not_asked_again_about_what_a_tool_acted_on),
    (planted.a_model_reply_is_not_recorded, a_model_is_not_asked_again_about_what_a_tool_acted_on),
    (planted.a_lease_is_not_looked_at_before_an_effect, an_owner_that_was_frozen_for_long_does_not_act),
    (
        planted.a_lease_that_ran_out_is_taken_again_and_nothing_is_proven,
        an_owner_that_was_frozen_for_long_does_not_act,
    ),
    (planted.an_answer_is_taken_in_where_only_a_question_is_put, an_answer_waits_until_what_it_allows_begins),
    (planted.a_branch_is_folded_before_it_has_ended, a_branch_that_has_not_ended_is_entered_again),
    (planted.a_turn_is_folded_before_it_has_ended, a_turn_that_has_not_ended_is_made_again),
    (
        planted.what_a_folded_branch_took_in_is_forgotten,
        a_message_stays_in_the_transcript_when_its_branch_is_folded,
    ),
    (planted.what_a_handler_said_before_is_new, what_handlers_say_is_told_once),
    (planted.a_kill_switch_is_looked_at_once, a_switch_is_seen_between_two_actions),
    (planted.an_answer_waits_unsealed, an_answer_is_not_to_be_read_in_the_queue),
    (planted.an_end_knows_every_signal, a_message_at_the_end_is_heard),
    (planted.a_refused_end_is_only_tried_again, a_message_at_the_end_is_heard),
    (planted.unread_signals_are_left, a_message_that_nothing_takes_is_shown),
]
PROBES = list(dict.fromkeys(probe for _, probe in CAUGHT))


def named(function: object) -> str:
    return str(getattr(function, "__name__", function)).replace("_", " ")


@pytest.mark.parametrize("probe", PROBES, ids=named)
async def test_a_probe_passes_on_the_runtime_as_it_is(probe: Probe) -> None:
    await probe()


@pytest.mark.parametrize(("bug", "probe"), CAUGHT, ids=named)
async def test_a_planted_bug_is_caught(bug: Bug, probe: Probe) -> None:
    with pytest.MonkeyPatch.context() as patch:
        planting = planted.Planting(patch)
        bug(planting)
        with pytest.raises(AssertionError):
            await probe()
        assert planting.stumbles == []
