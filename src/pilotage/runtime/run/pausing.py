"""Ending an attempt with a pause: the state names the wait and its time limit, in one commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from pilotage.agent.events import RunPausedEvent
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason, AgentStatus
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.budget.limits import earliest
from pilotage.runtime.door.run import Run
from pilotage.runtime.journal.divergence import is_stuck
from pilotage.runtime.journal.interruptions import AWAITS, Paused, RecordDamaged, RunDiverged, SealMissing
from pilotage.runtime.journal.stored_words import (
    ACTION_ID,
    DAMAGE,
    DIVERGENCE,
    LIMIT,
    PAUSED_ON_REQUEST,
    REQUEST_ID,
    RESULT,
    SEAL_MISSING,
    WAKE_AT,
)
from pilotage.runtime.people.requests import is_recovery

_ANSWER = AgentSignalKind.APPROVAL_DECISION


def is_paused_by_person(state: AgentState) -> bool:
    """Return whether a person interrupted the run: any other pause of the same reason says what it waits for."""
    is_interrupted = state.reason is AgentStateReason.USER_INTERRUPTED
    return is_interrupted and state.current_activity == PAUSED_ON_REQUEST


class Pausing:
    """Ends an attempt with a pause: the state names the wait and its time limit, in one commit."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._ledger = run.ledger
        self._pauses = run.replay.pauses

    async def pause(self, pause: Paused | None) -> RunResult:
        """Pause for the answers of people, for the reason of `pause`, or because of a pause signal."""
        run, waits = self._run, self._run.questions.open
        if pause is not None:
            # It may be one of the run itself, for which no call of the program is parked.
            self._pauses = (*self._pauses, pause)
        stopped_by = pause if pause is not None and pause.reason else _with_reason(run.replay.pauses)
        state = self._waiting(waits) if waits else self._waiting_for(stopped_by)
        run.outcomes.suspend({str(wait[ACTION_ID]) for wait in waits.values() if is_recovery(wait)})
        run.signals.settle_pauses()
        for wait_id, wait in waits.items():
            self._prepare(state, wait_id, wait)
        if not waits:
            facts: JsonObject = stopped_by.facts if stopped_by is not None else {}
            self._prepare(state, None, {"prompt": state.current_activity or "paused", **facts})
        return await self._commit(Paused(*waits))

    async def diverge(self, divergence: RunDiverged) -> RunResult:
        """Interrupt the run until a person has examined the recorded actions that its program did not request again."""
        redactor = self._run.redactor
        facts: JsonObject = {DIVERGENCE: redactor.json(divergence.facts)}
        words = redactor.text(f"the program diverged from its record at {divergence}")
        if isinstance(divergence, RecordDamaged):
            facts, words = {DAMAGE: divergence.damage.facts}, divergence.difference
        self._move(divergence.situation, words, facts)
        self._prepare(self._ledger.state, None, {"prompt": words, **facts})
        return await self._commit(divergence)

    async def stop_at_limit(self, error: JsonObject, partial: JsonObject) -> AgentState:
        """Interrupt the run until a person raises the limit; `partial` is the result so far, for readers."""
        words = self._run.redactor.text(str(error["message"]))
        self._move(AgentSituation.LIMIT_REACHED, words, {LIMIT: partial})
        facts: JsonObject = {"code": error["code"], "output": partial[RESULT]}
        self._prepare(self._ledger.state, None, {"prompt": words, **facts})
        return (await self._commit(Paused())).state

    async def interrupt_unsealed(self, missing: SealMissing) -> RunResult:
        """Interrupt the run until it is resumed by an application with a key."""
        self._move(AgentSituation.RECOVERY_REQUIRED, str(missing), {SEAL_MISSING: str(missing)})
        self._prepare(self._ledger.state, None, {"prompt": str(missing)})
        return await self._commit(missing)

    async def _commit(self, end: Paused | RunDiverged | SealMissing) -> RunResult:
        await self._ledger.barrier()
        self._ledger.kill(end)
        self._run.events.release()
        return RunResult(self._ledger.state)

    def _waiting(self, waits: Mapping[str, JsonObject]) -> AgentState:
        """Return the state of a run that waits for people; a run with a deferred question stays deferred."""
        if self._ledger.state.status is AgentStatus.CANCELLING:
            return self._waiting_for_cleanup(waits)
        if self._ledger.state.reason is AgentStateReason.APPROVAL_DEFERRED:
            return self._with_wake_up()
        prompt = next((str(wait.get("prompt") or wait["reason"]) for wait in waits.values()), "waiting")
        situation = (
            AgentSituation.RECOVERY_REQUIRED
            if all(map(is_recovery, waits.values()))
            else AgentSituation.WAITING_FOR_APPROVAL
        )
        return self._move(situation, prompt)

    def _waiting_for_cleanup(self, waits: Mapping[str, JsonObject]) -> AgentState:
        """Return the state of a cancelled run that waits for people: it awaits an answer, and nothing else.

        Answers to the questions that it had before are of no use to it any more.
        """
        ledger = self._ledger
        for signal in tuple(ledger.unread.values()):
            if signal.kind is _ANSWER and signal.payload.get(REQUEST_ID) not in waits:
                ledger.refuse_signal(signal.id)
        ends = [
            datetime.fromisoformat(end)
            for wait in waits.values()
            if isinstance(end := wait.get("expires_at"), str)
        ]
        ledger.change_state(replace(ledger.state, wake_at=earliest(*ends), awaits=_ANSWER.value))
        return ledger.state

    def _waiting_for(self, pause: Paused | None) -> AgentState:
        words = self._run.redactor.text(pause.reason) if pause and pause.reason else PAUSED_ON_REQUEST
        is_new = self._ledger.state.current_activity != words
        since: JsonObject = {"paused_at": self._run.ports.clock.now().isoformat()}
        situation = AgentSituation.USER_INTERRUPTED if pause is None else pause.situation
        return self._move(situation, words, since if is_new else None)

    def _move(self, situation: AgentSituation, activity: str, facts: JsonObject | None = None) -> AgentState:
        """Move the run to a waiting state; a resumed run without news waits as before."""
        ledger = self._ledger
        if ledger.state.reason is not situation.reason or facts or is_stuck(ledger.state):
            since: JsonObject = {**(facts or {}), "paused_at": self._run.ports.clock.now().isoformat()}
            ledger.change_state(running(ledger.state).moved_to(situation, activity=activity, metadata=since))
        return self._with_wake_up()

    def _with_wake_up(self) -> AgentState:
        """Return the state with the time when the run goes on even without an answer.

        And with the message that a branch of it awaits. Where the time of people counts, the deadline may pass.
        """
        run = self._run
        ends = [wait.get("expires_at") for wait in run.questions.open.values()]
        deadline = run.source.deadline if run.source.definition.spec.human_time_counts else None
        ends += [pause.facts.get(WAKE_AT) for pause in self._pauses]
        wake_at = earliest(deadline, *(datetime.fromisoformat(end) for end in ends if isinstance(end, str)))
        awaits = next((pause.facts[AWAITS] for pause in self._pauses if AWAITS in pause.facts), None)
        state = self._ledger.state
        if (state.wake_at, state.awaits) != (wake_at, awaits):
            self._ledger.change_state(replace(state, wake_at=wake_at, awaits=str(awaits) if awaits else None))
        return self._ledger.state

    def _prepare(self, state: AgentState, wait_id: str | None, wait: Mapping[str, JsonValue]) -> None:
        decisions = wait.get("allowed_decisions")
        call_id = wait.get("call_id")
        self._run.events.prepare(
            RunPausedEvent(
                self._run.source.attribution,
                state.reason or AgentStateReason.USER_INTERRUPTED,
                str(wait.get("prompt") or wait["reason"]),
                state.id,
                approval_id=wait_id,
                tool_call_id=str(call_id) if call_id else None,
                allowed_decisions=tuple(map(str, decisions)) if isinstance(decisions, list) else (),
                metadata=wait,
            )
        )


def _with_reason(pauses: Iterable[Paused]) -> Paused | None:
    """Return the first pause that has a reason other than a question to a person."""
    return next((pause for pause in pauses if pause.reason), None)


def running(state: AgentState) -> AgentState:
    """Return the state from which the table of transitions allows a step: a run that waited is running again."""
    if state.status in (AgentStatus.ACTIVE, AgentStatus.CANCELLING):
        return state
    return state.moved_to(AgentSituation.RUNNING)
