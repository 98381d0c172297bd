"""Bugs that a durable runtime could have, each planted into ours by replacing one function of it.

Everywhere else our own code is never patched; here it is the point. A bug wraps what it breaks wherever it can, so
that it stays the same bug when the code around it changes. One that does not fit there any more says so: it must not
pass for a bug that was caught.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from dataclasses import replace
from functools import partial
from typing import Any, cast
from uuid import uuid4

import pytest

from pilotage import Idempotency
from pilotage.agent import ApprovalDecision
from pilotage.agent.ports.journal import CommitOutcome, Committed, HeadMoved, JournalCommit
from pilotage.agent.ports.persistence import JournalStage
from pilotage.errors import ToolError
from pilotage.runtime.architecture.blocks import ScopedRuntime
from pilotage.runtime.architecture.branches import Folds
from pilotage.runtime.door import door, not_performed
from pilotage.runtime.door.admission import ApprovalStage, SwitchStage
from pilotage.runtime.door.outcome import Outcomes
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.signals import SignalHandlers
from pilotage.runtime.door.step import step
from pilotage.runtime.door.tool_call import ToolCalls
from pilotage.runtime.events.writer import DurableEventWriter
from pilotage.runtime.journal.decisions import END, Pause
from pilotage.runtime.journal.draft import CommitDraft
from pilotage.runtime.journal.durable_replay import DurableReplay
from pilotage.runtime.journal.kernel import Kernel
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.liveness import Liveness
from pilotage.runtime.journal.recording import Recording
from pilotage.runtime.journal.recovery import AskHuman, Repeat
from pilotage.runtime.journal.scope import inside
from pilotage.runtime.journal.seals import SignalSeals
from pilotage.runtime.journal.turns import Turns
from pilotage.runtime.people import questions
from pilotage.runtime.people.signals import SignalIntake, SignalQueue
from pilotage.runtime.run.attempt import RunAttempt
from pilotage.runtime.run.cancel import begin_cancellation

_STALE = (AttributeError, NameError, TypeError)


class Planting:
    """Puts bugs in place for as long as a patch lasts. `stumbles` are errors of the bugs themselves."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch
        self.stumbles: list[Exception] = []

    def put(self, owner: object, name: str, bug: Any) -> None:
        """Put a bug in the place of a function.

        Raises:
            TypeError: the function takes something else than the bug.
        """
        original = getattr(owner, name)
        if callable(bug) and _parameters(bug) not in (["*"], _parameters(original)):
            raise TypeError(f"{name} takes {_parameters(original)}, and the bug {_parameters(bug)}")
        self._patch.setattr(owner, name, self._watched(bug) if callable(bug) else bug)

    def _watched(self, bug: Any) -> Any:
        if inspect.iscoroutinefunction(bug):

            async def watched(*args: Any, **kwargs: Any) -> object:
                try:
                    return await bug(*args, **kwargs)
                except _STALE as error:
                    self._note(error)
                    raise
        else:

            def watched(*args: Any, **kwargs: Any) -> object:
                try:
                    return bug(*args, **kwargs)
                except _STALE as error:
                    self._note(error)
                    raise

        return watched

    def _note(self, error: Exception) -> None:
        """What a bug itself raises is in this file; what the runtime raises because of it is not."""
        raised_in = inspect.getinnerframes(cast(Any, error.__traceback__))[-1].filename
        if raised_in == __file__:
            self.stumbles.append(error)


def _parameters(function: Any) -> list[str]:
    """How a function is called: one sign for each positional parameter, the names of the others."""
    parameters = inspect.signature(function).parameters.values()
    if any(each.kind is each.VAR_POSITIONAL for each in parameters):
        return ["*"]
    return [each.name if each.kind is each.KEYWORD_ONLY else "," for each in parameters]


def no_barrier_before_an_action(planting: Planting) -> None:
    carry_out: Any = door._carry_out

    async def hasty(run: Any, effect: Any) -> object:
        if effect.action.is_read_only or effect.is_deferred or not effect.kind.is_call:
            return await carry_out(run, effect)
        run.mark_running()
        run.outcomes.begin(effect)
        await run.ensure_lease()
        result = await door._act(run, effect)
        run.outcomes.write_before(effect)
        return result

    planting.put(door, "_carry_out", hasty)


