"""One attempt at a run: the agent's code from the top, replayed as far as it is recorded, then live.

Every way in which an attempt can end is decided here, once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import aclosing
from typing import Any, cast

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.events import (
    AgentEventAttribution,
    RunFinishedEvent,
    RunPausedEvent,
    RunStartedEvent,
)
from pilotage.agent.ports.journal import JournalStage
from pilotage.agent.ports.secret_store import ISecrets
from pilotage.agent.principal import RunContext, run_context
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.signals import AgentSignal
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason, AgentStatus
from pilotage.agent.tools.active import tool_calls_go_to
from pilotage.agent.tools.metadata import Idempotency
from pilotage.agent.yields import AgentYield, Final
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.action import Action, fingerprint_of
from pilotage.runtime.cancellation import begin_cancellation, finish_cancellation
from pilotage.runtime.effects import Effects, active_effects
from pilotage.runtime.feed import Feed
from pilotage.runtime.interruptions import (
    Paused,
    RunDiverged,
    RunEnded,
    RunInterruption,
    RunOwnershipLost,
    StoreUnavailable,
)
from pilotage.runtime.projection import events_of
from pilotage.runtime.scope import Scope, enter
from pilotage.runtime.stream import items_of
from pilotage.runtime.tool_calls import ToolCalls
from pilotage.values import value

RESULT = "run/result#1"

_FIRST_TO_COUNT = (RunOwnershipLost, StoreUnavailable, RunDiverged, RunEnded, Paused)


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
        secrets: ISecrets | None = None,
    ) -> None:
        self.feed = Feed()
        self._definition = definition
        self._instance = instance
        self._arguments = arguments
        self._effects = effects
        self._ledger = effects.ledger
        self._context = context
        self._secrets = secrets
        run_id = self._ledger.run.run_id
        self._by = AgentEventAttribution(definition.agent_id, run_id, context.session_id or run_id)
        self._task: asyncio.Task[object] | None = None
        self._is_cancelled = self._is_ending = self._is_executing = False

    async def run(self) -> RunResult:
        """Bring the run as far as it gets now.

        Raises:
            RunOwnershipLost: somebody else has the run.
            StoreUnavailable: the journal cannot be written.
        """
        self._task = asyncio.current_task()
        try:
            return await self._run()
        finally:
            self.feed.close()

    async def cancel(self, signal: AgentSignal) -> bool:
        """Write the cancellation down, then stop the work; False for an attempt that is coming to its own end."""
        if self._is_ending or self._is_cancelled:
            return self._is_cancelled
        self._is_cancelled = True
        await begin_cancellation(self._ledger, signal)
        if self._is_executing and self._task is not None:
            self._task.cancel()
        return True

    async def _run(self) -> RunResult:
        self.feed.publish(RunStartedEvent(self._by))
        if self._ledger.state.status is AgentStatus.CANCELLING:
            self._effects.under_way = {each[0].id: each for each in self._effects.recording.under_way()}
            return await self._finish_cancellation()
        try:
            self._is_executing = True
            output = await self._execute()
            self._is_executing = False
            if self._is_cancelled:
                return await self._finish_cancellation()
            self._is_ending = True
            if self._effects.liveness.is_paused:
                return await self._pause()
            self._effects.recording.check_used_up()
            return await self._complete(output)
        except asyncio.CancelledError:
            if not self._is_cancelled:
                raise
            return await self._finish_cancellation()
        except (Paused, RunDiverged, RunEnded, Exception, BaseExceptionGroup) as end:  # noqa: BLE001 - the top of a run
            self._is_executing = False
            if self._is_cancelled:
                return await self._finish_cancellation()
            self._is_ending = True
            return await self._stop(_what_counts(end))

    async def _stop(self, end: BaseException) -> RunResult:
        """Whatever the agent's code ended with, short of an answer."""
        match end:
            case Paused():
                return await self._pause()
            case RunDiverged():
                return await self._interrupt(end)
            case RunEnded(situation=situation, reason=reason):
                return await self._end(situation, reason)
            case RunInterruption():
                raise end
            case _ if self._effects.liveness.is_paused:
                return await self._pause()
            case _:
                return await self._end(AgentSituation.FAILED, f"{type(end).__name__}: {end}")

    async def _finish_cancellation(self) -> RunResult:
        self._is_executing = False
        if self._task is not None:
            self._task.uncancel()
        siblings = self._effects.liveness.siblings()
        for task in siblings:
            task.cancel()
        if siblings:
            await asyncio.wait(siblings)
        state = await finish_cancellation(self._ledger, self._effects.under_way.values())
        error: JsonObject = {"code": "cancelled", "message": "the run was cancelled", "retryable": False}
        self.feed.publish(RunFinishedEvent(self._by, error))
        return RunResult(state)

    async def _execute(self) -> object:
        enter(Scope("run", asyncio.current_task()))
        active_effects.set(self._effects)
        output: object = None
        tools = ToolCalls(self._effects, self._context, self._secrets)
        with run_context(self._context), tool_calls_go_to(tools):
            async with aclosing(items_of(self._instance.execute(**self._arguments))) as items:
                async for item in items:
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
        await self._effects.liveness.quiesce(RunEnded(AgentSituation.COMPLETED, "the run is completed"))
        record: JsonObject = {"result": to_json_value(output)}
        self._ledger.append(self._result_action(), JournalStage.AFTER, 1, record, record)
        self._ledger.move(self._running().moved_to(AgentSituation.COMPLETED))
        await self._ledger.barrier()
        self.feed.publish(RunFinishedEvent(self._by, None, {"output": record["result"]}))
        return RunResult(self._ledger.state, output)

    async def _pause(self) -> RunResult:
        """The waiting branch has unwound; its siblings go on to their own end or wait, then the run pauses."""
        if siblings := self._effects.liveness.siblings():
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
        await self._effects.liveness.quiesce(RunEnded(situation, reason))
        state = self._running().moved_to(situation, activity=reason)
        self._ledger.move(state)
        await self._ledger.barrier()
        if situation is AgentSituation.CANCELLING:
            return await self._finish_cancellation()
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
        if state.status in (AgentStatus.ACTIVE, AgentStatus.CANCELLING):
            return state
        return state.moved_to(AgentSituation.RUNNING)

    def _result_action(self) -> Action:
        kind, run_id = AgentActionKind.VALUE, self._ledger.run.run_id
        fingerprint = fingerprint_of(run_id, RESULT, kind, "result", None)
        return Action(RESULT, kind, "result", None, None, Idempotency.IDEMPOTENT, True, fingerprint)


def _what_counts(end: BaseException) -> BaseException:
    """Of what several branches ended with at once, the one that decides; an unknown end decides over all."""
    if not isinstance(end, BaseExceptionGroup):
        return end
    ends = list(_leaves(cast("BaseExceptionGroup[BaseException]", end)))
    for each in ends:
        if not isinstance(each, (RunInterruption, Exception)):
            raise each
    ranked: list[BaseException] = [
        each for kind in _FIRST_TO_COUNT for each in ends if isinstance(each, kind)
    ]
    return ranked[0] if ranked else cast(BaseException, end)


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(cast("BaseExceptionGroup[BaseException]", each))
        else:
            yield each
