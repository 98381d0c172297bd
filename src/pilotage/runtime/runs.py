"""`AgentRuns`: the application service that starts, resumes, answers and reads runs."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from pilotage.agent.ports.leases import LETS_POISONED_GO_ON
from pilotage.agent.principal import Principal
from pilotage.agent.recovery_request import RecoveryDecision
from pilotage.agent.signals import AgentSignal, AgentSignalKind, AgentSteeringUpdate, ApprovalDecision
from pilotage.agent.spec import AgentExecutionLimits
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.container.application import Application
from pilotage.errors import CallerError, RunConflictError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.answering import AcceptedAnswer, AnswerAcceptance, GivenAnswer, too_late
from pilotage.runtime.journal.resolution import RunResolution, fork_rows
from pilotage.runtime.open_questions import OpenQuestions, Question, run_of
from pilotage.runtime.reading import ReadsRuns
from pilotage.runtime.run.handles import RunHandle
from pilotage.runtime.run.opened import CallerRuns
from pilotage.runtime.run.resolving import RunResolver
from pilotage.runtime.run.resume import RunResumer, SignalWatch, acting
from pilotage.runtime.run.start import RunStarts, StartsRuns
from pilotage.runtime.run.supervise import RunSupervisor
from pilotage.runtime.sending import SignalSender, reject_own_id
from pilotage.runtime.services import Services
from pilotage.runtime.stored_media import StoresMedia


class AgentRuns(StartsRuns, ReadsRuns, StoresMedia):
    """Starts and resumes runs, takes signals and answers, returns states, events and results.

    A caller that acts for a user passes that `principal`: a run of another tenant is not found. Without a principal the
    application itself acts, in the tenant of the run.
    """

    def __init__(self, app: Application) -> None:
        self.services = Services(app)
        self.launcher = RunSupervisor(self.services)
        self._records = self.launcher.records
        self._starts = RunStarts(self.services, self.launcher)
        self._answers = OpenQuestions(self.services, self._records)
        self._watch = SignalWatch(self.services, self.launcher)
        self._sender = SignalSender(self.services, self.launcher, self._watch)
        self._acceptance = AnswerAcceptance(self.services, self._answers, self._sender)
        self._resumer = RunResumer(self.services, self.launcher, self._watch)
        self._resolver = RunResolver(self.services, self.launcher, self._starts)
        self.opened = CallerRuns(self.services, self.launcher, self._starts, self._resumer, self._watch.begin)

    async def resume(
        self,
        run_id: str,
        *,
        principal: Principal | None = None,
        limits: AgentExecutionLimits | None = None,
    ) -> RunHandle:
        """Resume a run, on any machine; recorded actions are replayed, not repeated.

        A run that stopped at a limit goes on under higher ones: `limits` has those that change. The run has them from
        then on.

        Its record is checked as it is read: a run whose record is damaged is interrupted, and its state says where.

        If this process drives the run, the handle is that of the current attempt; if the run has ended, the handle
        returns its result. A principal gets the result as `result()` gives it.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: another process drives the run, or claimed it at the same time.
            CallerError: the run is a child run, or its record is so damaged that it cannot be interrupted either; or
                limits are given for a run that has ended or is driven here.
        """
        handle = await self._resumer.resume(run_id, principal, by_person=True, limits=limits)
        return handle if principal is None else handle.for_reader(self._records)

    async def take_up(self, run_id: str, *, principal: Principal | None = None) -> RunHandle:
        """Resume a run without a person's word: its claims stay counted. Raises what `resume` raises."""
        return await self._resumer.resume(run_id, principal, by_person=False)

    async def signal(
        self,
        run_id: str,
        kind: AgentSignalKind,
        payload: JsonObject | None = None,
        *,
        id: str | None = None,  # noqa: A002 - the word of the contract
        principal: Principal | None = None,
    ) -> AgentSignal:
        """Send a signal to a run. The id is a deduplication key: a signal with the same id is processed once.

        The signal that is returned has the `end` of the first one with its id, once there is one: taken, superseded, or
        too late, because the run ended before it could take the signal in. An answer as a signal is one as `answer`
        takes: the first one to a question counts.

        Raises:
            AnswerConflictError: it is an answer to a question that has another one.
            CallerError: the run has ended, or its agent does not accept signals of this kind or with this payload.
            SteeringConflictError: it is a revision of a steering instruction, and another one counts.
        """
        state = await self.get(run_id, principal=principal)
        reject_own_id(id)
        if kind is AgentSignalKind.APPROVAL_DECISION:
            by = acting(principal, state)
            answered = (await self._acceptance.accept(state, payload or {}, by, id)).signal
            return answered if id is None else replace(answered, id=id)
        stored = await self._sender.send(state, kind, payload or {}, id)
        if kind in LETS_POISONED_GO_ON and not state.is_terminal:
            await self._resumer.forget_claims(state)
        if kind is AgentSignalKind.RESUME and not state.is_terminal:
            await self._resume_paused(run_id, principal)
        return stored

    async def steer(
        self, run_id: str, update: AgentSteeringUpdate, *, principal: Principal | None = None
    ) -> AgentSignal:
        """Send a revision of a steering instruction. The newest revision of its input counts, until it is taken in.

        The same revision sent again is stored once, and has its `end` once there is one: taken, superseded by a newer
        revision, or too late. A draft or a withdrawal is taken when the run has noted it.

        Raises:
            SteeringConflictError: the run has taken the input in, a newer revision was sent, or this one with another
                content.
            CallerError: the run has ended, or its agent does not accept steering instructions.
        """
        kind = AgentSignalKind.STEERING_INSTRUCTION
        return await self.signal(run_id, kind, update.to_payload(), principal=principal)

    async def _resume_paused(self, run_id: str, principal: Principal | None) -> None:
        """Resume a run that a pause signal has paused, or is about to pause."""
        live = self.launcher.live(run_id)
        if live is not None and live.run.replay.liveness.is_pausing:
            await asyncio.wait([live.task])
        if self.launcher.live(run_id) is None:
            # If another process resumed the run first, the signal has had its effect.
            with suppress(RunConflictError):
                await self.resume(run_id, principal=principal)

    async def cancel(
        self, run_id: str, *, reason: str | None = None, principal: Principal | None = None
    ) -> bool:
        """Cancel a run in any state; return False if it had ended already.

        Raises:
            RunConflictError: another process has the run; the cancellation is stored and will be delivered there.
        """
        state = await self.get(run_id, principal=principal)
        if state.is_terminal:
            return False
        by = acting(principal, state)
        payload: JsonObject = {"requested_by": by.id, **({"reason": reason} if reason else {})}
        try:
            signal = await self.signal(run_id, AgentSignalKind.CANCEL, payload, principal=principal)
        except CallerError:
            state = await self.get(run_id, principal=principal)
            if not state.is_terminal:
                raise
            return state.status is AgentStatus.CANCELLED
        if await self.launcher.cancel(signal):
            return True
        state = await self.get(run_id, principal=principal)
        if state.is_terminal:
            return state.status is AgentStatus.CANCELLED
        await self._resumer.end(state, signal, by)
        return (await self.get(run_id, principal=by)).status is not AgentStatus.COMPLETED

    async def answer(
        self,
        run_id: str,
        request_id: str,
        decision: ApprovalDecision | RecoveryDecision,
        *,
        resume: bool = True,
        principal: Principal | None = None,
        **details: JsonValue,
    ) -> None:
        """Answer a question: `modified_payload=` for modify, `result=` for done, `comment=` for all.

        To retry an action with open actions inside (`question.to_decide`), answer each of them as well:
        `actions={action_id: {"decision": "done", "result": ...}}`.

        The answer is stored when this returns. With the answer to its last open question the run goes on: driven by
        this process in the background if it has the agent, else by a worker. `resume=False` only stores the answer,
        and so does DEFER.

        The first valid answer other than DEFER closes the question for all senders; the same one again is confirmed.

        Raises:
            AnswerConflictError: the question has another answer, or has expired; the error says who answered and when.
            CallerError: the run does not wait for this answer; the question stays open.
        """
        state = await self.get(run_id, principal=principal)
        given = GivenAnswer(request_id, decision, details)
        accepted = await self._acceptance.accept(state, given.payload, acting(principal, state))
        await self._settle([accepted], principal, resume=resume)

    async def answer_all(
        self,
        run_id: str,
        answers: Sequence[GivenAnswer],
        *,
        resume: bool = True,
        principal: Principal | None = None,
    ) -> None:
        """Answer several questions of a run and its children: all answers are accepted, or none, in one commit.

        What holds for `answer` holds for each of them. Where another person answers one of the questions at the same
        time, the error says which of these answers count.

        Raises:
            AnswerConflictError: a question has another answer, or has expired.
            CallerError: the run does not wait for one of the answers, or two contradict each other; none was accepted.
        """
        state = await self.get(run_id, principal=principal)
        payloads = [each.payload for each in answers]
        accepted = await self._acceptance.accept_all(state, payloads, acting(principal, state))
        await self._settle(accepted, principal, resume=resume)

    async def _settle(
        self, accepted: Sequence[AcceptedAnswer], principal: Principal | None, *, resume: bool
    ) -> None:
        """Let a run go on whose last question was answered; raise AnswerConflictError for an answer that was late."""
        going = next((each for each in accepted if each.lets_go_on), None)
        if resume and going is not None:
            await self._go_on(going.run, principal)
        for each in accepted:
            if each.expired_at is not None:
                raise too_late(each.run, each.request_id, each.expired_at)

    async def approve(
        self,
        request_id: str,
        *,
        comment: str | None = None,
        resume: bool = True,
        principal: Principal | None = None,
    ) -> None:
        """Approve the action of a question."""
        await self._decide(request_id, ApprovalDecision.APPROVE, comment, principal, resume=resume)

    async def reject(
        self,
        request_id: str,
        *,
        comment: str | None = None,
        resume: bool = True,
        principal: Principal | None = None,
    ) -> None:
        """Reject the action of a question."""
        await self._decide(request_id, ApprovalDecision.REJECT, comment, principal, resume=resume)

    async def modify(
        self,
        request_id: str,
        arguments: JsonObject,
        *,
        comment: str | None = None,
        resume: bool = True,
        principal: Principal | None = None,
    ) -> None:
        """Approve the action of a question with other arguments."""
        decision = ApprovalDecision.MODIFY
        await self._decide(
            request_id, decision, comment, principal, resume=resume, modified_payload=arguments
        )

    async def defer(
        self, request_id: str, *, comment: str | None = None, principal: Principal | None = None
    ) -> None:
        """Postpone the answer: the run continues to wait."""
        await self._decide(request_id, ApprovalDecision.DEFER, comment, principal, resume=False)

    async def fork(
        self, run_id: str, *, at: int | None = None, principal: Principal | None = None
    ) -> AgentState:
        """Create a new run with the first rows of another run's journal; resume it to continue from there.

        `at` is the last row to copy, by default the last row of the journal.

        Raises:
            CallerError: an action is open at that row: its outcome is unknown. Or the record is damaged up to there.
        """
        record = await self._records.checked(run_id, principal)
        damage = record.damage
        if damage is not None and (at is None or at >= damage.seq):
            raise CallerError(f"run {run_id!r} cannot be forked: its record is damaged at {damage}.")
        rows = fork_rows(run_id, record.rows, at)
        return await self._starts.fork(run_id, rows, acting(principal, record.state))

    async def resolve(
        self,
        run_id: str,
        resolution: RunResolution,
        *,
        reason: str,
        resume: bool = True,
        principal: Principal | None = None,
    ) -> AgentState:
        """Decide about a run that diverged from its record: skip a recorded call, give a call its result, or fork.

        The decision is a row with the principal and the reason. With `resume` this process then drives the run in the
        background, if it has the agent; a worker does anyway. Returns the state of the run, or that of its fork, which
        waits to be resumed.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: another process drives the run, or claimed it at the same time.
            CallerError: the run has not diverged or has ended, there is no such call or row, or the result is none that
                the tool gives.
        """
        decided = await self._resolver.resolve(run_id, resolution, reason, principal)
        if resume and decided.id == run_id:
            await self._resumer.resume_tree_soon(decided, principal)
        return decided

    async def hand_over(self, seconds: float) -> None:
        """Stop driving runs, each after its current action; another process can continue them from there.

        Actions that take longer than `seconds` are cancelled.
        """
        await self._resumer.stop()
        await self.launcher.hand_over(seconds)
        await self._watch.stop()

    async def stop(self) -> None:
        """Stop driving runs at once; each can be resumed from its last recorded action."""
        await self._resumer.stop()
        await self._watch.stop()
        await self.launcher.stop()

    async def _decide(
        self,
        request_id: str,
        decision: ApprovalDecision,
        comment: str | None,
        principal: Principal | None,
        *,
        resume: bool,
        **details: JsonValue,
    ) -> None:
        answer = {"comment": comment, **details}
        run_id = run_of(request_id)
        await self.answer(run_id, request_id, decision, resume=resume, principal=principal, **answer)

    async def _go_on(self, asking: AgentState, principal: Principal | None) -> None:
        """Drive the tree of an answered run in the background, once its last open question is answered."""
        root = await self._resumer.root_of(asking, principal)
        if await self._answers.are_all_answered(root):
            await self._resumer.resume_tree_soon(root, principal)

    async def approvals(self, run_id: str, *, principal: Principal | None = None) -> tuple[Question, ...]:
        """Return `questions`; deprecated name, removed in 0.2."""
        _warn_of_old_name("approvals", "questions")
        return await self.questions(run_id, principal=principal)

    async def decide(
        self,
        run_id: str,
        request_id: str,
        decision: ApprovalDecision | RecoveryDecision,
        *,
        principal: Principal | None = None,
        **details: JsonValue,
    ) -> None:
        """Call `answer`; deprecated name, removed in 0.2."""
        _warn_of_old_name("decide", "answer")
        await self.answer(run_id, request_id, decision, resume=True, principal=principal, **details)


def _warn_of_old_name(old: str, new: str) -> None:
    warnings.warn(
        f"AgentRuns.{old}() goes away in 0.2. Use AgentRuns.{new}().", DeprecationWarning, stacklevel=3
    )
