"""`AgentRuns`: the application service that starts, resumes, answers and reads runs."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceCandidate
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.leases import LETS_POISONED_GO_ON, NO_CLAIMS, ClaimRecord
from pilotage.agent.ports.repositories import RunPage
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.recovery_request import RecoveryDecision
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import (
    AgentSignal,
    AgentSignalKind,
    ApprovalDecision,
)
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.container.application import Application
from pilotage.errors import AgentPersistenceConfigurationError, CallerError, RunConflictError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.answering import AnswerAcceptance, too_late
from pilotage.runtime.answers import OpenQuestions, Question, StoredAnswer, run_of
from pilotage.runtime.audit import evaluation_of
from pilotage.runtime.events.feed import START, EventCursor
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.fork import fork_rows
from pilotage.runtime.journal.resolution import RunResolution
from pilotage.runtime.run.opened import CallerRuns
from pilotage.runtime.run.resolving import RunResolver
from pilotage.runtime.run.resume import RunResumer, acting
from pilotage.runtime.run.start import RunStarts
from pilotage.runtime.run.supervise import RunHandle, RunSupervisor
from pilotage.runtime.run.watch import SignalWatch
from pilotage.runtime.sending import SignalSender, reject_own_id
from pilotage.runtime.services import Services


class AgentRuns:
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
        self._sender = SignalSender(self.services, self._watch)
        self._acceptance = AnswerAcceptance(self.services, self._answers, self._sender)
        self._resumer = RunResumer(self.services, self.launcher, self._watch)
        self._resolver = RunResolver(self.services, self.launcher, self._starts)
        self.opened = CallerRuns(self.services, self.launcher, self._starts, self._watch.begin)

    async def start(
        self,
        agent: AgentRef,
        given: object = None,
        *,
        principal: Principal | None = None,
        id: str | None = None,  # noqa: A002 - the word of the contract
        conversation_id: str | None = None,
        metadata: JsonObject | None = None,
    ) -> RunHandle:
        """Start a run; when this returns, the run is durable.

        `id` is the caller's own id for the run: a second start with the same id attaches to the same run.

        Raises:
            AgentDefinitionError: the class is no agent of this application, or the input does not fit.
            RunConflictError: the id belongs to a run with another input, or another run has the conversation.
        """
        handle = await self._starts.start(
            agent, given, principal or LOCAL, alias=id, conversation=conversation_id, metadata=metadata or {}
        )
        self._watch.begin()
        return handle

    async def resume(self, run_id: str, *, principal: Principal | None = None) -> RunHandle:
        """Resume a run, on any machine; recorded actions are replayed, not repeated.

        Its record is checked as it is read: a run whose record is damaged is interrupted, and its state says where.

        If this process drives the run, the handle is that of the current attempt; if the run has ended, the handle
        returns its result. A principal gets the result as `result()` gives it.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: another process drives the run, or claimed it at the same time.
            CallerError: the run is a child run, or its record is so damaged that it cannot be interrupted either.
        """
        handle = await self._resumer.resume(run_id, principal, by_person=True)
        return handle if principal is None else handle.for_reader(self._records)

    async def take_up(self, run_id: str, *, principal: Principal | None = None) -> RunHandle:
        """Resume a run without a person's word: its claims stay counted. Raises what `resume` raises."""
        return await self._resumer.resume(run_id, principal, by_person=False)

    async def claims(self, run_id: str, *, principal: Principal | None = None) -> ClaimRecord:
        """Return the claims of a run that ended without progress, with the last error and the time of the next one."""
        state = await self.get(run_id, principal=principal)
        backlog = self.services.backlog
        return NO_CLAIMS if backlog is None else await backlog.claims_of(RunKey(state.tenant_id, state.id))

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
        """
        state = await self.get(run_id, principal=principal)
        reject_own_id(id)
        if kind is AgentSignalKind.APPROVAL_DECISION:
            by = acting(principal, state)
            answered = (await self._acceptance.accept(state, payload or {}, by, id)).signal
            return answered if id is None else replace(answered, id=id)
        stored = await self._sender.send(state, kind, payload or {}, id)
        if kind in LETS_POISONED_GO_ON and not state.is_terminal:
            await self._resumer.forget_claims(run_id, principal)
        if kind is AgentSignalKind.RESUME and not state.is_terminal:
            await self._resume_paused(run_id, principal)
        return stored

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
        await self.launcher.end(state, signal, by)
        return (await self.get(run_id, principal=by)).status is not AgentStatus.COMPLETED

    async def get(self, run_id: str, *, principal: Principal | None = None) -> AgentState:
        """Return the state of a run.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
        """
        return await self._records.state(run_id, principal)

    async def list(
        self,
        *,
        statuses: Sequence[AgentStatus] = (),
        agent: AgentRef | None = None,
        conversation_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
        principal: Principal | None = None,
    ) -> RunPage:
        """Return a page of the runs of the principal's tenant, newest first, created between two moments.

        An agent is given by its class or by its id; the id may belong to an agent that the application no longer has.
        """
        agent_type = (
            agent if agent is None or isinstance(agent, str) else self.services.definition_of(agent).agent_id
        )
        return await self.services.states.list_runs(
            (principal or LOCAL).tenant,
            statuses=statuses,
            agent_type=agent_type,
            conversation_id=conversation_id,
            since=since,
            until=until,
            after=after,
            limit=limit,
        )

    def events(
        self,
        run_id: str,
        *,
        after: str | None = None,
        follow: bool = True,
        principal: Principal | None = None,
    ) -> Subscription:
        """Return the events of a run after a cursor, from its event log and then live, until it pauses or ends.

        After an answer that this process drives, the stream goes on with that attempt. Without `follow` it ends at the
        last event recorded now.

        Raises:
            CallerError: `after` is no cursor.
            RunNotFoundError: there is no such run in the principal's tenant; raised by the first event.
        """
        seen = EventCursor.parse(after) if after else START
        resuming = self._resumer.background_task(run_id) if follow else None
        return self.launcher.events(run_id, seen, principal, follows=follow, resuming=resuming)

    async def result(self, run_id: str, *, principal: Principal | None = None) -> RunResult:
        """Return the result of a run so far, with its output as JSON once there is one.

        A principal gets it redacted, with its sensitive parts hidden. Only the application itself gets the whole one,
        and so does the code that started the run, from its handle.
        """
        state = await self.get(run_id, principal=principal)
        if principal is not None:
            return await self._records.shown_result(state)
        return await self._records.result(state)

    async def evidence(self, run_id: str, *, principal: Principal | None = None) -> tuple[AgentEvidence, ...]:
        """Return the redacted evidence of a run: its actions in order, then further evidence."""
        state = await self.get(run_id, principal=principal)
        return await self._records.evidence(state)

    async def add_evidence(
        self,
        run_id: str,
        evaluation: AgentEvidenceCandidate,
        *,
        id: str | None = None,  # noqa: A002 - the word of the contract
        principal: Principal | None = None,
    ) -> AgentEvidence:
        """Add the application's evaluation of a run, also of one that has ended; return it as it was stored.

        Its payload and summary are redacted. With an `id` of its own it cannot be added twice.

        Raises:
            AgentDefinitionError: it is no evaluation, cannot be stored, or its id is that of other evidence.
            AgentPersistenceConfigurationError: the application has no evidence repository.
            RunNotFoundError: there is no such run in the principal's tenant.
        """
        state = await self.get(run_id, principal=principal)
        repository = self.services.evidence
        if repository is None:
            raise AgentPersistenceConfigurationError(
                "AgentRuns.add_evidence: the application has no IAgentEvidenceRepository. Add one."
            )
        found = evaluation_of(self.services, state, evaluation, acting(principal, state), id)
        return await repository.append(found)

    async def prompts(self, run_id: str, *, principal: Principal | None = None) -> tuple[JsonObject, ...]:
        """Return the model requests of a run, if its agent records prompt snapshots.

        Only the application itself gets the sealed requests; a principal gets the redacted ones.
        """
        state = await self.get(run_id, principal=principal)
        return await self._records.prompts(state, sealed=principal is None)

    async def questions(self, run_id: str, *, principal: Principal | None = None) -> tuple[Question, ...]:
        """Return the questions that a run and its children wait for, in the order they were asked."""
        return await self._answers.questions(await self.get(run_id, principal=principal))

    async def answered_questions(
        self, run_id: str, *, principal: Principal | None = None
    ) -> tuple[Question, ...]:
        """Return the questions of a run that are closed; the same answer to one is confirmed, another is a conflict."""
        return await self._answers.closed(await self.get(run_id, principal=principal))

    def is_driven(self, run_id: str) -> bool:
        """Return whether this process drives a run, or is about to because it was answered or resolved here."""
        return self.launcher.live(run_id) is not None or self._resumer.background_task(run_id) is not None

    async def waiting_answers(
        self, run_id: str, *, principal: Principal | None = None
    ) -> tuple[StoredAnswer, ...]:
        """Return the stored answers that a run and its children have not taken yet: they wait for an owner."""
        return await self._answers.answered(await self.get(run_id, principal=principal))

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

        The first valid answer other than DEFER closes the question for everybody; the same one again is confirmed.

        Raises:
            AnswerConflictError: the question has another answer, or has expired; the error says who answered and when.
            CallerError: the run does not wait for this answer; the question stays open.
        """
        state = await self.get(run_id, principal=principal)
        payload: JsonObject = {words.REQUEST_ID: request_id, words.DECISION: decision.value, **details}
        accepted = await self._acceptance.accept(state, payload, acting(principal, state))
        if resume and accepted.lets_go_on:
            await self._go_on(accepted.run, principal)
        if accepted.expired_at is not None:
            raise too_late(accepted, request_id)

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

    async def verify(self, run_id: str, *, principal: Principal | None = None) -> int:
        """Check the journal of a run for consistency with itself and the state; return the number of rows.

        Raises:
            CallerError: an entry is not as it was written (`DamagedEntryError`), or the state does not match the rows.
        """
        return await self._records.verify(run_id, principal)

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


def _warn_of_old_name(old: str, new: str) -> None:
    warnings.warn(
        f"AgentRuns.{old}() goes away in 0.2. Use AgentRuns.{new}().", DeprecationWarning, stacklevel=3
    )
