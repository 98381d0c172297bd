"""One attempt at a run: the agent's code from the top, replayed as far as it is recorded, then live.

Every way in which an attempt can end is decided here, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import (
    AgentEventAttribution,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
)
from pilotage.agent.ports.journal import JournalStage
from pilotage.agent.principal import RunContext, run_context
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason
from pilotage.agent.tools.active import tool_calls_go_to
from pilotage.agent.tools.metadata import Idempotency
from pilotage.agent.yields import AgentYield, Final
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.action import Action, fingerprint_of
from pilotage.runtime.effects import Effects
from pilotage.runtime.feed import Feed
from pilotage.runtime.interruptions import Paused, RunDiverged, RunEnded
from pilotage.runtime.model_calls import active_effects
from pilotage.runtime.projection import events_of
from pilotage.runtime.scope import Scope, enter
from pilotage.runtime.stream import items_of
from pilotage.runtime.tool_calls import ToolCalls
from pilotage.values import value

RESULT = "run/result#1"


@value
class RunResult:
    """How a run stands after an attempt: its state, and the output once it is completed."""

    state: AgentState
    output: Any = None

    @property
    def status(self) -> str:
        """The status of the run."""
        return self.state.status


class RunAttempt:
    """Drives an agent's `execute()` for one run."""

    def __init__(
        self,
        definition: AgentDefinition,
        instance: Any,
        arguments: Mapping[str, object],
        effects: Effects,
        context: RunContext,
    ) -> None:
        self.feed = Feed()
        self._definition = definition
        self._instance = instance
        self._arguments = arguments
        self._effects = effects
        self._ledger = effects.ledger
        self._context = context
        run_id = self._ledger.run.run_id
        self._by = AgentEventAttribution(definition.agent_id, run_id, context.session_id or run_id)
        self._cancel: str | None = None

    async def run(self) -> RunResult:
        """Bring the run as far as it gets now.

        Raises:
            RunOwnershipLost: somebody else has the run.
            StoreUnavailable: the journal cannot be written.
        """
        try:
            return await self._run()
        finally:
            self.feed.close()

    async def _run(self) -> RunResult:
        self.feed.publish(RunStartedEvent(self._by))
        try:
            output = await self._execute()
            self._effects.recording.check_used_up()
            return await self._complete(output)
        except Paused:
            return await self._pause()
        except RunDiverged as divergence:
            return await self._interrupt(divergence)
        except RunEnded as end:
            return await self._end(end.situation, end.reason)
        except Exception as error:  # noqa: BLE001 - the top of a run: whatever the agent throws ends it
            return await self._end(AgentSituation.FAILED, f"{type(error).__name__}: {error}")

    async def _execute(self) -> object:
        enter(Scope("run", asyncio.current_task()))
        active_effects.set(self._effects)
        output: object = None
        with run_context(self._context), tool_calls_go_to(ToolCalls(self._effects, self._by.conversation_id)):
            async for item in items_of(self._instance.execute(**self._arguments)):
                if isinstance(item.payload, Final):
                    output = item.payload.output
                    break
                self._publish(item)
        return output

    def _publish(self, item: AgentYield[Any]) -> None:
        """Tell subscribers, unless it was told by the attempt that is being replayed."""
        if self._effects.recording.is_used_up:
            for event in events_of(item, self._by):
                self.feed.publish(event)

    async def _complete(self, output: object) -> RunResult:
        record: JsonObject = {"result": to_json_value(output)}
        self._ledger.append(self._result_action(), JournalStage.AFTER, 1, record, record)
        self._ledger.move(self._running().moved_to(AgentSituation.COMPLETED))
        await self._ledger.barrier()
        self.feed.publish(RunFinishedEvent(self._by, None, {"output": record["result"]}))
        return RunResult(self._ledger.state, output)

    async def _pause(self) -> RunResult:
        """The waiting branch has unwound; its siblings go on to their own end or wait, then the run pauses."""
        me = asyncio.current_task()
        siblings = [task for task in self._effects.tasks if task is not me and not task.done()]
        if siblings:
            await asyncio.wait(siblings)
        waits = self._effects.waits.open
        state = self._ledger.state
        if state.reason is not AgentStateReason.APPROVAL_DEFERRED:
            prompt = next((str(wait.get("prompt") or wait["reason"]) for wait in waits.values()), "waiting")
            is_recovery = all("action_kind" in wait for wait in waits.values())
            situation = (
                AgentSituation.RECOVERY_REQUIRED if is_recovery else AgentSituation.WAITING_FOR_APPROVAL
            )
            if state.reason is not situation.reason:
                state = self._running().moved_to(situation, activity=prompt)
                self._ledger.move(state)
        await self._ledger.barrier()
        self._ledger.kill(Paused(*waits))
        for wait_id, wait in waits.items():
            self._tell_pause(state, wait_id, wait)
        return RunResult(state)

    async def _interrupt(self, divergence: RunDiverged) -> RunResult:
        facts: JsonObject = {
            "divergence": {"action": divergence.action_id, "difference": divergence.difference}
        }
        words = f"the program diverged from its record at {divergence}"
        self._ledger.move(
            self._running().moved_to(AgentSituation.RECOVERY_REQUIRED, activity=words, metadata=facts)
        )
        await self._ledger.barrier()
        self._ledger.kill(divergence)
        self._tell_pause(self._ledger.state, None, {"prompt": words})
        return RunResult(self._ledger.state)

    async def _end(self, situation: AgentSituation, reason: str) -> RunResult:
        state = self._running().moved_to(situation, activity=reason)
        self._ledger.move(state)
        await self._ledger.barrier()
        if situation is AgentSituation.CANCELLING:
            state = state.moved_to(AgentSituation.CANCELLED)
            self._ledger.move(state)
            await self._ledger.barrier()
        error: JsonObject = {"code": str(state.reason or state.status), "message": reason, "retryable": False}
        self.feed.publish(RunFinishedEvent(self._by, error))
        return RunResult(state)

    def _tell_pause(self, state: AgentState, wait_id: str | None, wait: Mapping[str, JsonValue]) -> None:
        decisions = wait.get("allowed_decisions")
        self.feed.publish(
            RunPausedEvent(
                self._by,
                state.reason or AgentStateReason.USER_INTERRUPTED,
                str(wait.get("prompt") or wait["reason"]),
                state.id,
                approval_id=wait_id,
                allowed_decisions=tuple(map(str, decisions)) if isinstance(decisions, list) else (),
                metadata=wait,
            )
        )

    def _running(self) -> AgentState:
        """The state as the table wants it before a step: a run that waited has gone on."""
        state = self._ledger.state
        if state.status in (AgentSituation.RUNNING.status, AgentSituation.CANCELLING.status):
            return state
        return state.moved_to(AgentSituation.RUNNING)

    def _result_action(self) -> Action:
        kind, run_id = AgentActionKind.VALUE, self._ledger.run.run_id
        fingerprint = fingerprint_of(run_id, RESULT, kind, "result", None)
        return Action(RESULT, kind, "result", None, None, Idempotency.IDEMPOTENT, True, fingerprint)