def after_is_written_before_the_effect(planting: Planting) -> None:
    act: Any = door._act

    async def hasty(run: Any, effect: Any) -> object:
        if effect.action.is_read_only or not effect.kind.is_call:
            return await act(run, effect)
        run.outcomes.done(effect, f"{effect.action.name}-1")
        await run.ledger.barrier()
        return await effect.act()

    planting.put(door, "_act", hasty)


def a_moved_head_is_ignored(planting: Planting) -> None:
    answered: Any = Ledger.answered

    def deaf(self: Any, asked: JournalCommit, outcome: CommitOutcome | BaseException) -> None:
        if isinstance(outcome, HeadMoved):
            outcome = Committed(asked.expected_head + len(asked.rows))
        answered(self, asked, outcome)

    planting.put(Ledger, "answered", deaf)


def attempts_share_their_tokens(planting: Planting) -> None:
    init: Any = Ledger.__init__

    def nameless(*given: Any, **named: Any) -> None:
        named["writer_id"] = f"epoch {named['head'].epoch + 1}"
        init(*given, **named)

    planting.put(Ledger, "__init__", nameless)


def no_claim_on_resume(planting: Planting) -> None:
    claim: Any = Ledger.claim

    def only_the_first(self: Any, record: Any, view: Any) -> None:
        if self.epoch == 1:
            claim(self, record, view)

    planting.put(Ledger, "claim", only_the_first)


def an_approval_serves_a_second_call(planting: Planting) -> None:
    approve: Any = ApprovalStage._approve
    approved: set[str] = set()

    async def lenient(self: Any, run: Any, effect: Any) -> None:
        if effect.action.name in approved:
            return
        await approve(self, run, effect)
        approved.add(effect.action.name)

    planting.put(ApprovalStage, "_approve", lenient)


def a_retry_serves_every_later_attempt(planting: Planting) -> None:
    question_action: Any = questions.question_action

    def same(action: Any, what: str) -> object:
        return question_action(action, what.rstrip("0123456789"))

    planting.put(questions, "question_action", same)


class Late:
    """Calls when it is awaited, and never if it is not."""

    def __init__(self, call: Callable[[], Awaitable[object]]) -> None:
        self._call = call

    def __await__(self) -> Generator[object, None, object]:
        return self._call().__await__()


def ordinals_are_taken_when_awaited(planting: Planting) -> None:
    call: Any = ToolCalls.call

    planting.put(ToolCalls, "call", lambda *given: Late(partial(call, *given)))


def fingerprints_are_ignored(planting: Planting) -> None:
    take: Any = Recording.take

    def blind(self: Any, action: Any) -> object:
        recorded = self._actions.get(action.id)
        fingerprint = recorded.row.fingerprint if recorded else action.fingerprint
        return take(self, replace(action, fingerprint=fingerprint))

    planting.put(Recording, "take", blind)
    planting.put(Kernel, "_fits", lambda _self, _recorded, _asked: True)


def left_out_actions_are_ignored(planting: Planting) -> None:
    planting.put(Kernel, "program_ended", lambda _self, _below: END)


def a_tool_error_is_not_recorded(planting: Planting) -> None:
    planting.put(Outcomes, "failed", lambda _self, _call, error: error)


def an_unknown_outcome_is_a_failure(planting: Planting) -> None:
    async def give_up(run: Any, effect: Any) -> object:
        raise run.outcomes.failed(effect, ToolError("it failed"))

    planting.put(door, "_find_out", give_up)


def what_needs_a_person_is_repeated(planting: Planting) -> None:
    recovery_for: Any = not_performed.recovery_for

    def bold(action: Any, recorded: Any, *, can_reconcile: bool) -> object:
        recovery = recovery_for(action, recorded, can_reconcile=can_reconcile)
        return Repeat(recovery.attempt) if isinstance(recovery, AskHuman) else recovery

    planting.put(not_performed, "recovery_for", bold)


