"""The part of `AgentRuns` that reads runs: states, outlines, events, results, evidence, questions."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from datetime import datetime

from pilotage.agent.evidence import AgentEvidence, AgentEvidenceCandidate
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.ports.costs import CostField, CostSum, cost_sums
from pilotage.agent.ports.leases import NO_CLAIMS, ClaimRecord, IAgentLeases
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.ports.repositories import RunPage
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import AgentPersistenceConfigurationError, CallerError
from pilotage.jsonvalue import JsonObject, object_or_empty
from pilotage.runtime.audit import evaluation_of
from pilotage.runtime.events.feed import START, EventCursor
from pilotage.runtime.events.subscription import Subscription
from pilotage.runtime.history import RunReader
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.lease import is_provably_dead
from pilotage.runtime.open_questions import OpenQuestions, Question, QuestionPage, StoredAnswer
from pilotage.runtime.run.resume import RunResumer, acting
from pilotage.runtime.run.supervise import RunSupervisor
from pilotage.runtime.services import Services
from pilotage.values import value


def _cost_field(name: CostField | str) -> CostField:
    try:
        return CostField(name)
    except ValueError as error:
        raise CallerError(f"costs are not grouped by {name!r}. Use {', '.join(CostField)}.") from error


_UNDER_WAY = frozenset({AgentStatus.CREATED, AgentStatus.ACTIVE, AgentStatus.CANCELLING})


@value
class RunOutline:
    """The facts that a list shows of a run beside its state.

    `input` is the instruction of a declarative agent, as readers may see it; of any other agent it has the names of the
    arguments, whose values may be sensitive; it is empty where the first row cannot be read. `is_driven` is None for a
    run that waits or has ended, which no process drives.
    """

    input: str = ""
    conversation: str | None = None
    is_driven: bool | None = None


async def outline_of(services: Services, state: AgentState) -> RunOutline:
    """Return the outline of a run, by what readers may see of its first row."""
    run = RunKey(state.tenant_id, state.id)
    view = await _view_of_start(services, run)
    conversation = view.get(words.CONVERSATION)
    return RunOutline(
        input_words(object_or_empty(view.get(words.INPUT))) if view else "",
        conversation if isinstance(conversation, str) else None,
        await _is_driven(services, run) if state.status in _UNDER_WAY else None,
    )


def input_words(given: JsonObject) -> str:
    """Return an instruction as it is, and of arguments their names."""
    instruction = given.get(words.INSTRUCTION)
    return instruction if isinstance(instruction, str) else f"({', '.join(given)})"


async def _view_of_start(services: Services, run: RunKey) -> JsonObject:
    """Return the view of the first row; an empty one where it was erased or is damaged."""
    rows = services.journal.read(run)
    try:
        first = await anext(rows, None)
    finally:
        if isinstance(rows, AsyncGenerator):
            await rows.aclose()
    return object_or_empty(first.view) if first is not None else {}


async def _is_driven(services: Services, run: RunKey) -> bool | None:
    leases = services.app.get_or_none(IAgentLeases)
    if leases is None:
        return None
    holder = await leases.holder(run)
    return holder is not None and not is_provably_dead(holder.owner)


# A cancelled run may ask about its clean-up; while a run is active, a child of it may wait.
_ASKING = (AgentStatus.INTERRUPTED, AgentStatus.CANCELLING)


class ReadsRuns:
    """Reads runs within the tenant of a principal, and adds evaluations to their evidence."""

    services: Services
    launcher: RunSupervisor
    _records: RunReader
    _answers: OpenQuestions
    _resumer: RunResumer

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

    async def costs(
        self,
        *,
        by: Sequence[CostField | str] = (),
        since: datetime | None = None,
        until: datetime | None = None,
        principal: Principal | None = None,
    ) -> tuple[CostSum, ...]:
        """Return what the durable runs of the principal's tenant were charged for, summed by these fields.

        Charges without a known price are counted in `unpriced`, and amounts of each currency are apart. Only calls from
        `since` on and before `until` count, where these are given.

        Raises:
            CallerError: there is no such field, or a moment has no time zone; or a row has costs that cannot be read
                (`DamagedEntryError`).
            OSError: the store cannot be reached.
        """
        fields = tuple(map(_cost_field, by))
        for name, moment in (("since", since), ("until", until)):
            if moment is not None and moment.tzinfo is None:
                raise CallerError(
                    f"{name} is {moment.isoformat()}, without a time zone. Give a moment with one."
                )
        read = self.services.costs.entries((principal or LOCAL).tenant, since=since, until=until)
        return cost_sums([entry async for entry in read], fields)

    async def outline(self, run_id: str, *, principal: Principal | None = None) -> RunOutline:
        """Return the beginning of a run's input, its conversation, and whether a process drives it."""
        return await outline_of(self.services, await self.get(run_id, principal=principal))

    async def claims(self, run_id: str, *, principal: Principal | None = None) -> ClaimRecord:
        """Return the claims of a run that ended without progress, with the last error and the time of the next one."""
        state = await self.get(run_id, principal=principal)
        backlog = self.services.backlog
        return NO_CLAIMS if backlog is None else await backlog.claims_of(RunKey(state.tenant_id, state.id))

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
        return self.launcher.subscriptions.to_run(run_id, seen, principal, follows=follow, resuming=resuming)

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

    async def verify(self, run_id: str, *, principal: Principal | None = None) -> int:
        """Check the journal of a run for consistency with itself and the state; return the number of rows.

        Raises:
            CallerError: an entry is not as it was written (`DamagedEntryError`), or the state does not match the rows.
        """
        return await self._records.verify(run_id, principal)

    async def questions(self, run_id: str, *, principal: Principal | None = None) -> tuple[Question, ...]:
        """Return the questions that a run and its children wait for, in the order they were asked."""
        return await self._answers.questions(await self.get(run_id, principal=principal))

    async def open_questions(
        self, *, after: str | None = None, limit: int = 50, principal: Principal | None = None
    ) -> QuestionPage:
        """Return the open questions of the principal's tenant, page by page; each has the id of the run that asks.

        A page is made from at most `limit` waiting runs, newest first, so it may have fewer or more questions than
        that, and none although a further page has some. A run whose record cannot be read is left out.
        """
        page = await self.list(statuses=_ASKING, after=after, limit=limit, principal=principal)
        found = [question for run in page.runs for question in await self._answers.own_questions(run)]
        return QuestionPage(tuple(found), page.cursor)

    async def answered_questions(
        self, run_id: str, *, principal: Principal | None = None
    ) -> tuple[Question, ...]:
        """Return the questions of a run that are closed; the same answer to one is confirmed, another is a conflict."""
        return await self._answers.closed(await self.get(run_id, principal=principal))

    async def waiting_answers(
        self, run_id: str, *, principal: Principal | None = None
    ) -> tuple[StoredAnswer, ...]:
        """Return the stored answers that a run and its children have not taken yet: they wait for an owner."""
        return await self._answers.answered(await self.get(run_id, principal=principal))

    def is_driven(self, run_id: str) -> bool:
        """Return whether this process drives a run, or is about to because it was answered or resolved here."""
        return self.launcher.live(run_id) is not None or self._resumer.background_task(run_id) is not None
