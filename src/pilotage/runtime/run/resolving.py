"""Carrying out the decision of a person about a diverged run: one commit with its author and reason.

The commit takes the run over, writes the row of the decision, and lets the run go on with it: the next attempt replays
over the changed record. A fork is begun after the row that names it; after a crash the same decision completes it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import NoReturn

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.agent.principal import Principal
from pilotage.agent.state import AgentState
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.errors import CallerError, RunConflictError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.door.outcome import Outcomes
from pilotage.runtime.door.tool_binding import shown_to_others, tool_giving
from pilotage.runtime.effect import Effect, new_outcome
from pilotage.runtime.exposure.redactor import Redactor
from pilotage.runtime.history import RunHistory, RunRecord
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.replay import Replay
from pilotage.runtime.journal.resolution import (
    ActionDone,
    ForkBefore,
    ResolvedCall,
    RunResolution,
    SkipAction,
    call_to_give,
    call_to_skip,
    check_diverged,
    fork_id,
    fork_rows,
    resolution_in,
    with_asked_fingerprint,
)
from pilotage.runtime.journal.result_codec import codec_of
from pilotage.runtime.journal.scope import StepScope
from pilotage.runtime.run.claim import committed
from pilotage.runtime.run.pausing import running
from pilotage.runtime.run.resume import acting
from pilotage.runtime.run.start import RunStarts
from pilotage.runtime.run.supervise import RunSupervisor, release_lease
from pilotage.runtime.services import Services

_SKIPPED: JsonObject = {words.SKIPPED: True}


class ResolvedEffect(Effect):
    """A recorded call that a person decides about: it is not carried out, its outcome is written."""

    def __init__(
        self, call: ResolvedCall, redactor: Redactor, tool: AgentToolDescriptor | None = None
    ) -> None:
        super().__init__(StepScope(words.RUN), call.action)
        self.number, self.attempt = call.number, call.attempt
        self.descriptor = tool
        if tool is not None:
            self.codec = codec_of(tool.callable)
        self._redactor = redactor

    def act(self) -> Awaitable[NoReturn]:
        raise AssertionError("a call that a person decides about is not carried out")

    def view_of(self, result: JsonValue) -> JsonObject:
        if self.descriptor is None:
            return super().view_of(result)
        return shown_to_others(self.descriptor, self._redactor, result)


class RunResolver:
    """Writes the decisions of people about diverged runs."""

    def __init__(self, services: Services, supervisor: RunSupervisor, starts: RunStarts) -> None:
        self._services = services
        self._supervisor = supervisor
        self._starts = starts

    async def resolve(
        self, run_id: str, resolution: RunResolution, reason: str, principal: Principal | None
    ) -> AgentState:
        """Write a decision, and return the state of the run, or that of its fork.

        Raises:
            RunNotFoundError: there is no such run in the principal's tenant.
            RunConflictError: the run is driven now, or was claimed at the same time.
            CallerError: the decision does not fit the run.
        """
        if not reason.strip():
            raise CallerError(
                f"a decision about run {run_id!r} needs a reason: it is recorded with who decided."
            )
        record = await self._supervisor.records.checked(run_id, principal)
        state = record.state
        check_diverged(state)
        if record.damage is not None:
            raise CallerError(f"run {run_id!r} cannot be resolved: its record is damaged at {record.damage}.")
        if self._supervisor.live(run_id) is not None:
            raise RunConflictError(f"run {run_id!r} is driven by this process now. Try again when it waits.")
        lease = await self._services.acquire_lease(RunKey(state.tenant_id, run_id))
        try:
            by = acting(principal, state)
            if isinstance(resolution, ForkBefore):
                return await self._fork(record, resolution.row, reason, by)
            return await self._decide(record, resolution, reason, by)
        finally:
            await release_lease(lease)

    async def _decide(
        self, record: RunRecord, resolution: SkipAction | ActionDone, reason: str, by: Principal
    ) -> AgentState:
        state, rows = record.state, record.rows
        definition = self._services.definition_of(state.agent_type)
        redactor = self._services.redactor(definition, state.tenant_id)
        if isinstance(resolution, SkipAction):
            call, decision = call_to_skip(state.id, rows, resolution.action), words.SKIP
            effect = ResolvedEffect(call, redactor)
        else:
            call, decision = call_to_give(state.id, rows, resolution.action), words.GIVE
            effect = ResolvedEffect(
                with_asked_fingerprint(call, state), redactor, self._tool(call, resolution.result)
            )
        decided: JsonObject = {words.DECISION: decision, words.DECIDED_BY: by.id}
        decided = {**decided, words.COMMENT: redactor.text(reason)}
        claim: JsonObject = {words.RESOLUTION: {**decided, words.ACTION: call.action.id}}
        ledger = self._claiming(definition, state, rows, by, claim)
        outcomes = Outcomes(ledger, redactor, Replay(ledger))
        outcome = new_outcome(_SKIPPED, _SKIPPED, None)
        if isinstance(resolution, ActionDone):
            outcome = outcomes.outcome_of(effect, effect.codec.decode(resolution.result))
        for question in call.questions:
            outcomes.withdraw(question)
        outcomes.decide(effect, outcome, decided)
        ledger.change_state(running(state))
        await committed(ledger)
        return ledger.state

    def _tool(self, call: ResolvedCall, result: JsonValue) -> AgentToolDescriptor | None:
        """Return the tool of a call whose result fits; None for a step, whose type only the program knows."""
        name = call.tool_name
        if name is None:
            return None
        tool = tool_giving(self._services.tools_named(name), result)
        if tool is None:
            raise CallerError(f"the application has no tool {name!r}, so its result cannot be checked.")
        return tool

    async def _fork(self, record: RunRecord, row: int, reason: str, by: Principal) -> AgentState:
        """Name the fork in a row of the run, then begin it; a named fork that is missing is only begun."""
        state, rows = record.state, record.rows
        earlier = [found for each in rows if (found := resolution_in(each)) and found.get(words.ROW) == row]
        copied = fork_rows(state.id, rows, _row_before(state.id, row))
        name = fork_id(state.id, row, len(earlier))
        missing = str(earlier[-1][words.FORK]) if earlier else None
        if missing is not None and await self._supervisor.records.find(missing, state.tenant_id) is None:
            return await self._starts.fork(state.id, copied, by, fork=missing)
        decided: JsonObject = {
            words.DECISION: words.FORK,
            words.DECIDED_BY: by.id,
            words.ROW: row,
            words.FORK: name,
        }
        definition = self._services.definition_of(state.agent_type)
        decided = {
            **decided,
            words.COMMENT: self._services.redactor(definition, state.tenant_id).text(reason),
        }
        ledger = self._claiming(definition, state, rows, by, {words.RESOLUTION: decided})
        await committed(ledger)
        return await self._starts.fork(state.id, copied, by, fork=name)

    def _claiming(
        self,
        definition: AgentDefinition,
        state: AgentState,
        rows: Sequence[JournalRow],
        by: Principal,
        claim: JsonObject,
    ) -> Ledger:
        claims, history = self._supervisor.claims, RunHistory.of(rows, state.id)
        return claims.claiming(definition, state, history, {words.CLAIMED_BY: by.id, **claim})


def _row_before(run_id: str, row: int) -> int:
    if row == 1:
        raise CallerError(f"run {run_id!r} has nothing before row 1. Start a new run instead.")
    return row - 1
