"""Answers that come too late, and the state a question leaves the run in."""

from __future__ import annotations

from datetime import timedelta
from typing import cast

import pytest
from tests.unit.runtime.rows import an_action

from pilotage.agent.approval import AgentApprovalBoundaryKind, AgentApprovalRequest, ApprovalTerms
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.signals import AgentSignal, AgentSignalKind, RejectionPolicy
from pilotage.agent.state import AgentSituation, AgentState
from pilotage.agent.tools.catalog import AgentToolDescriptor, discover_agent_tools
from pilotage.agent.tools.declare import agent_tool
from pilotage.agent.tools.metadata import ToolRisk
from pilotage.errors import ToolError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.door.outcome import Outcomes
from pilotage.runtime.effect import TOOL_CALL, Effect
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.journal.chain import NO_HEAD
from pilotage.runtime.journal.commits import JournalWriter
from pilotage.runtime.journal.interruptions import Paused, RunEnded
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.record_fields import record_of
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.replay import Replay
from pilotage.runtime.journal.scope import Action, StepScope
from pilotage.runtime.people.questions import ApprovalQuestion, Questions
from pilotage.runtime.people.requests import Ask
from pilotage.testing import MemoryStore, SeededIds, VirtualClock

RUN = RunKey("default", "run-1")
WAITING = AgentState("run-1", "clerk", *AgentSituation.WAITING_FOR_APPROVAL.value)
DEADLINE = timedelta(minutes=10)


