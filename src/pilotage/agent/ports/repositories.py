"""The stores beside the journal: state, signals, evidence, retention, late outcomes.

Order is the run's sequence, never a timestamp or an id. Values come back unchanged, time zones and descriptors of
sensitive fields included. On a journaled run only the journal writes: a direct `save` or `mark_consumed` is refused
there, and `append` of evidence goes through the journal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import UTC, datetime

from pilotage.agent.evidence import AgentEvidence
from pilotage.agent.ports.journal import JournalHead
from pilotage.agent.ports.persistence import RunKey, persistence_port
from pilotage.agent.signals import (
    AgentSignal,
    AgentSignalConsumptionBatch,
    AgentSignalEnd,
    AgentSignalKind,
    AgentSignalPollPoint,
    select_signals,
)
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.checks import reject_blank, reject_naive, reject_not_positive
from pilotage.errors import CallerError, DamagedEntryError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.values import value


@value
class DamagedRun:
    """A run of a list whose stored state is damaged; `problem` names the entry and the way out."""

    id: str
    problem: str


@value
class RunPage:
    """Some runs of a longer list. `cursor` given as `after` leads to the next page; None says that this is the last.

    Runs of the page whose stored state is damaged are in `damaged`, newest first, and not in `runs`.
    """

    runs: tuple[AgentState, ...]
    cursor: str | None = None
    damaged: tuple[DamagedRun, ...] = ()

    def whole(self) -> tuple[AgentState, ...]:
        """Return the runs, for a decision that no run of the page may be missing from.

        Raises:
            DamagedEntryError: a run of the page is damaged.
        """
        for each in self.damaged:
            raise DamagedEntryError(each.problem)
        return self.runs


@value
class EvidencePage:
    """Some evidence of a longer list; `cursor` as in `RunPage`."""

    evidence: tuple[AgentEvidence, ...]
    cursor: str | None = None


@persistence_port
class IAgentStateRepository(ABC):
    """Stores one `AgentState` per run."""

    @abstractmethod
    async def get(self, state_id: str) -> AgentState:
        """Return the state of a run.

        Raises:
            RunNotFoundError: there is no such run, or it belongs to another tenant.
        """

    @abstractmethod
    async def get_or_none(self, state_id: str) -> AgentState | None:
        """Return the state of a run, or None."""

    @abstractmethod
    async def save(self, state: AgentState) -> AgentState:
        """Store a state and give back what was stored, with the store's timestamps."""

    @abstractmethod
    async def list_by_status(self, status: AgentStatus) -> Sequence[AgentState]:
        """Return all runs in a status, oldest first."""

    @abstractmethod
    async def list_resume_candidates(self) -> Sequence[AgentState]:
        """Return all runs that are active, interrupted or cancelling, oldest first."""

    async def get_with_head(self, state_id: str) -> tuple[AgentState, JournalHead | None] | None:
        """Return the state of a run and the head that its journal had in the same moment; None for no such run.

        Rows that end in that head belong to the state. The head of a run without a journal has the number 0; a store
        without a method of its own gives None, and the journal is asked.
        """
        state = await self.get_or_none(state_id)
        return None if state is None else (state, None)

    async def list_runs(
        self,
        tenant_id: str,
        *,
        statuses: Collection[AgentStatus] = (),
        agent_type: str | None = None,
        conversation_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: str | None = None,
        limit: int = 50,
    ) -> RunPage:
        """Return the runs of a tenant, newest first: all, or those of the statuses, the agent, the conversation.

        Created from `since` on and before `until`, where these are given. A run whose stored state is damaged is named
        in the page and does not hide the others.

        The order is that in which the store first saw the runs. A page begins after the cursor of the one
        before, so runs that are started or changed in between neither shift nor repeat anything. A store without a
        method of its own reads all runs of the statuses, orders them by their time of creation and their id, and
        does not know their conversations.

        Raises:
            CallerError: `after` is not the cursor of a page, or the store does not know conversations.
            AgentDefinitionError: `limit` is not positive, or a moment has no time zone.
        """
        reject_not_positive("IAgentStateRepository.list_runs", limit=limit)
        reject_naive("IAgentStateRepository.list_runs", since=since, until=until)
        if conversation_id is not None:
            raise CallerError(
                f"{type(self).__name__} does not know the conversations of its runs. "
                "Give it a list_runs() of its own, or list runs without conversation_id."
            )
        before = None if after is None else _place_in(after)
        wanted = [
            state
            for status in statuses or AgentStatus
            for state in await self.list_by_status(status)
            if state.tenant_id == tenant_id and agent_type in (None, state.agent_type)
            if _lies_between(since, state.created_at, until)
            if before is None or _place_of(state) < before
        ]
        # A run that changed its status between two reads is found twice, or by its later one.
        found = sorted({state.id: state for state in wanted}.values(), key=_place_of, reverse=True)
        page = tuple(found[:limit])
        return RunPage(page, _cursor_at(page[-1]) if len(found) > limit else None)