def reconcile_is_ignored(planting: Planting) -> None:
    recovery_for: Any = not_performed.recovery_for

    def incurious(action: Any, recorded: Any, *, can_reconcile: bool) -> object:
        return recovery_for(action, recorded, can_reconcile=False)

    planting.put(not_performed, "recovery_for", incurious)


def every_attempt_has_a_key_of_its_own(planting: Planting) -> None:
    planting.put(Run, "idempotency_key", lambda _run, _effect: uuid4().hex)


def signals_are_not_consumed(planting: Planting) -> None:
    planting.put(Ledger, "consume_signal", lambda _self, _signal_id: None)


def a_message_is_taken_in_while_replaying(planting: Planting) -> None:
    planting.put(DurableReplay, "is_used_up", True)
    planting.put(SignalIntake, "belongs_to", lambda _self, _effect: None)


def a_decision_is_used_up_before_the_action_begins(planting: Planting) -> None:
    carry_out: Any = door._carry_out

    async def in_two_commits(run: Any, effect: Any) -> object:
        await run.ledger.barrier()
        return await carry_out(run, effect)

    planting.put(door, "_carry_out", in_two_commits)


def the_end_is_told_before_it_is_committed(planting: Planting) -> None:
    prepare: Any = DurableEventWriter.prepare

    def boasting(self: Any, event: Any) -> None:
        prepare(self, event)
        self.release()

    planting.put(DurableEventWriter, "prepare", boasting)


def the_work_is_stopped_before_the_cancellation_is_recorded(planting: Planting) -> None:
    async def cancel(self: Any, signal: Any, *, is_stored: bool = True) -> bool:
        self._is_cancelled = True
        self.run.replay.liveness.stopping()
        self._task.cancel()
        await asyncio.sleep(0)
        await begin_cancellation(self._ledger, signal, is_stored=is_stored)
        return True

    planting.put(RunAttempt, "cancel", cancel)


def a_pause_does_not_wait_for_siblings(planting: Planting) -> None:
    async def at_once(self: Any, call: Any, wait: str, *, may_withdraw: bool = True) -> None:
        self.kernel.park(call, wait, may_withdraw=may_withdraw)
        raise self._end(self.kernel.confirm(Pause(frozenset({wait}))))

    planting.put(Turns, "park", at_once)


def an_end_does_not_wait_for_what_is_under_way(planting: Planting) -> None:
    async def at_once(self: Any, end: Any) -> None:
        self.end(end)

    planting.put(Liveness, "quiesce", at_once)


def a_waiting_branch_goes_on(planting: Planting) -> None:
    async def park(self: Any, call: Any, pause: Any, *, may_withdraw: bool) -> None:
        raise ToolError("it waits for an answer")

    planting.put(DurableReplay, "park", park)


def a_replay_tells_everything_again(planting: Planting) -> None:
    planting.put(DurableEventWriter, "_emit", lambda self, event: self._publish(event))


def a_veto_is_not_recorded(planting: Planting) -> None:
    def forgetful(run: Any, effect: Any, error: Any) -> object:
        return error

    planting.put(not_performed, "_refused", forgetful)


def a_rejection_is_not_recorded(planting: Planting) -> None:
    record: Any = Outcomes.record

    def forgetful(self: Any, effect: Any, outcome: Any) -> None:
        if outcome.record.get("decision") != ApprovalDecision.REJECT:
            record(self, effect, outcome)

    planting.put(Outcomes, "record", forgetful)


def secrets_are_recorded(planting: Planting) -> None:
    fetch: Any = ToolCalls._fetch_secrets

    async def remembered(self: Any, call: Any) -> object:
        return await step("secrets", partial(fetch, self, call), idempotency=Idempotency.IDEMPOTENT)

    planting.put(ToolCalls, "_fetch_secrets", remembered)


def a_tool_does_not_wait_for_the_open_reply(planting: Planting) -> None:
    planting.put(Run, "streams_at", lambda _self, _path: [])


