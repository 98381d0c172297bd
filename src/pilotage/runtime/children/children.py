"""Child runs: a child is its own run, with an id that follows from its parent and the step.

Coming back to a delegation re-attaches to the child it started, and never starts another. A child that pauses pauses
its parent; one that fails makes the delegation fail; its events are emitted by its parent too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import final

from pilotage.agent.approval import AgentApprovalBoundaryKind
from pilotage.agent.events import AgentEvent
from pilotage.agent.facts import run_delegated
from pilotage.agent.model_request import ModelToolSpec
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import RejectionPolicy
from pilotage.agent.spec import LimitCode
from pilotage.agent.state import AgentSituation, AgentState, AgentStateReason, AgentStatus
from pilotage.errors import AgentToolDispatchError, DelegationError, StoppedShortError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, to_json_value
from pilotage.runtime.children.launch import ChildLauncher, cancellation_of
from pilotage.runtime.children.tasks import NO_BOUNDS, ChildBounds, ChildEnded, ChildTask, child_id
from pilotage.runtime.door.door import perform
from pilotage.runtime.door.run import LiveRun, Run
from pilotage.runtime.effect import CHILD, NOTHING, Effect
from pilotage.runtime.events.forwarding import Relay
from pilotage.runtime.exposure.redactor import public_text
from pilotage.runtime.exposure.trust import label_in, with_label
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import (
    ChildInterrupted,
    LimitReached,
    ModelUnavailable,
    Paused,
    RunEnded,
    RunHandedOver,
    SealMissing,
    StoreUnavailable,
)
from pilotage.runtime.journal.record_fields import optional_text, value_field
from pilotage.runtime.journal.records import encode_amount, optional_amount
from pilotage.runtime.journal.scope import Action, StepScope, scope_for
from pilotage.runtime.journal.start_record import MOST_GENERATIONS

_SHOWN_OF_PARTIAL = 2_000
"""The number of characters of a partial output in the error message."""
_COUNTED = (LimitCode.MAX_STEPS, LimitCode.MAX_TOKENS, LimitCode.MAX_COST)
_STATE_REASONS = frozenset({None, *(reason.value for reason in AgentStateReason)})


@final
class ChildRun(Effect):
    """A delegation: the child run is brought to its end, and its output recorded."""

    kind = CHILD
    boundary = AgentApprovalBoundaryKind.DELEGATION

    def __init__(self, children: Children, task: ChildTask | None, scope: StepScope, action: Action) -> None:
        super().__init__(scope, action)
        self._children = children
        self._task = task

    async def act(self) -> object:
        if self._task is None:
            raise AssertionError("a child that is not needed any more is not run")
        branch = self.action.id.removeprefix("run/")
        return await self._children.bring_to_end(self.action.id, replace(self._task, branch=branch))

    async def abandon(self) -> None:
        await self._children.cancel(self.action)

    def cut_record(self) -> JsonObject:
        spent = self._children.spent_of(self.action.id)
        return {**super().cut_record(), words.RESULT: {words.SPENT: encode_amount(spent)}}

    def view_of(self, result: JsonValue) -> JsonObject:
        return self._children.run.redactor.json({"result": result})


class Children:
    """Runs the children of one attempt at a run as effects of it."""

    def __init__(self, run: Run, launcher: ChildLauncher) -> None:
        self.run = run
        self._launcher = launcher
        self._relays: dict[str, Relay] = {}
        self._live: dict[str, LiveRun] = {}
        self._attaching: dict[str, asyncio.Lock] = {}
        self._spent: dict[str, BudgetAmount] = {}
        self._counted: set[str] = set()

    async def spawn(
        self,
        name: str,
        agent: AgentRef,
        task: JsonValue,
        bounds: ChildBounds = NO_BOUNDS,
        exits: tuple[ModelToolSpec, ...] = (),
    ) -> JsonValue:
        """Run a child to its end and return its output.

        Raises:
            AgentToolDispatchError: too many runs stand above this one.
            DelegationError: the child failed or was cancelled.
            RunInterruption: the child waits, or this attempt is over.
        """
        return await self.perform(
            self.prepared(f"child:{name}", name, ChildTask(agent, task, bounds, exits=exits, is_worker=True))
        )

    def prepared(self, label: str, name: str, task: ChildTask) -> ChildRun:
        """Return a delegation that has its id and is not performed yet.

        Raises:
            AgentToolDispatchError: too many runs stand above this one.
        """
        run, generation = self.run, self.run.source.start.generation
        if generation + 1 >= MOST_GENERATIONS:
            raise AgentToolDispatchError(
                f"run {run.id!r} stands {generation} runs deep; "
                f"a run may stand at most {MOST_GENERATIONS} deep. Let agents delegate less far."
            )
        scope = scope_for(label, task.task)
        action_id, kind = scope.next_id(label), AgentActionKind.DELEGATION
        agent = self._launcher.name_of(task.agent)
        asked: JsonObject = {"agent": agent, "task": to_json_value(task.task)}
        view: JsonObject = {
            "agent": agent,
            "task": run.redactor.json(self._launcher.shown(task.agent, task.task)),
        }
        action = run.action(action_id, kind, name, asked, view, is_read_only=False)
        if not self._launcher.hides(task.agent):
            action = replace(action, hides=False)
        child = ChildRun(self, task, scope, action)
        child.agent = agent
        child.begins = run_delegated(run.ledger.state, self._id_for(action_id), agent)
        run.number(child)
        return child

    async def perform(self, child: ChildRun) -> JsonValue:
        """Perform a delegation and return the child's output."""
        run = self.run
        is_known = run.replay.outcome_of(child.action.id) is not None
        ended: JsonObject = await perform(run, child)
        # A parent has read everything that its child has read.
        run.trust = run.trust.join(label_in(ended))
        if is_known:
            run.spending.absorb(optional_amount(ended) or NOTHING)
            self._counted.add(self._id_for(child.action.id))
        error, reason = optional_text(ended, words.ERROR), optional_text(ended, words.INTERRUPTION)
        if error is not None:
            partial = ended.get(words.OUTPUT)
            if reason is not None:
                raise StoppedShortError(error, reason=reason, partial_output=partial)
            raise DelegationError(error, partial_output=partial)
        return value_field(ended, words.OUTPUT)

    async def give_up(self, path: str) -> None:
        """Cancel the child runs below a path, because their results are no longer needed."""
        run = self.run
        for action, number in run.outcomes.still_open(run.replay):
            if action.kind is AgentActionKind.DELEGATION and action.id.startswith(f"{path}/"):
                await self.cancel(action)
                spent = self.spent_of(action.id)
                child = ChildRun(self, None, StepScope(path), action)
                child.attempt = number
                run.outcomes.begin(child)
                run.outcomes.done(child, _ended(spent, words.ERROR, "its result is no longer needed"))

    def spent_of(self, action_id: str) -> BudgetAmount:
        """Return what the child of an action has spent in this attempt."""
        return self._spent.get(self._id_for(action_id), NOTHING)

    async def cancel(self, action: Action) -> None:
        """Cancel the child run of an action."""
        run = self.run
        await self._launcher.cancel_child(run.ledger.run, action, run.source.start.principal)

    def fitting(self, agent: AgentRef, task: JsonObject, along: JsonObject) -> JsonObject:
        """Return the task with the additional fields that the agent accepts."""
        return self._launcher.fitting(agent, task, along)

    def event_sink(self, child: str) -> Callable[[AgentEvent], None]:
        """Return the sink for the events of a child: this run emits those that its log does not have."""
        relay = self._relays.get(child)
        return relay.forward if relay is not None else self.run.events.write

    async def bring_to_end(self, action_id: str, task: ChildTask) -> JsonObject:
        """Return the record of a child that has ended: its output or its error message, and its spending."""
        run, child = self.run, self._id_for(action_id)
        found = await self._attach(child, task)
        if isinstance(found, ChildEnded):
            self._reject_with(task, found.result)
            spent = self._counting(child, found.spent)
            run.spending.absorb(spent)
            return with_label(self._outcome(action_id, found.result, spent), found.trust)
        try:
            result = await self._ended_by_itself(found)
        except asyncio.CancelledError:
            self._spent[child] = found.run.spending.spent
            raise
        finally:
            self._live.pop(child, None)
            self._relays.pop(child, None)
        asked = found.run.questions.open
        run.questions.open.update(asked)
        spent = self._spent[child] = found.run.spending.spent
        self._reject_with(task, result)
        outcome = self._outcome(action_id, result, self._counting(child, spent), tuple(asked))
        return with_label(outcome, found.run.trust)

    def _counting(self, child: str, spent: BudgetAmount) -> BudgetAmount:
        """Return the amount that the delegation adds to the spending: a child of several delegations counts once."""
        if child in self._counted:
            return NOTHING
        self._counted.add(child)
        return spent

    async def _attach(self, child: str, task: ChildTask) -> LiveRun | ChildEnded:
        """Return the child, one for all that ask for it at the same time."""
        async with self._attaching.setdefault(child, asyncio.Lock()):
            found = self._live.get(child) or await self._launcher.attach(self.run, child, task, self._relays)
            if isinstance(found, LiveRun):
                self._live[child] = found
            return found

    async def _ended_by_itself(self, child: LiveRun) -> RunResult:
        """Return the result of a child that is under way here. Only its journal ends it, no error of its attempt.

        Raises:
            RunInterruption: its attempt ended without a result, and so does this one.
        """
        try:
            return await asyncio.shield(child.task)
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if child.task.cancelled() and current is not None and not current.cancelling():
                # The attempt of the child was stopped, and this one was not: the next owner goes on with both.
                raise RunHandedOver from None
            await self._stop(child)
            raise
        except Exception as error:
            raise StoreUnavailable(
                f"the attempt at child {child.id!r} failed: "
                + public_text(error, child.run.redactor, run_id=child.id, place=words.RUN)
            ) from error

    async def _stop(self, child: LiveRun) -> None:
        """Stop a child run: cancelled together with its parent, or because the program of its parent cut it short.

        At the shutdown of the process it is only stopped.
        """
        liveness = self.run.replay.liveness
        is_shutdown = liveness.is_stopping or liveness.is_ending or not self.run.ledger.is_durable
        if self.run.ledger.state.status is AgentStatus.CANCELLING or not is_shutdown:
            await child.cancel_unstored(cancellation_of(child.id))
        else:
            child.stop()
        await asyncio.wait([child.task])

    def _outcome(
        self, action_id: str, result: RunResult, spent: BudgetAmount, waits: tuple[str, ...] = ()
    ) -> JsonObject:
        state = result.state
        match state.status:
            case AgentStatus.COMPLETED:
                return _ended(spent, words.OUTPUT, to_json_value(result.output))
            case AgentStatus.INTERRUPTED if not waits and _lacks_key(state):
                raise SealMissing(f"its child {state.id!r}: {state.current_activity}")
            case AgentStatus.INTERRUPTED if not waits and state.reason is AgentStateReason.MODEL_UNAVAILABLE:
                reason = f"its child {state.agent_type!r}: {state.current_activity}"
                wake_at = state.wake_at or self.run.ports.clock.now()
                raise ModelUnavailable(
                    reason=reason, facts={"child": state.id, words.WAKE_AT: wake_at.isoformat()}
                )
            case AgentStatus.INTERRUPTED if (
                state.reason is AgentStateReason.LIMIT_REACHED
                and (reached := self._own_limit(result.interruption_reason)) is not None
            ):
                # It waits at a limit of its parent's, and so does its parent.
                raise reached
            case AgentStatus.INTERRUPTED if (
                not waits and state.reason is not AgentStateReason.USER_INTERRUPTED
            ):
                raise ChildInterrupted(action_id, state)
            case AgentStatus.INTERRUPTED if not waits:
                reason = f"its child {state.agent_type!r}: {state.current_activity}"
                raise Paused(reason=reason, facts={"child": state.id})
            case AgentStatus.INTERRUPTED:
                raise Paused(*waits)
            case AgentStatus.ACTIVE:
                # The process stops, and the child was left as it is; so is its parent.
                raise RunHandedOver
            case _ if (reached := self._own_limit(result.interruption_reason)) is not None:
                # It was no limit of the child's: there is nothing that its parent could still do about it.
                raise reached
            case _:
                return _stopped_short(spent, result)

    def _reject_with(self, task: ChildTask, result: RunResult) -> None:
        """End this run with a rejection inside a worker, as inside a part of its own work.

        Raises:
            RunEnded: a person rejected what the worker asked for, and this agent's policy is to fail then.
        """
        is_rejected = result.state.reason is AgentStateReason.APPROVAL_REJECTED
        policy = self.run.source.on_rejection
        if task.is_worker and is_rejected and policy is RejectionPolicy.FAIL:
            words_of_it = f"its worker {result.state.agent_type!r}: {_why(result)}"
            raise RunEnded(AgentSituation.APPROVAL_REJECTED, words_of_it)

    def _own_limit(self, reason: str | None) -> LimitReached | None:
        """Return the limit of this run, or of one above it, that stopped a child short for this reason."""
        spending = self.run.spending
        if reason == LimitCode.MAX_TOOL_CALLS:
            return spending.limit_for_tool_calls()
        return spending.refused_limit() if reason in _COUNTED else None

    def _id_for(self, action_id: str) -> str:
        return child_id(self.run.id, action_id)


