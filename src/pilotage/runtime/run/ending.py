"""A run that has to wait: its state says for what and until when, and whoever listens is told, all in one commit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime

from pilotage.agent.events import AgentEventAttribution, RunFinishedEvent, RunPausedEvent
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.conversations import ConversationTurn, ConversationTurns
from pilotage.agent.ports.handlers import IAgentOutputGuard
from pilotage.agent.ports.journal import JournalStage
from pilotage.agent.principal import RunContext
from pilotage.agent.run_result import RunResult
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason, AgentStatus
from pilotage.errors import AgentOutputGuardError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, to_json_value
from pilotage.runtime.budget.deadlines import earliest
from pilotage.runtime.door.run import Effects
from pilotage.runtime.events.writer import EventWriter
from pilotage.runtime.exposure.redactor import secretless
from pilotage.runtime.exposure.trust import label_to_keep, with_label
from pilotage.runtime.journal.interruptions import (
    AWAITS,
    HandedOver,
    LimitReached,
    Paused,
    RunDiverged,
    RunEnded,
)
from pilotage.runtime.journal.records import Answer, encode_result
from pilotage.runtime.people.questions import is_about_the_past
from pilotage.runtime.run.cancel import (
    Cleanup,
    cancellation_error,
    close_as_unknown,
    end_children,
    finish_cancellation,
)
from pilotage.runtime.run.publish import Publication
from pilotage.runtime.run.settling import RemainingTasks
from pilotage.safety.fields import SensitiveFieldDescriptor
from pilotage.safety.trust import TrustLabel
from pilotage.values import value


class Pausing:
    """Lets an attempt end with a pause. A run whose `human_time_counts` may have to end while it waits."""

    def __init__(
        self, effects: Effects, telling: EventWriter, by: AgentEventAttribution, *, human_time_counts: bool
    ) -> None:
        self._effects = effects
        self._ledger = effects.ledger
        self._telling = telling
        self._by = by
        self._human_time_counts = human_time_counts

    async def pause(self, pause: Paused | None) -> RunResult:
        """The run waits for the answers of people, for what `pause` says, or because somebody wishes it."""
        waits = self._effects.waits.open
        stopped_by = pause if pause is not None and pause.reason else self._effects.liveness.stopped_by
        state = self._waiting(waits) if waits else self._waiting_for(stopped_by)
        self._effects.inbox.settle_pauses()
        for wait_id, wait in waits.items():
            self._prepare(state, wait_id, wait)
        if not waits:
            facts: JsonObject = stopped_by.facts if stopped_by is not None else {}
            self._prepare(state, None, {"prompt": state.current_activity or "paused", **facts})
        return await self._paused_by(Paused(*waits))

    async def diverge(self, divergence: RunDiverged) -> RunResult:
        """The run waits for a person who looks at what its program did not do again."""
        facts: JsonObject = {
            "divergence": {"action": divergence.action_id, "difference": divergence.difference}
        }
        words = f"the program diverged from its record at {divergence}"
        self._paused(AgentSituation.RECOVERY_REQUIRED, words, facts)
        self._prepare(self._ledger.state, None, {"prompt": words})
        return await self._paused_by(divergence)

    async def _paused_by(self, end: Paused | RunDiverged) -> RunResult:
        await self._ledger.barrier()
        self._ledger.kill(end)
        self._telling.release()
        return RunResult(self._ledger.state)

    def _waiting(self, waits: Mapping[str, JsonObject]) -> AgentState:
        """The state of a run that waits for people; one whose question was put off goes on waiting like that."""
        if self._ledger.state.reason is AgentStateReason.APPROVAL_DEFERRED:
            return self._waking()
        prompt = next((str(wait.get("prompt") or wait["reason"]) for wait in waits.values()), "waiting")
        is_recovery = all(map(is_about_the_past, waits.values()))
        situation = AgentSituation.RECOVERY_REQUIRED if is_recovery else AgentSituation.WAITING_FOR_APPROVAL
        return self._paused(situation, prompt)

    def _waiting_for(self, pause: Paused | None) -> AgentState:
        words = (pause and pause.reason) or "paused on request"
        is_new = self._ledger.state.current_activity != words
        since: JsonObject = {"paused_at": self._effects.clock.now().isoformat()}
        return self._paused(AgentSituation.USER_INTERRUPTED, words, since if is_new else None)

    def _paused(
        self, situation: AgentSituation, activity: str, facts: JsonObject | None = None
    ) -> AgentState:
        """The state of a run that waits from now on; one that came back and has nothing new waits as it did."""
        if self._ledger.state.reason is not situation.reason or facts:
            since: JsonObject = {**(facts or {}), "paused_at": self._effects.clock.now().isoformat()}
            self._ledger.move(
                going_on(self._ledger.state).moved_to(situation, activity=activity, metadata=since)
            )
        return self._waking()

    def _waking(self) -> AgentState:
        """The state of a run that waits, with the time when it has something to do even if nobody answers.

        And with the message that a branch of it awaits.
        """
        ends = [wait.get("expires_at") for wait in self._effects.waits.open.values()]
        deadline = self._effects.deadline if self._human_time_counts else None
        wake_at = earliest(deadline, *(datetime.fromisoformat(end) for end in ends if isinstance(end, str)))
        stopped_by = self._effects.liveness.stopped_by
        awaits = stopped_by.facts.get(AWAITS) if stopped_by is not None else None
        state = self._ledger.state
        if (state.wake_at, state.awaits) != (wake_at, awaits):
            self._ledger.move(replace(state, wake_at=wake_at, awaits=str(awaits) if awaits else None))
        return self._ledger.state

    def _prepare(self, state: AgentState, wait_id: str | None, wait: Mapping[str, JsonValue]) -> None:
        decisions = wait.get("allowed_decisions")
        call_id = wait.get("call_id")
        self._telling.prepare(
            RunPausedEvent(
                self._by,
                state.reason or AgentStateReason.USER_INTERRUPTED,
                str(wait.get("prompt") or wait["reason"]),
                state.id,
                approval_id=wait_id,
                tool_call_id=str(call_id) if call_id else None,
                allowed_decisions=tuple(map(str, decisions)) if isinstance(decisions, list) else (),
                metadata=wait,
            )
        )


def going_on(state: AgentState) -> AgentState:
    """The state as the table wants it before a step: a run that waited has gone on."""
    if state.status in (AgentStatus.ACTIVE, AgentStatus.CANCELLING):
        return state
    return state.moved_to(AgentSituation.RUNNING)


@value
class Closing:
    """What the end of a run needs besides its effects: who it is told for, who looks at it first, what it leaves.

    `sensitive` are the parts of the output that only the caller gets to see. A run whose `human_time_counts` may have
    to end while it waits.
    """

    by: AgentEventAttribution
    context: RunContext
    guard: IAgentOutputGuard | None = None
    cleanup: Callable[[], Cleanup] | None = None
    conversation: str | None = None
    question: str | None = None
    sensitive: tuple[SensitiveFieldDescriptor, ...] = ()
    human_time_counts: bool = False


class Ending:
    """Ends one attempt at a run."""

    def __init__(self, effects: Effects, telling: EventWriter, closing: Closing) -> None:
        self._effects = effects
        self._ledger = effects.ledger
        self._telling = telling
        self._closing = closing
        self._by = closing.by
        self._publication = Publication(effects, closing.context, closing.guard, closing.sensitive)
        self._stragglers = RemainingTasks(effects)

    @property
    def is_waiting(self) -> bool:
        """Whether nothing is decided yet: the last tasks of the run are still at something."""
        return self._stragglers.is_waiting

    def hurry(self) -> None:
        """Somebody cannot wait for what is still under way: it is stopped where it stands."""
        self._stragglers.stop()

    async def complete(self, answer: Answer) -> RunResult:
        """The run has its answer: guarded as a whole, approved where somebody wants to, committed, then told.

        Raises:
            AgentOutputGuardError: the answer must not leave.
            LimitReached: the time of the run is up before everything under way has come to its end.
            Paused: a person is asked first.
            RunEnded: a person said no.
        """
        published = await self._publication.whole(answer) if self._publication.is_looked_at else answer
        await self._stragglers.come_to_rest(RunEnded(AgentSituation.COMPLETED, "the run is completed"))
        if published is not answer:
            # What was held back until now is the text of an answer that must not be seen as it was.
            self._telling.drop()
        self._telling.flush(is_guarded=True)
        outcomes, recording = self._effects.outcomes, self._effects.recording
        is_anything_begun = self._effects.has_record or outcomes.under_way
        if is_anything_begun and (under_way := outcomes.still_open(recording)):
            await end_children(self._cleanup, under_way)
        spent = self._effects.spending.spent
        record = self._kept(published, spent)
        if self._closing.conversation is not None and self._closing.question:
            said = (self._closing.conversation, self._closing.question, record["result"])
            self._ledger.say(_turns(*said, label_to_keep(self._effects.trust)))
        return await self._told(AgentSituation.COMPLETED, published, None, record, spent)

    async def stop_short(self, answer: Answer, situation: AgentSituation, error: JsonObject) -> RunResult:
        """The run ends before it has its answer; what it has so far is kept with the reason."""
        end = RunEnded(situation, str(error["message"]))
        try:
            await self._stragglers.come_to_rest(end, at_once=situation is AgentSituation.TIMED_OUT)
        except LimitReached as late:
            return await self.stop_short(answer, late.situation, error_of(late))
        self._flush_or_drop()
        left = await self._publication.partial(answer)
        under_way = self._effects.outcomes.still_open(self._effects.recording)
        await end_children(self._cleanup, under_way)
        close_as_unknown(self._ledger, under_way)
        left = replace(left, interruption=left.interruption or str(error["code"]))
        spent = self._effects.spending.spent
        record = self._kept(left, spent, error)
        return await self._told(situation, left, error, record, spent)

    async def pause(self, pause: Paused | None = None) -> RunResult:
        """The waiting branch has unwound; its siblings go on to their own end or wait, then the run pauses.

        `pause` may say what it waits for, where that is neither a person's answer nor somebody's wish.
        """
        try:
            await self._stragglers.wait()
        except LimitReached as late:
            return await self.stop_short(Answer(), late.situation, error_of(late))
        self._flush_or_drop()
        return await self._pausing.pause(pause)

    async def hand_over(self, end: HandedOver) -> RunResult:
        """The process stops: what is under way comes to its end and is written down, the run stays as it is."""
        try:
            await self._stragglers.come_to_rest(end)
        except LimitReached as late:
            return await self.stop_short(Answer(), late.situation, error_of(late))
        await self._ledger.barrier()
        self._ledger.kill(end)
        return RunResult(self._ledger.state)

    async def interrupt(self, divergence: RunDiverged) -> RunResult:
        """The program asks for something else than is recorded: a person must look at it."""
        await self._effects.liveness.quiesce(divergence)
        return await self._pausing.diverge(divergence)

    async def begin_cancelling(self, reason: str) -> None:
        """A person's answer cancels the run."""
        self._effects.liveness.end(RunEnded(AgentSituation.CANCELLING, reason))
        facts: JsonObject = {"cancellation_reason": reason}
        self._ledger.move(
            going_on(self._ledger.state).moved_to(AgentSituation.CANCELLING, activity=reason, metadata=facts)
        )
        await self._ledger.barrier()

    async def finish_cancelling(self) -> RunResult:
        """Stop what is under way, clean up, end the run.

        Raises:
            RunInterruption: the run is not this attempt's any more, so that there is nothing to clean up.
        """
        await self._stragglers.stopped()
        self._ledger.check_alive()
        self._flush_or_drop()
        under_way = self._effects.outcomes.still_open(self._effects.recording)
        state = await finish_cancellation(
            self._ledger,
            under_way,
            self._cleanup,
            lambda state: self._telling.prepare(RunFinishedEvent(self._by, cancellation_error(state))),
        )
        self._telling.release()
        return RunResult(state, error=cancellation_error(state))

    @property
    def _pausing(self) -> Pausing:
        closing = self._closing
        return Pausing(self._effects, self._telling, closing.by, human_time_counts=closing.human_time_counts)

    @property
    def _cleanup(self) -> Cleanup | None:
        return None if self._closing.cleanup is None else self._closing.cleanup()

    def _flush_or_drop(self) -> None:
        """The last words of a run that does not come to its answer; what must not be seen is left out."""
        try:
            self._telling.flush()
        except AgentOutputGuardError:
            self._telling.drop()

    async def _told(
        self,
        situation: AgentSituation,
        answer: Answer,
        error: JsonObject | None,
        record: JsonObject,
        spent: BudgetAmount,
    ) -> RunResult:
        activity = self._effects.redactor.text(str(error["message"])) if error else None
        self._ledger.move(going_on(self._ledger.state).moved_to(situation, activity=activity))
        told: dict[str, JsonValue] = {"output": self._publication.view_of(record)["result"]}
        if answer.interruption is not None:
            told["interruption_reason"] = answer.interruption
        told |= {"model_steps": spent.steps, "tool_calls": spent.tool_calls, "total_tokens": spent.tokens}
        self._telling.prepare(RunFinishedEvent(self._by, error, told))
        await self._ledger.barrier()
        self._telling.release()
        return RunResult(
            self._ledger.state,
            answer.output,
            answer.usage,
            answer.turns,
            answer.interruption,
            error,
            answer.learned or {},
            spent,
        )

    def _kept(self, answer: Answer, spent: BudgetAmount, error: JsonObject | None = None) -> JsonObject:
        """The record of an answer, put into the next commit; where nothing is kept, what readers are told of it."""
        if not self._ledger.is_kept:
            return {"result": to_json_value(answer.output)}
        record = encode_result(answer, spent, error)
        action = self._publication.action(None)
        labelled = with_label(record, self._effects.trust)
        kept = secretless(labelled, self._effects.redactor)
        self._ledger.append(action, JournalStage.AFTER, 1, kept, self._publication.view_of(kept))
        return record


def error_of(end: BaseException) -> JsonObject:
    """What callers are told of a failure: a code, the words, whether trying again may help."""
    match end:
        case LimitReached(code=code, reason=reason):
            return {"code": code.value, "message": reason, "retryable": False}
        case RunEnded(situation=situation, reason=reason, code=code, retryable=retryable):
            reason_code = situation.reason.value if situation.reason else situation.status.value
            return {"code": code or reason_code, "message": reason, "retryable": retryable}
        case _:
            failed = AgentStateReason.EXECUTION_FAILED.value
            retryable = bool(getattr(end, "retryable", False))
            return {"code": failed, "message": f"{type(end).__name__}: {end}", "retryable": retryable}


def _turns(
    conversation: str, question: str, output: JsonValue, trust: TrustLabel
) -> ConversationTurns | None:
    answer = output if isinstance(output, str) else canonical_json(output)
    if output is None or not answer.strip():
        return None
    said = (ConversationTurn("user", question), ConversationTurn("assistant", answer, trust))
    return ConversationTurns(conversation, said)