@persistence_port
class IAgentSignalRepository(ABC):
    """Stores the signals of each run in the order the store accepted them."""

    @abstractmethod
    async def append(self, signal: AgentSignal) -> AgentSignal:
        """Queue a signal. An id that is there already is not queued again; the first one is returned, with its end.

        The signals of a run are numbered 1, 2, 3 ... under a lock that the commit which ends the run takes, too: a
        signal is known to that commit, or is refused (see `IAgentJournal`).

        Raises:
            CallerError: the run has ended, and has no signal with this id; or a message or a steering instruction has
                no words, or is no revision of the input that it names.
        """

    async def append_all(self, signals: Sequence[AgentSignal]) -> Mapping[str, AgentSignal]:
        """Queue signals with different ids, all of them or none, and return the ones that are stored, by id.

        Where one of the ids is there already, nothing is queued: the signals that were there are returned, and no
        others. A store without a method of its own appends one after the other.

        Raises:
            CallerError: one of the runs has ended, and none of the ids is there; nothing was queued.
        """
        return {signal.id: await self.append(signal) for signal in signals}

    @abstractmethod
    async def list_pending(self, state_id: str) -> Sequence[AgentSignal]:
        """Return the unconsumed signals of a run, in append (queue) order, those of both lanes together.

        A signal keeps its place: one that is appended later never comes before one that was listed.
        """

    async def newest_pending(self, runs: AbstractSet[RunKey]) -> Mapping[RunKey, str]:
        """Return a mark of the newest unconsumed signal of each of these runs that has one.

        A newer signal has another mark, so a process that knows the marks of its runs reads the signals of those alone
        that have got one since. This is asked often and for many runs, which may change meanwhile. A store without a
        method of its own lists the signals of one run after the other.

        Raises:
            OSError: the store cannot be reached.
        """
        listed = {run: await self.list_pending(run.run_id) for run in tuple(runs)}
        return {run: pending[-1].id for run, pending in listed.items() if pending}

    async def record_refused(self, signal: AgentSignal) -> AgentSignal:
        """Keep a signal that was refused, as evidence: it is never pending, and a run that has ended takes it, too.

        An id that is there already is not kept again; the first one is returned. A store without a method of its own
        keeps none.
        """
        return replace(signal, end=AgentSignalEnd.REFUSED)

    async def list_answers(self, state_id: str) -> Sequence[AgentSignal]:
        """Return the `approval_decision` signals of a run in append order: pending, ended and refused ones.

        A store without a method of its own knows the pending ones.
        """
        pending = await self.list_pending(state_id)
        return [signal for signal in pending if signal.kind is AgentSignalKind.APPROVAL_DECISION]

    async def list_steering(self, state_id: str) -> Sequence[AgentSignal]:
        """Return the `steering_instruction` signals of a run in append order: pending and ended ones.

        A store without a method of its own knows the pending ones.
        """
        pending = await self.list_pending(state_id)
        return [signal for signal in pending if signal.kind is AgentSignalKind.STEERING_INSTRUCTION]

    @abstractmethod
    async def mark_consumed(self, signal_id: str) -> AgentSignal:
        """Take a signal out of the queue and return it.

        Raises:
            SignalNotFoundError: there is no such signal, or it was consumed already.
        """


@persistence_port
class IAgentEvidenceRepository(ABC):
    """Stores evidence. Append only: there is no way to change or delete what was recorded."""

    @abstractmethod
    async def append(self, evidence: AgentEvidence) -> AgentEvidence:
        """Record evidence and give back what was stored.

        Only the journal writes about a run that has one, except for the evaluations of applications.
        """

    @abstractmethod
    async def get(self, evidence_id: str) -> AgentEvidence:
        """One piece of evidence.

        Raises:
            EvidenceNotFoundError: there is no such evidence, or it belongs to another tenant.
        """

    @abstractmethod
    async def list_by_state(self, state_id: str) -> Sequence[AgentEvidence]:
        """Return all evidence of a run, in the run's sequence."""

    @abstractmethod
    async def list_by_manifest_ref(self, manifest_ref: str) -> Sequence[AgentEvidence]:
        """Return all evidence that refers to a context manifest, in the order it was appended."""

    async def page_by_state(
        self, state_id: str, *, after: str | None = None, limit: int = 50
    ) -> EvidencePage:
        """Return the evidence of a run, in the run's sequence, a page at a time; costs what the page costs.

        A store without a method of its own reads all evidence of the run for every page.

        Raises:
            CallerError: `after` is not the cursor of a page.
            AgentDefinitionError: `limit` is not positive.
        """
        reject_not_positive("IAgentEvidenceRepository.page_by_state", limit=limit)
        if after is not None and not (after.isascii() and after.isdigit()):
            raise _no_page_after(after)
        begin = 0 if after is None else int(after)
        found, end = await self.list_by_state(state_id), begin + limit
        return EvidencePage(tuple(found[begin:end]), str(end) if len(found) > end else None)


_BEFORE_ALL = datetime.min.replace(tzinfo=UTC)


