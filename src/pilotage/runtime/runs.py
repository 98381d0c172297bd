"""`AgentRuns`: the application service that starts, resumes, answers and reads runs."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from weakref import WeakValueDictionary

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.journal import RunKey
from pilotage.agent.ports.repositories import RunPage
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.recovery_request import RecoveryDecision
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignal, AgentSignalKind, ApprovalDecision, accepts_signal
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.container.application import Application
from pilotage.errors import CallerError, RunConflictError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.answers import OpenQuestions, Question, run_of
from pilotage.runtime.door.run import LiveRun
from pilotage.runtime.events.feed import START, EventCursor
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.journal.fork import fork_rows
from pilotage.runtime.journal.seals import SEALED
from pilotage.runtime.people.requests import DECIDED_BY
from pilotage.runtime.run.opened import CallerRuns
from pilotage.runtime.run.start import RunStarts
from pilotage.runtime.run.supervise import RunHandle, RunSupervisor
from pilotage.runtime.run.watch import SignalWatch
from pilotage.runtime.services import Services

_TRIES = 5
_log = logging.getLogger("pilotage.runs")


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
        self._resuming: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._background: dict[asyncio.Task[None], str] = {}
        """The tasks that resume answered runs, with the ids of these runs."""
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
        returns its result.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: another process drives the run, or claimed it at the same time.
            CallerError: the run is a child run, or its record is so damaged that it cannot be interrupted either.
        """
        async with self._resuming_of(run_id):
            handle = await self._resumed(run_id, principal)
        self._watch.begin()
        return handle

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

        Raises:
            CallerError: the run has ended, or its agent does not accept signals of this kind or with this payload.
        """
        state = await self.get(run_id, principal=principal)
        if state.is_terminal:
            raise CallerError(f"run {run_id!r} is {state.status} and takes no signals any more.")
        spec = self.services.definition_of(state.agent_type).spec
        if not accepts_signal(kind, spec.accepted_signals):
            names = ", ".join(spec.accepted_signals) or "none but control signals"
            raise CallerError(
                f"agent {state.agent_type!r} does not accept {kind.value!r} signals. It accepts: {names}."
            )
        if payload and SEALED in payload:
            raise CallerError(
                f"a payload has the key {SEALED!r}, which is the run's own. Choose another one."
            )
        if kind is AgentSignalKind.APPROVAL_DECISION:
            return await self._send_answer(state, payload or {}, principal, id)
        signal = AgentSignal(id or self.services.ids.uid(), run_id, kind, payload or {})
        stored = await self._send(state, signal, is_redacted=spec.redaction is not None)
        if kind is AgentSignalKind.RESUME:
            live = self.launcher.live(run_id)
            if live is not None and live.run.replay.liveness.is_pausing:
                await asyncio.wait([live.task])
            if self.launcher.live(run_id) is None:
                # If another process resumed the run first, the signal has had its effect.
                with suppress(RunConflictError):
                    await self.resume(run_id, principal=principal)
        return stored

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
        by = _acting(principal, state)
        payload: JsonObject = {"requested_by": by.id, **({"reason": reason} if reason else {})}
        signal = await self.signal(run_id, AgentSignalKind.CANCEL, payload, principal=principal)
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
        resuming = (task for task, resumed in self._background.items() if follow and resumed == run_id)
        return self.launcher.events(run_id, seen, principal, follows=follow, resuming=next(resuming, None))

    async def result(self, run_id: str, *, principal: Principal | None = None) -> RunResult:
        """Return the result of a run so far, with its output as JSON once there is one."""
        return await self._records.result(await self.get(run_id, principal=principal))

    async def evidence(self, run_id: str, *, principal: Principal | None = None) -> tuple[AgentEvidence, ...]:
        """Return the redacted evidence of a run: its actions in order, then further evidence."""
        state = await self.get(run_id, principal=principal)
        return await self._records.evidence(state)

    async def prompts(self, run_id: str, *, principal: Principal | None = None) -> tuple[JsonObject, ...]:
        """Return the model requests of a run, if its agent records prompt snapshots.

        Only the application itself gets the sealed requests; a principal gets the redacted ones.
        """
        state = await self.get(run_id, principal=principal)
        return await self._records.prompts(state, sealed=principal is None)

    async def questions(self, run_id: str, *, principal: Principal | None = None) -> tuple[Question, ...]:
        """Return the questions that a run and its children wait for, in the order they were asked."""
        return await self._answers.questions(await self.get(run_id, principal=principal))

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

        The answer is stored when this returns. With the answer to its last open question the run goes on: driven by
        this process in the background if it has the agent, else by a worker. `resume=False` only stores the answer,
        and so does DEFER.

        Raises:
            CallerError: the run does not wait for this answer; the question stays open.
        """
        state = await self.get(run_id, principal=principal)
        asked_by, payload = await self._answers.checked(state, request_id, decision, details)
        asking = state if asked_by == state.id else await self.get(asked_by, principal=principal)
        await self._send_answer(asking, payload, principal)
        if resume and decision is not ApprovalDecision.DEFER:
            await self._go_on(asking, principal)

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
            CallerError: a row does not follow from the one before it, or the state does not match the rows.
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
        return await self._starts.fork(run_id, rows, _acting(principal, record.state))

    async def hand_over(self, seconds: float) -> None:
        """Stop driving runs, each after its current action; another process can continue them from there.

        Actions that take longer than `seconds` are cancelled.
        """
        await self._stop_background()
        await self.launcher.hand_over(seconds)
        await self._watch.stop()

    async def stop(self) -> None:
        """Stop driving runs at once; each can be resumed from its last recorded action."""
        await self._stop_background()
        await self._watch.stop()
        await self.launcher.stop()

    def _resuming_of(self, run_id: str) -> asyncio.Lock:
        return self._resuming.setdefault(run_id, asyncio.Lock())

    async def _resumed(self, run_id: str, principal: Principal | None, tries: int = _TRIES) -> RunHandle:
        record = await self._records.checked(run_id, principal)
        state = record.state
        if state.is_terminal:
            return self.launcher.attached(state)
        if (parent := state.metadata.get("parent")) is not None:
            raise CallerError(f"run {run_id!r} belongs to run {parent!r}. Resume that one: {parent!r}.")
        live = self.launcher.live(run_id)
        if live is not None and not _is_pausing(live, state):
            return self.launcher.handle(live)
        if live is not None:
            await asyncio.wait([live.task])
            return await self._resumed(run_id, principal, tries)
        try:
            return await self.launcher.resume(record, _acting(principal, state))
        except RunConflictError:
            head = await self.services.journal.head(RunKey(state.tenant_id, run_id))
            if tries == 1 or head is None or not record.rows or head.epoch != record.rows[-1].epoch:
                raise
            # The owner wrote between the reads, and there is no other claim: read again.
            return await self._resumed(run_id, principal, tries - 1)

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

    async def _send_answer(
        self,
        state: AgentState,
        payload: JsonObject,
        principal: Principal | None,
        signal_id: str | None = None,
    ) -> AgentSignal:
        """Store an answer with the acting principal as its author, whatever the payload contains."""
        payload = {**payload, DECIDED_BY: _acting(principal, state).id}
        kind = AgentSignalKind.APPROVAL_DECISION
        return await self._send(
            state, AgentSignal(signal_id or self.services.ids.uid(), state.id, kind, payload)
        )

    async def _send(
        self, state: AgentState, signal: AgentSignal, *, is_redacted: bool = False
    ) -> AgentSignal:
        """Store a signal and deliver it to the run if it is live here, or else notify the other processes."""
        seals = self.services.signal_seals(RunKey(state.tenant_id, state.id))
        closed = seals.closed(signal, is_redacted=is_redacted)
        stored = seals.opened(await self.services.signals.append(closed))
        await self._watch.deliver(stored)
        return stored

    async def _go_on(self, asking: AgentState, principal: Principal | None) -> None:
        """Drive the tree of an answered run in the background, once its last open question is answered."""
        root = asking
        while (parent := root.metadata.get("parent")) is not None:
            root = await self.get(str(parent), principal=principal)
        if root.agent_type in self.services.agent_ids and await self._answers.are_all_answered(root):
            driving = self._drive(root.id, self.launcher.live(root.id), principal)
            task = asyncio.create_task(driving, name=f"go on with {root.id}")
            self._background[task] = root.id
            task.add_done_callback(self._background.pop)

    async def _drive(self, run_id: str, asking: LiveRun | None, principal: Principal | None) -> None:
        """Resume an answered run, after the attempt that asked has ended; another owner may claim it first."""
        if asking is not None:
            await asyncio.wait([asking.task])
        try:
            async with self._resuming_of(run_id):
                if self.launcher.live(run_id) is None:  # else it was resumed since, with the answer
                    await self._resumed(run_id, principal)
            self._watch.begin()
        except CallerError:
            return
        except Exception as error:  # noqa: BLE001 - the answer is stored, so the run can be resumed later
            _log.warning("run %s was answered and cannot be resumed now: %s", run_id, type(error).__name__)

    async def _stop_background(self) -> None:
        tasks = list(self._background)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)


def _warn_of_old_name(old: str, new: str) -> None:
    warnings.warn(
        f"AgentRuns.{old}() goes away in 0.2. Use AgentRuns.{new}().", DeprecationWarning, stacklevel=3
    )


def _acting(principal: Principal | None, state: AgentState) -> Principal:
    """Return the acting principal: the given one, or the application itself in the run's tenant."""
    return principal or Principal(LOCAL.id, state.tenant_id)


def _is_pausing(live: LiveRun, state: AgentState) -> bool:
    """Return whether an attempt is about to end with a pause and reads no further signals."""
    return live.run.signals.is_called or (state.status is AgentStatus.INTERRUPTED and live.is_ending())
