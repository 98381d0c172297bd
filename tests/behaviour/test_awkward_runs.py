"""Runs in awkward situations: answers that race, branches that die, streams that are left, tools that misbehave."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from decimal import Decimal

import pytest
from tests.behaviour.office import (
    GATED,
    OUTSIDE,
    UNGATED,
    Office,
    Worker,
    World,
    answer,
    only_question,
    resume,
    start,
)

from pilotage import (
    Agent,
    AgentDefinitionError,
    AgentExecutionSpec,
    AgentState,
    AgentStatus,
    Application,
    ApprovalDecision,
    IAgentModel,
    Idempotency,
    ModelMessage,
    ModelRequest,
    Pod,
    RecoveryStrategy,
    StructuredOutputSpec,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentApprovalRequest,
    AgentSignal,
    AgentSignalKind,
    RecoveryDecision,
    RejectionPolicy,
)
from pilotage.errors import AgentStructuredOutputError, CallerError, PilotageError, ToolError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runs import AgentRuns
from pilotage.testing import ProcessStopped, ScriptedModel, StopAfter, says

APPROVE, REJECT = ApprovalDecision.APPROVE, ApprovalDecision.REJECT
DURABLE = AgentExecutionSpec(recovery=RecoveryStrategy.ACTION_BOUNDARY)
QUESTION = ModelRequest([ModelMessage.user("?")])


async def turns(count: int = 60) -> None:
    """Let everything that is still under way come to rest."""
    for _ in range(count):
        await asyncio.sleep(0)


def application(office: Office, *pods: object, model: ScriptedModel | None = None) -> Application:
    app = Application("bugs").add(*pods, office.world, *office.store.ports, office.ids)
    if model is not None:
        app.add(model)
    initialize(app)
    return app


# Answers and the state of the run


async def test_three_gated_tasks_answered_before_one_resume() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        async def one(n: int) -> str:
            return str((await worker.desk.refund(Decimal(n))).amount)

        return await asyncio.gather(*(one(n) for n in (1, 2, 3)))

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        for question in await runs.questions(run_id):
            await runs.approve(question.id)
    async with office.process(program) as runs:
        result = await resume(runs, run_id)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, ["1", "2", "3"]), (
        result.state.current_activity
    )


async def test_an_approval_answered_after_a_divergence_counts() -> None:
    office = Office()

    async def recorded(worker: Worker) -> object:
        await worker.desk.note("a")
        return (await worker.desk.refund(Decimal(1))).number

    async def changed(worker: Worker) -> object:
        await worker.desk.note("b")

    async with office.process(recorded) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(changed) as runs:
        await resume(runs, run_id)
    async with office.process(recorded) as runs:
        await resume(runs, run_id)
        result = await answer(runs, run_id, APPROVE)
    assert result.status is AgentStatus.COMPLETED, result.state.current_activity


async def test_an_approval_answered_after_a_death_between_question_and_pause_counts() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        async def gated() -> None:
            await worker.desk.refund(Decimal(1))

        async def free() -> None:
            await worker.desk.look("x")
            await worker.desk.note("2")
            await worker.desk.note("3")

        await asyncio.gather(gated(), free())
        return "done"

    async with office.process(program, fault=StopAfter(2)) as runs:
        with pytest.raises(ProcessStopped):
            await start(runs)
    (state,) = await office.store.states.list_resume_candidates()
    async with office.process(program) as runs:
        result = await answer(runs, state.id, APPROVE)
    assert result.status is AgentStatus.COMPLETED, result.state.current_activity


async def test_a_recovery_answer_counts_while_another_task_waits_for_approval() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        async def gated() -> None:
            await worker.desk.refund(Decimal(1))

        async def unknown() -> None:
            await worker.desk.pay(Decimal(2))

        await asyncio.gather(gated(), unknown())
        return "done"

    office.world.failures["pay 2"] = ConnectionError("the line broke")
    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        for question in await runs.questions(run_id):
            if not isinstance(question, AgentApprovalRequest):
                await runs.answer(run_id, question.id, RecoveryDecision.RETRY)
        await resume(runs, run_id)
        result = await answer(runs, run_id, APPROVE)
    assert result.status is AgentStatus.COMPLETED, result.state.current_activity
    assert sorted(office.world.done) == ["pay 2", "refund 1"]


async def test_done_with_a_result_of_another_type_is_told_to_its_sender_and_leaves_the_question_open() -> (
    None
):
    office = Office()

    async def program(worker: Worker) -> object:
        return (await worker.desk.pay(Decimal(2))).number

    office.world.failures["pay 2"] = ConnectionError("the line broke")
    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        question = await only_question(runs, run_id)
        with pytest.raises(CallerError, match="'pay' does not give such a result"):
            await answer(runs, run_id, RecoveryDecision.DONE, result={"nonsense": 1})
        payload: JsonObject = {"request_id": question.id, "decision": "done", "result": {"nonsense": 1}}
        signal = AgentSignal("past the check", run_id, AgentSignalKind.APPROVAL_DECISION, payload)
        await office.store.signals.append(signal)
        waiting = await resume(runs, run_id)
        assert waiting.status is AgentStatus.INTERRUPTED, waiting.state.current_activity
        assert (await only_question(runs, run_id)).id == question.id


async def test_an_ended_run_waits_for_no_answers() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        async def one(n: int) -> None:
            await worker.desk.refund(Decimal(n))

        await asyncio.gather(one(1), one(2))

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        await runs.reject((await runs.questions(run_id))[0].id)
        assert (await resume(runs, run_id)).status is AgentStatus.FAILED
        assert await runs.questions(run_id) == ()


async def test_the_first_of_two_answers_counts() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(1))).number

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        question = await only_question(runs, run_id)
        await runs.reject(question.id, resume=False)
        await runs.reject(question.id, resume=False)
        assert await runs.questions(run_id) == ()
        with pytest.raises(CallerError, match="was answered 'reject' by 'local' at"):
            await runs.approve(question.id)
        await resume(runs, run_id)
    assert office.world.done == []
    assert await office.store.signals.list_pending(run_id) == []


# Tasks side by side


async def test_gathered_gated_calls_are_all_asked_about() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        await asyncio.gather(*(worker.desk.refund(Decimal(n)) for n in (1, 2, 3)))

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        assert len(await runs.questions(run_id)) == 3


async def test_a_pause_returned_as_a_result_still_pauses_the_run() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return len(await asyncio.gather(worker.desk.refund(Decimal(1)), return_exceptions=True))

    async with office.process(program) as runs:
        result = await start(runs)
    assert result.status is AgentStatus.INTERRUPTED


async def test_gated_calls_in_a_task_group_pause_the_run() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        async with asyncio.TaskGroup() as group:
            group.create_task(worker.desk.refund(Decimal(1)))
            group.create_task(worker.desk.refund(Decimal(2)))

    async with office.process(program) as runs:
        assert (await start(runs)).status is AgentStatus.INTERRUPTED


async def test_tasks_are_told_apart_by_what_they_ask_for_not_by_when() -> None:
    office = Office()
    delays = {"a": 0, "b": 5}

    async def program(worker: Worker) -> object:
        async def branch(name: str) -> None:
            await turns(delays[name])
            await worker.desk.note(name)

        await asyncio.gather(branch("a"), branch("b"))
        await worker.desk.refund(Decimal(1))
        return "done"

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
    delays.update(a=5, b=0)
    async with office.process(program) as runs:
        result = await answer(runs, run_id, APPROVE)
    assert result.status is AgentStatus.COMPLETED, result.state.current_activity


async def test_a_sibling_that_only_talks_to_the_model_goes_on_to_its_end() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        async def gated() -> None:
            await worker.desk.refund(Decimal(1))

        async def talking() -> str:
            return (await worker.model.complete(QUESTION)).content

        return await asyncio.gather(talking(), gated())

    async with office.process(program, model=ScriptedModel([says("a b c d e f g")])) as runs:
        run_id = (await start(runs)).state.id
    assert [row for row in await office.rows(run_id) if row.kind == "model_call"]


# A dead attempt stays dead


async def test_a_diverged_attempt_does_nothing_in_finally_blocks() -> None:
    office = Office()

    async def recorded(worker: Worker) -> object:
        await worker.desk.pay(Decimal(1))
        return (await worker.desk.refund(Decimal(1))).number

    async def changed(worker: Worker) -> object:
        try:
            return (await worker.desk.pay(Decimal(2))).number
        finally:
            await worker.desk.note("cleaning up")

    async with office.process(recorded) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(changed) as runs:
        await resume(runs, run_id)
    assert office.world.done == ["pay 1"]


async def test_a_rejected_attempt_does_nothing_in_finally_blocks() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        try:
            return (await worker.desk.refund(Decimal(1))).number
        finally:
            await worker.desk.note("cleaning up")

    async with office.process(program) as runs:
        run_id = (await start(runs)).state.id
        await answer(runs, run_id, REJECT)
    assert office.world.done == []


async def test_a_paused_attempt_asks_no_model_in_finally_blocks() -> None:
    office = Office()
    model = ScriptedModel([says("bye")])

    async def program(worker: Worker) -> object:
        try:
            return (await worker.desk.refund(Decimal(1))).number
        finally:
            await worker.model.complete(QUESTION)

    async with office.process(program, model=model) as runs:
        await start(runs)
    assert model.requests == []


async def test_a_cancelled_unrepeatable_call_comes_to_its_end_and_gives_its_outcome() -> None:
    office = Office()
    async with application(office, Impatient, SlowDesk) as app:
        result = await (await app.get(AgentRuns).start(Impatient, "x")).result()
    assert office.world.done == ["pay"]
    assert (result.status, result.output) == (AgentStatus.COMPLETED, 1)


# Models


async def test_a_stream_left_early_gives_in_replay_what_was_read() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        word = ""
        async for event in worker.model.stream(QUESTION):
            if event.is_text_delta:
                word = event.text.strip()
                break
        await worker.desk.note(word)
        await worker.desk.refund(Decimal(1))
        return word

    async with office.process(program, model=ScriptedModel([says("one two three")])) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(program) as runs:
        result = await answer(runs, run_id, APPROVE)
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "one"), result.state.current_activity


async def test_an_answer_of_another_type_is_refused_again_in_replay() -> None:
    office = Office()
    request = ModelRequest([ModelMessage.user("?")], output=StructuredOutputSpec.from_type(Answer))

    async def program(worker: Worker) -> object:
        try:
            await worker.model.complete(request)
            await worker.desk.note("fine")
        except AgentStructuredOutputError:
            await worker.desk.note("bad")
        await worker.desk.refund(Decimal(1))
        return "done"

    async with office.process(program, model=ScriptedModel([says(output={"m": 1})])) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(program) as runs:
        result = await answer(runs, run_id, APPROVE)
    assert result.status is AgentStatus.COMPLETED, result.state.current_activity


async def test_a_replayed_stream_has_the_structured_output_and_the_reasoning() -> None:
    office = Office()
    request = ModelRequest([ModelMessage.user("?")], output=StructuredOutputSpec.from_type(Answer))
    kinds: list[set[str]] = []

    async def program(worker: Worker) -> object:
        kinds.append({event.kind.value async for event in worker.model.stream(request)})
        await worker.desk.refund(Decimal(1))

    model = ScriptedModel([says("t", reasoning="hm", output={"n": 1})])
    async with office.process(program, model=model) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(program) as runs:
        await resume(runs, run_id)
    assert kinds[0] == kinds[1]


async def test_a_sync_reading_tool_may_be_called_behind_a_whole_reply() -> None:
    office = Office()
    async with application(office, Reader, Shelf, model=ScriptedModel([says("hi")])) as app:
        result = await (await app.get(AgentRuns).start(Reader, "x")).result()
    assert result.status is AgentStatus.COMPLETED, result.state.current_activity


# Tools


async def test_a_tool_that_calls_a_tool_is_replayed() -> None:
    office = Office()
    async with application(office, Nesting, Nest) as app:
        runs = app.get(AgentRuns)
        run_id = (await (await runs.start(Nesting, "x")).result()).state.id
        result = await answer(runs, run_id, APPROVE)
    assert result.status is AgentStatus.COMPLETED, result.state.current_activity


async def test_a_live_exception_is_reconciled_like_a_crash() -> None:
    office = Office()
    async with application(office, Shipper, Carrier) as app:
        runs = app.get(AgentRuns)
        result = await (await runs.start(Shipper, "x")).result()
        if result.status is AgentStatus.INTERRUPTED:
            result = await resume(runs, result.state.id)
        assert await runs.questions(result.state.id) == ()
    assert (result.status, result.output) == (AgentStatus.COMPLETED, "found")


async def test_a_reconcile_that_fails_leaves_the_outcome_unknown() -> None:
    office = Office()
    office.world.failures["ship"] = ProcessStopped("while shipping")
    async with application(office, Shipper, Carrier) as app:
        handle = await app.get(AgentRuns).start(Shipper, "x")
        with pytest.raises(ProcessStopped):
            await handle.result()
    office.world.failures["find"] = ConnectionError("the carrier is away")
    async with application(office, Shipper, Carrier) as app:
        result = await resume(app.get(AgentRuns), handle.id)
    assert result.status is AgentStatus.INTERRUPTED, result.state.current_activity


async def test_a_result_that_json_cannot_hold_does_not_break_the_journal() -> None:
    office = Office()
    async with application(office, Measuring, Meter) as app:
        result = await (await app.get(AgentRuns).start(Measuring, "x")).result()
    assert result.status is AgentStatus.INTERRUPTED


async def test_a_tool_holder_that_is_falsy_is_a_tool_holder() -> None:
    office = Office()
    async with application(office, Counting, EmptyBasket) as app:
        result = await (await app.get(AgentRuns).start(Counting, "x")).result()
    assert result.status is AgentStatus.COMPLETED, result.state.current_activity


async def test_a_tools_error_is_not_its_own_cause() -> None:
    office = Office()
    office.world.failures["pay 1"] = ToolError("no")
    causes: list[bool] = []

    async def program(worker: Worker) -> object:
        try:
            await worker.desk.pay(Decimal(1))
        except ToolError as error:
            causes.append(error.__cause__ is error)

    async with office.process(program) as runs:
        await start(runs)
    assert causes == [False]


# The service


async def test_an_agent_of_another_application_is_refused_before_a_run_exists() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return None

    async with office.process(program) as runs:
        with pytest.raises(AgentDefinitionError):
            await runs.start(Counting, "x")
    assert await office.store.states.list_resume_candidates() == []


async def test_an_agent_that_another_one_inherits_from_is_found() -> None:
    office = Office()
    async with application(office, Parent, Child) as app:
        result = await (await app.get(AgentRuns).start(Parent, "x")).result()
    assert result.output == "parent"


async def test_a_missing_input_is_refused_before_a_run_exists() -> None:
    office = Office()
    async with application(office, TwoInputs) as app:
        with pytest.raises(AgentDefinitionError):
            await app.get(AgentRuns).start(TwoInputs, {"order": "A-17"})


async def test_a_state_without_a_journal_is_refused_in_words() -> None:
    office = Office()

    async def program(worker: Worker) -> object:
        return None

    async with office.process(program) as runs:
        await office.store.states.save(AgentState("r-1", "clerk", AgentStatus.ACTIVE))
        with pytest.raises(PilotageError):
            await runs.resume("r-1")


async def test_a_waiting_call_that_is_left_out_is_divergence() -> None:
    office = Office()

    async def recorded(worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(1))).number

    async def changed(worker: Worker) -> object:
        return "done"

    async with office.process(recorded) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(changed) as runs:
        assert (await resume(runs, run_id)).status is AgentStatus.INTERRUPTED


async def test_a_waiting_call_with_other_arguments_is_named_by_its_tool() -> None:
    office = Office()

    async def recorded(worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(1))).number

    async def changed(worker: Worker) -> object:
        return (await worker.desk.refund(Decimal(2))).number

    async with office.process(recorded) as runs:
        run_id = (await start(runs)).state.id
    async with office.process(changed) as runs:
        diverged = await resume(runs, run_id)
    words = str(diverged.state.current_activity)
    assert "'approval'" not in words
    assert "None" not in words


async def test_the_activity_of_a_waiting_run_is_the_question_it_waits_for() -> None:
    office = Office()
    async with application(office, PatientBuyer, Kiosk) as app:
        runs = app.get(AgentRuns)
        run_id = (await (await runs.start(PatientBuyer, "x")).result()).state.id
        waiting = await answer(runs, run_id, REJECT)
        question = await only_question(runs, run_id)
    assert isinstance(question, AgentApprovalRequest)
    assert waiting.state.current_activity == question.prompt == "Approve the call of tool 'rent'?"


# what the stories above are about --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    n: int


@Pod
class SlowDesk:
    def __init__(self, world: World) -> None:
        self.world = world
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()

    @agent_tool(effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED)
    async def pay(self) -> int:
        """Pay; the first time it takes long."""
        number = self.world.act("pay")
        if number == 1:
            self.begun.set()
            await self.may_end.wait()
        return number


@Agent(spec=DURABLE)
class Impatient:
    def __init__(self, desk: SlowDesk) -> None:
        self.desk = desk

    async def execute(self, order: str) -> int:
        payment = asyncio.ensure_future(self.desk.pay())
        await self.desk.begun.wait()
        payment.cancel()
        await asyncio.sleep(0)
        self.desk.may_end.set()
        try:
            return await payment
        except asyncio.CancelledError:
            return await self.desk.pay()


@Pod
class Shelf:
    @agent_tool(effects=ToolEffects.read_only())
    def find(self) -> int:
        """Find something."""
        return 1


@Agent(spec=DURABLE)
class Reader:
    def __init__(self, model: IAgentModel, shelf: Shelf) -> None:
        self.model, self.shelf = model, shelf

    async def execute(self, order: str) -> int:
        await self.model.complete(QUESTION)
        return self.shelf.find()


@Pod
class Nest:
    def __init__(self, world: World) -> None:
        self.world = world

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def outer(self) -> int:
        """Call the inner one."""
        return await self.inner() + 1

    @agent_tool(effects=ToolEffects.write_state(), idempotency=Idempotency.IDEMPOTENT, approval=UNGATED)
    async def inner(self) -> int:
        """Be called."""
        return self.world.act("inner")

    @agent_tool(effects=OUTSIDE)
    async def gated(self) -> int:
        """Wait for somebody."""
        return self.world.act("gated")


@Agent(spec=DURABLE)
class Nesting:
    def __init__(self, nest: Nest) -> None:
        self.nest = nest

    async def execute(self, order: str) -> int:
        await self.nest.outer()
        return await self.nest.gated()


@Pod
class Carrier:
    def __init__(self, world: World) -> None:
        self.world = world

    @agent_tool(
        effects=OUTSIDE, idempotency=Idempotency.NON_IDEMPOTENT, approval=UNGATED, reconcile="find_parcel"
    )
    async def ship(self) -> str:
        """Ship; the line breaks behind it."""
        self.world.act("ship")
        raise ConnectionError("the line broke")

    async def find_parcel(self, idempotency_key: str) -> str | None:
        """What the carrier knows."""
        self.world.act("find")
        return "found"


@Agent(spec=DURABLE)
class Shipper:
    def __init__(self, carrier: Carrier) -> None:
        self.carrier = carrier

    async def execute(self, order: str) -> str:
        return await self.carrier.ship()


@Pod
class Meter:
    @agent_tool(effects=OUTSIDE, approval=UNGATED)
    async def measure(self) -> float:
        """Measure something that is not there."""
        return float("nan")

    @agent_tool(effects=OUTSIDE)
    async def gated(self) -> int:
        """Wait for somebody."""
        return 1


@Agent(spec=DURABLE)
class Measuring:
    def __init__(self, meter: Meter) -> None:
        self.meter = meter

    async def execute(self, order: str) -> int:
        with contextlib.suppress(Exception):
            await self.meter.measure()
        return await self.meter.gated()


@Pod
class EmptyBasket:
    def __len__(self) -> int:
        return 0

    @agent_tool(effects=ToolEffects.read_only())
    async def count(self) -> int:
        """Count."""
        return 0


@Agent(spec=DURABLE)
class Counting:
    def __init__(self, basket: EmptyBasket) -> None:
        self.basket = basket

    async def execute(self, order: str) -> int:
        return await self.basket.count()


@Agent(spec=DURABLE)
class Parent:
    async def execute(self, order: str) -> str:
        return "parent"


@Agent(spec=DURABLE)
class Child(Parent):
    async def execute(self, order: str) -> str:
        return "child"


@Agent(spec=DURABLE)
class TwoInputs:
    async def execute(self, order: str, amount: int) -> str:
        return order


@Pod
class Kiosk:
    @agent_tool(effects=OUTSIDE, approval=GATED)
    async def buy(self) -> int:
        """Buy it."""
        return 1

    @agent_tool(effects=OUTSIDE, approval=GATED)
    async def rent(self) -> int:
        """Rent it."""
        return 2


@Agent(
    spec=AgentExecutionSpec(
        recovery=RecoveryStrategy.ACTION_BOUNDARY, on_rejection=RejectionPolicy.TELL_MODEL
    )
)
class PatientBuyer:
    def __init__(self, kiosk: Kiosk) -> None:
        self.kiosk = kiosk

    async def execute(self, order: str) -> int:
        try:
            return await self.kiosk.buy()
        except ToolError:
            return await self.kiosk.rent()