def _place_of(state: AgentState) -> tuple[datetime, str]:
    """Return what orders runs in a store of which nothing else is known: the time of creation, then the id."""
    return state.created_at or _BEFORE_ALL, state.id


def _cursor_at(state: AgentState) -> str:
    created_at, state_id = _place_of(state)
    return f"{created_at.isoformat()}/{state_id}"


def _place_in(cursor: str) -> tuple[datetime, str]:
    moment, _, state_id = cursor.partition("/")
    try:
        created_at = datetime.fromisoformat(moment)
    except ValueError as error:
        raise _no_page_after(cursor) from error
    if created_at.tzinfo is None or not state_id:
        raise _no_page_after(cursor)
    return created_at, state_id


def _no_page_after(cursor: str) -> CallerError:
    return CallerError(f"there is no page after {cursor!r}. Give the cursor of a page as `after`.")


def _lies_between(since: datetime | None, moment: datetime | None, until: datetime | None) -> bool:
    if moment is None:
        return since is None and until is None
    return (since is None or moment >= since) and (until is None or moment < until)


async def consume_pending_agent_signals(
    repository: IAgentSignalRepository,
    state_id: str,
    *,
    poll_point: AgentSignalPollPoint = AgentSignalPollPoint.SAFE_BOUNDARY,
    accepted_signals: Sequence[AgentSignalKind] | None = None,
    max_signals: int | None = None,
) -> AgentSignalConsumptionBatch:
    """Consume what may be consumed now, by the rules of `select_signals`, and return it: one poll, no waiting.

    For code that works on the repositories directly; a journaled run consumes signals through the journal.

    Raises:
        AgentDefinitionError: `state_id` is blank or `max_signals` is not positive; nothing was read.
    """
    owner = "consume_pending_agent_signals"
    reject_blank(owner, state_id=state_id)
    reject_not_positive(owner, max_signals=max_signals)
    pending = await repository.list_pending(state_id)
    selected = select_signals(pending, accepted=accepted_signals, limit=max_signals)
    consumed = [await repository.mark_consumed(signal.id) for signal in selected]
    return AgentSignalConsumptionBatch(state_id, poll_point, tuple(consumed))


@value
class LateOutcome:
    """The result of an action that an owner of `epoch` got after it lost its run; `view` is public.

    A former owner writes nothing into the journal. The outcome is shown with the question about the action and decides
    nothing. `created_at` is set by the store's clock.
    """

    run: RunKey
    action_id: str
    attempt: int
    epoch: int
    view: JsonObject
    created_at: datetime | None = None

    def __post_init__(self) -> None:
        reject_blank(self, action_id=self.action_id)
        reject_not_positive(self, attempt=self.attempt, epoch=self.epoch)
        reject_naive(self, created_at=self.created_at)

    def to_payload(self) -> JsonObject:
        """Return the outcome as a recovery request shows it."""
        at: JsonValue = self.created_at.isoformat() if self.created_at else None
        return {"attempt": self.attempt, "epoch": self.epoch, "at": at, **self.view}


@persistence_port
class IAgentLateOutcomes(ABC):
    """Stores late outcomes: append only, and apart per run.

    Every adapter guarantees: an outcome is durable when `append` returns; of one run, action, attempt and epoch the
    first is kept and a further one changes nothing; nothing here touches the journal, the state or the head of the run.
    """

    @abstractmethod
    async def append(self, outcome: LateOutcome) -> None:
        """Keep an outcome.

        Raises:
            OSError: the store cannot be reached; whether it was kept is unknown, and it may be appended again.
        """

    @abstractmethod
    async def list_by_action(self, run: RunKey, action_id: str) -> Sequence[LateOutcome]:
        """Return what is known of an action, in the order of arrival."""


@persistence_port
class IAgentRetention(ABC):
    """Removes runs, or their content.

    Every adapter guarantees: whatever is removed of a run is removed at once; a run that has not ended, or whose parent
    has not, stays whole.
    """

    @abstractmethod
    async def prune(self, tenant_id: str, *, ended_before: datetime, limit: int = 1000) -> int:
        """Remove up to `limit` runs that ended before a moment, oldest first, with everything about them.

        That is their rows, states, signals, evidence and facts, undelivered facts included. Turns of conversations
        stay, for later runs have read them. A store that has the memories of agents removes the expired ones of the
        tenant as well. Gives the number of runs removed: less than `limit` says that none is left.

        Raises:
            AgentDefinitionError: `limit` is not positive, or the moment has no time zone.
            OSError: the store cannot be reached; some may have been removed.
        """

    @abstractmethod
    async def erase(self, run: RunKey) -> None:
        """Remove the content of a run: payloads of rows, signals, evidence, the turns it added.

        That it took place, when, what it did by name and how it ended stays. The rows keep the digests of their
        payloads, so the chain holds, and the content cannot be guessed from them. Erasing again does nothing.

        Raises:
            RunNotFoundError: there is no such run.
            CallerError: it has not ended. Cancel it first.
            OSError: the store cannot be reached; whether it is erased is unknown.
        """
