"""Bugs that a durable runtime could have, each planted into ours by replacing one function of it.

Everywhere else our own code is never patched; here it is the point. A bug wraps what it breaks wherever it can, so
that it stays the same bug when the code around it changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

import pytest

from pilotage import Idempotency
from pilotage.agent import ApprovalDecision, RunFinishedEvent
from pilotage.agent.ports.journal import CommitOutcome, Committed, HeadMoved, JournalCommit, JournalStage
from pilotage.errors import ToolError
from pilotage.runtime import effects, waits
from pilotage.runtime.attempt import RunAttempt
from pilotage.runtime.cancellation import begin_cancellation
from pilotage.runtime.effects import Effects
from pilotage.runtime.ledger import Ledger
from pilotage.runtime.liveness import Liveness
from pilotage.runtime.projection import events_of
from pilotage.runtime.recording import Recording
from pilotage.runtime.recovery import AskHuman, Repeat
from pilotage.runtime.steps import step
from pilotage.runtime.tool_calls import ToolCalls
from pilotage.runtime.waits import Waits
from pilotage.runtime.writer import JournalWriter

Patch = pytest.MonkeyPatch


def no_barrier_before_an_action(patch: Patch) -> None:
    async def dispatch(self: Any, call: Any, attempt: Any) -> object:
        return await self._act(call, attempt)

    patch.setattr(Effects, "_dispatch", dispatch)


def after_is_written_before_the_effect(patch: Patch) -> None:
    act: Any = Effects._act

    async def hasty(self: Any, call: Any, attempt: Any) -> object:
        if call.action.is_read_only:
            return await act(self, call, attempt)
        self._done(call, attempt.number, f"{call.action.name}-1")
        await self.ledger.barrier()
        return await call.act(attempt)

    patch.setattr(Effects, "_act", hasty)


def a_moved_head_is_ignored(patch: Patch) -> None:
    commit: Any = JournalWriter.commit

    async def deaf(self: Any, asked: JournalCommit) -> CommitOutcome:
        outcome: CommitOutcome = await commit(self, asked)
        if isinstance(outcome, HeadMoved):
            return Committed(asked.expected_head + len(asked.rows))
        return outcome

    patch.setattr(JournalWriter, "commit", deaf)


def one_token_for_all_commits(patch: Patch) -> None:
    commit: Any = JournalWriter.commit

    async def repeating(self: Any, asked: JournalCommit) -> CommitOutcome:
        return await commit(self, replace(asked, token=asked.token.partition(":")[0]))

    patch.setattr(JournalWriter, "commit", repeating)


def attempts_share_their_tokens(patch: Patch) -> None:
    init: Any = Ledger.__init__

    def nameless(self: Any, run: Any, state: Any, head: Any, writer: Any, writer_id: str) -> None:
        init(self, run, state, head, writer, f"epoch {head.epoch + 1}")

    patch.setattr(Ledger, "__init__", nameless)


def no_claim_on_resume(patch: Patch) -> None:
    claim: Any = Ledger.claim

    def only_the_first(self: Any, record: Any, view: Any) -> None:
        if self.epoch == 1:
            claim(self, record, view)

    patch.setattr(Ledger, "claim", only_the_first)


def an_approval_serves_a_second_call(patch: Patch) -> None:
    ask: Any = Waits.approved_arguments
    approved: set[str] = set()

    def lenient(self: Any, call: Any, attempt: int) -> object:
        if call.action.name in approved:
            return None
        arguments = ask(self, call, attempt)
        approved.add(call.action.name)
        return arguments

    patch.setattr(Waits, "approved_arguments", lenient)


def a_retry_serves_every_later_attempt(patch: Patch) -> None:
    wait_for: Any = waits._wait_for

    def same(action: Any, what: str) -> object:
        return wait_for(action, what.rstrip("0123456789"))

    patch.setattr(waits, "_wait_for", same)


class Late:
    """Calls when it is awaited, and never if it is not."""

    def __init__(self, call: Callable[[], Awaitable[object]]) -> None:
        self._call = call

    def __await__(self) -> Generator[object, None, object]:
        return self._call().__await__()


def ordinals_are_taken_when_awaited(patch: Patch) -> None:
    call: Any = ToolCalls.call

    patch.setattr(ToolCalls, "call", lambda *given: Late(partial(call, *given)))


def fingerprints_are_ignored(patch: Patch) -> None:
    take: Any = Recording.take

    def blind(self: Any, action: Any) -> object:
        recorded = self._actions.get(action.id)
        fingerprint = recorded.row.fingerprint if recorded else action.fingerprint
        return take(self, replace(action, fingerprint=fingerprint))

    patch.setattr(Recording, "take", blind)


def left_out_actions_are_ignored(patch: Patch) -> None:
    patch.setattr(Recording, "check_used_up", lambda _: None)


def a_tool_error_is_not_recorded(patch: Patch) -> None:
    patch.setattr(Effects, "_failed", lambda _self, _call, _attempt, error: error)


def an_unknown_outcome_is_a_failure(patch: Patch) -> None:
    async def give_up(self: Any, call: Any, attempt: Any) -> object:
        raise self._failed(call, attempt.number, ToolError("it failed"))

    patch.setattr(Effects, "_find_out", give_up)


def what_needs_a_person_is_repeated(patch: Patch) -> None:
    recovery_for: Any = effects.recovery_for

    def bold(action: Any, recorded: Any, *, can_reconcile: bool) -> object:
        recovery = recovery_for(action, recorded, can_reconcile=can_reconcile)
        return Repeat(recovery.attempt) if isinstance(recovery, AskHuman) else recovery

    patch.setattr(effects, "recovery_for", bold)


def reconcile_is_ignored(patch: Patch) -> None:
    recovery_for: Any = effects.recovery_for

    def incurious(action: Any, recorded: Any, *, can_reconcile: bool) -> object:
        return recovery_for(action, recorded, can_reconcile=False)

    patch.setattr(effects, "recovery_for", incurious)


def every_attempt_has_a_key_of_its_own(patch: Patch) -> None:
    patch.setattr(effects, "idempotency_key", lambda _run, _action_id: uuid4().hex)


def signals_are_not_consumed(patch: Patch) -> None:
    patch.setattr(Ledger, "consume", lambda _self, _signal_id: None)


def a_message_is_taken_in_while_replaying(patch: Patch) -> None:
    patch.setattr(Recording, "is_used_up", True)


def a_decision_is_used_up_before_the_action_begins(patch: Patch) -> None:
    allowed: Any = Effects._allowed

    async def in_two_commits(self: Any, call: Any) -> object:
        arguments = await allowed(self, call)
        await self.ledger.barrier()
        return arguments

    patch.setattr(Effects, "_allowed", in_two_commits)


def the_end_is_told_before_it_is_committed(patch: Patch) -> None:
    complete: Any = RunAttempt._complete

    async def boasting(self: Any, output: object) -> object:
        self.feed.publish(RunFinishedEvent(self._by, None, {"output": output}))
        return await complete(self, output)

    patch.setattr(RunAttempt, "_complete", boasting)


def the_work_is_stopped_before_the_cancellation_is_recorded(patch: Patch) -> None:
    async def cancel(self: Any, signal: Any) -> None:
        self._is_cancelled = True
        self._task.cancel()
        await asyncio.sleep(0)
        await begin_cancellation(self._ledger, signal)

    patch.setattr(RunAttempt, "cancel", cancel)


def a_pause_does_not_wait_for_siblings(patch: Patch) -> None:
    patch.setattr(Liveness, "siblings", lambda _: [])


def an_end_does_not_wait_for_what_is_under_way(patch: Patch) -> None:
    async def at_once(self: Any, end: Any) -> None:
        self.end(end)

    patch.setattr(Liveness, "quiesce", at_once)


def a_waiting_branch_goes_on(patch: Patch) -> None:
    patch.setattr(Liveness, "pause", lambda _self, _scope, _pause: None)


def a_replay_tells_everything_again(patch: Patch) -> None:
    def publish(self: Any, item: Any) -> None:
        for event in events_of(item, self._by):
            self.feed.publish(event)

    patch.setattr(RunAttempt, "_publish", publish)


def a_veto_is_not_recorded(patch: Patch) -> None:
    failed: Any = Effects._failed

    def forgetful(self: Any, call: Any, attempt: int, error: Exception) -> object:
        return error if "is not allowed" in str(error) else failed(self, call, attempt, error)

    patch.setattr(Effects, "_failed", forgetful)


def a_rejection_is_not_recorded(patch: Patch) -> None:
    answered: Any = Waits._answered

    def forgetful(self: Any, wait: Any, outcome: Any, request: Any) -> object:
        if outcome.decision is ApprovalDecision.REJECT:
            raise ToolError("a person rejected this call")
        return answered(self, wait, outcome, request)

    patch.setattr(Waits, "_answered", forgetful)


def secrets_are_recorded(patch: Patch) -> None:
    resolved: Any = ToolCalls._resolved

    async def remembered(self: Any, descriptor: Any) -> object:
        return await step("secrets", partial(resolved, self, descriptor), idempotency=Idempotency.IDEMPOTENT)

    patch.setattr(ToolCalls, "_resolved", remembered)


def a_tool_does_not_wait_for_the_open_reply(patch: Patch) -> None:
    patch.setattr(Effects, "open_streams_at", lambda _self, _path: [])


def a_model_reply_is_not_recorded(patch: Patch) -> None:
    append: Any = Ledger.append

    def without_replies(self: Any, action: Any, stage: JournalStage, *rest: Any) -> None:
        if action.name != "model":
            append(self, action, stage, *rest)

    patch.setattr(Ledger, "append", without_replies)


def a_resumed_run_starts_from_nothing(patch: Patch) -> None:
    patch.setattr(Recording, "_fold", lambda _self, _row: None)