def _why(result: RunResult) -> str:
    """Return why a run ended without its answer."""
    state = result.state
    return str((result.error or {}).get("message") or state.current_activity or state.status.value)


def _lacks_key(state: AgentState) -> bool:
    """Return whether a run was interrupted because a record could not be sealed."""
    reason = state.metadata.get(words.SEAL_MISSING)
    return reason is not None and reason == state.current_activity


def _stopped_short(spent: BudgetAmount, result: RunResult) -> JsonObject:
    """Return the record of a child that ended without an answer, with its output so far."""
    partial, reason = to_json_value(result.output), result.interruption_reason
    message, more = f"{result.state.agent_type!r} did not finish: {_why(result)}", dict[str, JsonValue]()
    if partial is not None and partial != "":
        text = partial if isinstance(partial, str) else canonical_json(partial)
        message += f" Its output so far: {text[:_SHOWN_OF_PARTIAL]}"
        more[words.OUTPUT] = partial
    if reason not in _STATE_REASONS:
        more[words.INTERRUPTION] = reason
    return {**_ended(spent, words.ERROR, message), **more}


def _ended(spent: BudgetAmount, key: str, found: JsonValue) -> JsonObject:
    """Return the record of a delegation: the output of the child or its error message, and its spending."""
    return {key: found, words.SPENT: encode_amount(spent)}
