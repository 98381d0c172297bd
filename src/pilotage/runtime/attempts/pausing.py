"""A run that has to wait: its state says for what and until when, and whoever listens is told, all in one commit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pilotage.agent.events import AgentEventAttribution, RunPausedEvent
from pilotage.agent.run_result import RunResult
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason, AgentStatus
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.actions.interruptions import AWAITS, Paused, RunDiverged
from pilotage.runtime.door.effects import Effects
from pilotage.runtime.door.questions import is_about_the_past
from pilotage.runtime.gate.deadline import earliest
from pilotage.runtime.stream.telling import Telling


class Pausing:
    """Lets an attempt end with a pause. A run whose `human_time_counts` may have to end while it waits."""

    def __init__(
        self, effects: Effects, telling: Telling, by: AgentEventAttribution, *, human_time_counts: bool
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