def a_model_reply_is_not_recorded(planting: Planting) -> None:
    append: Any = Ledger.append

    def without_replies(self: Any, action: Any, stage: JournalStage, *rest: Any, **more: Any) -> None:
        if action.name != "model":
            append(self, action, stage, *rest, **more)

    planting.put(Ledger, "append", without_replies)


def a_resumed_run_starts_from_nothing(planting: Planting) -> None:
    planting.put(Recording, "_fold", lambda _self, _row: None)


def a_lease_is_not_looked_at_before_an_effect(planting: Planting) -> None:
    async def careless(self: Any) -> None:
        return

    planting.put(Run, "ensure_lease", careless)


def a_lease_that_ran_out_is_taken_again_and_nothing_is_proven(planting: Planting) -> None:
    async def once_is_enough(self: Any) -> None:
        if self.lease is not None and not self.lease.is_certain:
            await self.lease.renew()

    planting.put(Run, "ensure_lease", once_is_enough)


def an_answer_is_taken_in_where_only_a_question_is_put(planting: Planting) -> None:
    put: Any = door._put

    def eager(run: Any, question: Any) -> None:
        recorded = run.replay.take(question.action)
        if recorded is not None and recorded.after is None:
            question.take_up(recorded.row)
            answer = question._answer(question.request)
            if answer is not None:
                run.outcomes.done(question, answer)
                return
        put(run, question)

    planting.put(door, "_put", eager)


def a_branch_is_folded_before_it_has_ended(planting: Planting) -> None:
    take: Any = Folds.take
    add: Any = Folds.add
    folded: set[str] = set()

    def early(self: Any, path: str, label: str) -> object:
        found = take(self, path, label)
        if found is None and path.rpartition("/")[2].isdigit():
            add(self, path, label, {"result": None})
            folded.add(path)
        return found

    def late(self: Any, path: str, label: str, record: Any) -> None:
        if path not in folded:
            add(self, path, label, record)

    planting.put(Folds, "take", early)
    planting.put(Folds, "add", late)


def a_turn_is_folded_before_it_has_ended(planting: Planting) -> None:
    async def early(self: Any, path: str, label: str, state: Any, turn: Any) -> object:
        Folds(self._run).add(path, label, {"result": state})
        with inside(path, asyncio.current_task()):
            return await turn(state)

    planting.put(ScopedRuntime, "_turn", early)


def what_a_folded_branch_took_in_is_forgotten(planting: Planting) -> None:
    planting.put(SignalQueue, "recall", lambda _self, _rows: None)


def what_a_handler_said_before_is_new(planting: Planting) -> None:
    handle: Any = SignalHandlers.handle

    async def forgetful(self: Any, action_id: Any, signals: Any, *, is_new: bool, around: Any = None) -> None:
        await handle(self, action_id, signals, is_new=True, around=around)

    planting.put(SignalHandlers, "handle", forgetful)


def a_kill_switch_is_looked_at_once(planting: Planting) -> None:
    check: Any = SwitchStage.check

    async def once(self: Any, run: Any, tool: Any = None) -> None:
        if not hasattr(run, "_was_on"):
            await check(self, run, tool)
            run._was_on = True

    planting.put(SwitchStage, "check", once)


def an_answer_waits_unsealed(planting: Planting) -> None:
    def plain(self: Any, signal: Any, *, is_redacted: bool = False) -> Any:
        return signal

    planting.put(SignalSeals, "closed", plain)


def an_end_knows_every_signal(planting: Planting) -> None:
    draw_up: Any = CommitDraft.draw_up

    def knowing(self: Any, state: Any) -> JournalCommit:
        return replace(draw_up(self, state), last_signal=1_000_000)

    planting.put(CommitDraft, "draw_up", knowing)


def a_refused_end_is_only_tried_again(planting: Planting) -> None:
    async def inattentive(self: Any) -> None:
        return

    planting.put(RunAttempt, "_attend", inattentive)


def unread_signals_are_left(planting: Planting) -> None:
    planting.put(Ledger, "close_signals", lambda _self: {})