class Payments:
    """The tool that is asked about."""

    @agent_tool()
    async def pay(self, amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    @agent_tool()
    async def refund(self, amount: int) -> str:
        """Give back."""
        return f"gave back {amount}"


PAY, REFUND = discover_agent_tools(Payments).descriptors


class Asked(Effect):
    """The call that is asked about."""

    kind = TOOL_CALL

    def __init__(self, action: Action, tool: AgentToolDescriptor) -> None:
        super().__init__(StepScope("run"), action)
        self.descriptor = tool

    async def act(self) -> object:
        raise AssertionError("asking does not act")


class Desk:
    """One gated call whose question expires after ten minutes, over one store."""

    def __init__(self, on_rejection: RejectionPolicy = RejectionPolicy.FAIL) -> None:
        self.clock = VirtualClock()
        self.ids = SeededIds(1)
        self.store = MemoryStore(self.clock)
        self.on_rejection = on_rejection
        self.tool = PAY
        self.action = an_action(asked={"amount": 5})

    async def ask(self, *answers: AgentSignal) -> JsonObject | None:
        """What an approval gives: None as asked for, or other arguments."""
        answer = await self.outcome(*answers)
        return self.questions.obey(answer)

    async def outcome(self, *answers: AgentSignal) -> JsonObject:
        """What one attempt gets when it asks; what it wrote is committed whatever it gets."""
        head = await self.store.journal.head(RUN) or NO_HEAD
        ledger = Ledger(RUN, WAITING, head, JournalWriter(self.store.journal), self.ids.uid())
        ledger.claim(None, None)
        by_request: dict[str, list[AgentSignal]] = {}
        for signal in answers:
            by_request.setdefault(str(signal.payload["request_id"]), []).append(signal)
        recording, outcomes = Recording(await self.rows()), Outcomes(ledger, Redactor(), Replay(ledger))
        self.questions = questions = Questions(
            ledger, by_request, self.on_rejection, Redactor(), self.clock, self.ids
        )
        question = ApprovalQuestion(questions, self._call(), Ask(question=self._wording()), ApprovalTerms())
        try:
            recorded = recording.take(question.action)
            if recorded is not None and recorded.after is not None:
                return record_of(recorded.after)
            if recorded is None:
                outcomes.write_before(question)
            else:
                question.take_up(recorded.row)
            done = outcomes.done(question, await question.act())
            return cast(JsonObject, done.result)
        finally:
            await ledger.barrier()

    async def answer(self, request_id: str, decision: str, **details: JsonValue) -> AgentSignal:
        payload: JsonObject = {"request_id": request_id, "decision": decision, **details}
        signal = AgentSignal(self.ids.uid(), "run-1", AgentSignalKind.APPROVAL_DECISION, payload)
        return await self.store.signals.append(signal)

    async def rows(self) -> list[JournalRow]:
        return [row async for row in self.store.journal.read(RUN)]

    def _call(self) -> Effect:
        return Asked(self.action, self.tool)

    def _wording(self) -> AgentApprovalRequest:
        """What an approval handler wants to ask; whatever binds the question to a call is not its to say."""
        return AgentApprovalRequest(
            "the handler's id",
            "another run",
            AgentApprovalBoundaryKind.TOOL_INVOCATION,
            "Really pay?",
            ToolRisk(),
            "another tool",
            expires_at=self.clock.now() + DEADLINE,
        )


async def asked(desk: Desk) -> str:
    """The id of the question, asked and recorded."""
    with pytest.raises(Paused) as pause:
        await desk.ask()
    (request_id,) = pause.value.wait_ids
    return request_id


async def test_an_answer_in_time_counts() -> None:
    desk = Desk()
    request_id = await asked(desk)
    desk.clock.advance(DEADLINE.total_seconds() - 1)
    assert await desk.ask(await desk.answer(request_id, "modify", modified_payload={"amount": 1})) == {
        "amount": 1
    }
    assert await desk.store.signals.list_pending("run-1") == []


@pytest.mark.parametrize("decision", ["approve", "reject", "maybe"])
async def test_an_answer_that_comes_too_late_is_a_rejection(decision: str) -> None:
    desk = Desk()
    request_id = await asked(desk)
    desk.clock.advance(DEADLINE.total_seconds())
    with pytest.raises(RunEnded) as end:
        await desk.ask(await desk.answer(request_id, decision))
    assert end.value.situation is AgentSituation.APPROVAL_REJECTED
    assert end.value.reason == "a person rejected the call: The approval request expired."
    assert await desk.store.signals.list_pending("run-1") == []


async def test_an_agent_that_wants_to_hear_of_rejections_hears_of_a_late_answer() -> None:
    desk = Desk(RejectionPolicy.TELL_MODEL)
    request_id = await asked(desk)
    desk.clock.advance(DEADLINE.total_seconds())
    with pytest.raises(ToolError, match=r"^a person rejected this call: The approval request expired\.$"):
        await desk.ask(await desk.answer(request_id, "approve"))


async def test_a_recorded_answer_counts_however_late_it_is_replayed() -> None:
    desk = Desk()
    request_id = await asked(desk)
    assert await desk.ask(await desk.answer(request_id, "approve")) is None
    desk.clock.advance(10 * DEADLINE.total_seconds())
    assert await desk.ask() is None


async def test_a_question_keeps_its_id_and_its_deadline() -> None:
    desk = Desk()
    first = await asked(desk)
    desk.clock.advance(DEADLINE.total_seconds() / 2)
    assert await asked(desk) == first
    rows = await desk.rows()
    assert [row.action_id for row in rows if row.kind is not None] == ["run/tool:pay#1/approval"]


async def test_a_handler_words_the_question_and_the_run_says_what_it_is_about() -> None:
    desk = Desk()
    request_id = await asked(desk)
    (row,) = [row for row in await desk.rows() if row.kind is not None]
    assert isinstance(row.record, dict)
    assert (row.record["prompt"], row.record["id"]) == ("Really pay?", request_id)
    assert request_id.startswith("run-1:")
    assert (row.record["agent_state_id"], row.record["call_id"]) == ("run-1", "run/tool:pay#1")
    assert row.record["arguments"] == {"amount": 5}


async def test_an_answer_counts_for_the_tool_that_was_asked_about_only() -> None:
    desk = Desk()
    request_id = await asked(desk)
    desk.tool = REFUND
    approved = await desk.answer(request_id, "approve")
    assert await desk.outcome(approved) == {"outdated": "the declaration of 'refund' has changed"}
    assert await desk.store.signals.list_pending("run-1") == []


async def test_the_first_answer_that_counts_is_used_and_all_are_used_up() -> None:
    desk = Desk()
    request_id = await asked(desk)
    bad = await desk.answer(request_id, "modify", modified_payload={"sum": 1})
    later = await desk.answer(request_id, "defer")
    good = await desk.answer(request_id, "modify", modified_payload={"amount": 2})
    too_late = await desk.answer(request_id, "reject")
    assert await desk.ask(bad, later, good, too_late) == {"amount": 2}
    assert await desk.store.signals.list_pending("run-1") == []
