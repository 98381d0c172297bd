"""Taking up one claimed run: its claim is counted, the run is driven as far as it gets, the claim is settled.

A claim that ends without progress (no new row, pause or hand-over) stays counted in the store. So does the claim of
a process that dies: it was counted before the first action for the run.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from traceback import format_tb

from pilotage.agent.ports.leases import (
    LONGEST_DELAY,
    POISONED_FROM,
    BacklogEntry,
    ClaimRecord,
    IAgentBacklog,
    IAgentLeases,
    has_something_to_do,
)
from pilotage.agent.ports.persistence import RunKey
from pilotage.agent.principal import LOCAL, Principal
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.errors import PilotageError, RunConflictError, error_words
from pilotage.runtime.children.launch import cancellation_of
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import (
    EventLoopStalled,
    RunInterruption,
    RunOwnershipLost,
    StoreUnavailable,
)
from pilotage.runtime.journal.lease import release_unused
from pilotage.runtime.runs import AgentRuns
from pilotage.values import value

_GROWTH = 4.0
_LONGEST_STACK = 8_000
_log = logging.getLogger("pilotage.worker")


@value
class ClaimEnd:
    """The end of a claim: whether it counts, the back-off of the run, and the problem if there was one."""

    counts: bool
    delay_seconds: float = 0.0
    problem: str | None = None


def next_delay(before: ClaimRecord, first_seconds: float) -> float:
    """Return the seconds for which a run is left after its next claim.

    They are four times as many each time, five minutes at most. After the last claim before quarantine there are none.
    """
    if before.count + 1 >= POISONED_FROM:
        return 0.0
    delay = before.delay
    seconds = first_seconds if not delay else delay.total_seconds() * _GROWTH
    return min(seconds, LONGEST_DELAY.total_seconds())


def end_of_claim(
    error: BaseException | None, delay_seconds: float, *, is_claimable: bool, is_stopping: bool
) -> ClaimEnd:
    """Return how a claim ended, by the error that ended it and by whether the run could be claimed again at once.

    Ends that the run did not cause do not count: a shutdown, another owner, a store that does not answer. An attempt
    that ended without an error has paused, ended or handed the run over.
    """
    if is_stopping:
        return ClaimEnd(counts=False)
    if error is None:
        return ClaimEnd(counts=False, delay_seconds=delay_seconds if is_claimable else 0.0)
    if isinstance(error, EventLoopStalled):
        return ClaimEnd(counts=True, delay_seconds=delay_seconds, problem=error_words(error))
    if isinstance(error, RunConflictError | RunOwnershipLost):
        return ClaimEnd(counts=False, delay_seconds=delay_seconds)
    is_store = isinstance(error, OSError) or (
        isinstance(error, StoreUnavailable) and isinstance(error.__cause__, OSError)
    )
    return ClaimEnd(counts=not is_store, delay_seconds=delay_seconds, problem=problem_of(error))


def problem_of(error: BaseException) -> str:
    """Return what is stored of an error: its stack, which has no values, and its words where they are Pilotage's own.

    The words of any other exception are in the log of the worker.
    """
    stack = "".join(format_tb(error.__traceback__))
    is_own = isinstance(error, PilotageError | RunInterruption)
    return f"{error_words(error) if is_own else type(error).__name__}\n{stack[-_LONGEST_STACK:]}".rstrip()


def outcome_words(state: AgentState) -> str:
    """Return how far a run got that was taken up: its status, with the reason if it failed or waits."""
    words = "waits" if state.status is AgentStatus.INTERRUPTED else state.status.value
    return f"{words} ({state.reason.value})" if state.reason is not None else words


class TakeUp:
    """Takes up claimed runs. `is_stopping` says whether the worker stops."""

    def __init__(
        self,
        runs: AgentRuns,
        backlog: IAgentBacklog,
        leases: IAgentLeases,
        first_delay_seconds: float,
        is_stopping: Callable[[], bool],
    ) -> None:
        self._runs = runs
        self._services = runs.services
        self._backlog = backlog
        self._leases = leases
        self._first_delay = first_delay_seconds
        self._is_stopping = is_stopping
        self._begun: dict[RunKey, float] = {}

    @property
    def begun(self) -> dict[RunKey, float]:
        """The runs whose claim is counted and not settled, with the seconds they are left afterwards."""
        return dict(self._begun)

    async def drive(self, entry: BacklogEntry) -> None:
        """Drive a run as far as it gets, or quarantine it if it is poisoned."""
        run, delay = entry.run, next_delay(entry.claims, self._first_delay)
        try:
            if entry.claims.is_poisoned:
                await self._quarantine(run, entry.claims)
                return
            await self._backlog.begin(run, delay)
            self._begun[run] = delay
            _log.info("run %s: taken up", run.run_id)
            end = ClaimEnd(counts=False)
            try:
                end = await self._attempt(run, delay)
            finally:
                await self._settle(run, end)
        except OSError as error:
            _log.warning("run %s cannot be taken up now: %s", run.run_id, error_words(error))
        finally:
            await self.leave(run)

    async def leave(self, run: RunKey) -> None:
        """Release the lease of a claim that is over, unless an attempt of this process has it."""
        await release_unused(self._leases, run, self._services.owner)

    async def _settle(self, run: RunKey, end: ClaimEnd) -> None:
        self._begun.pop(run, None)
        # A claim that cannot be settled stays counted, with the delay that it began with.
        with suppress(OSError):
            await self._backlog.settle(
                run, counts=end.counts, delay_seconds=end.delay_seconds, problem=end.problem
            )

    async def _attempt(self, run: RunKey, delay: float) -> ClaimEnd:
        is_claimable = False
        try:
            error = await self._resume(run)
            is_claimable = await self._is_claimable(run)
        except (Exception, RunInterruption) as raised:  # noqa: BLE001 - an error of one run must not affect the others
            error = raised
            if not self._is_stopping() and not isinstance(raised, RunConflictError):
                _log.warning("run %s cannot be taken up now: %s", run.run_id, error_words(raised))
        return end_of_claim(error, delay, is_claimable=is_claimable, is_stopping=self._is_stopping())

    async def _resume(self, run: RunKey) -> BaseException | None:
        """Drive a run, or the one above it that drives it, and return the error that ended the attempt."""
        if await self._runs.launcher.end_orphan(run):
            return None
        root, is_over = await self._root_of(run)
        if is_over:
            return None
        if root != run:
            # The parent resumes it, and needs its lease for that.
            await release_unused(self._leases, run, self._services.owner)
        await self._runs.take_up(root.run_id, principal=Principal(LOCAL.id, root.tenant_id))
        live = self._runs.launcher.live(root.run_id)
        if live is None:
            return None
        await asyncio.wait([live.task])
        error = None if live.task.cancelled() else live.task.exception()
        if error is not None:
            _log.warning("an attempt at run %s ended: %s", root.run_id, error_words(error))
        return error

    async def _quarantine(self, run: RunKey, claims: ClaimRecord) -> None:
        try:
            state = await self._state(run.run_id, run.tenant_id)
            above = await self._parent_status(state)
            is_orphan = above is not None and above.is_terminal
            signal = cancellation_of(run.run_id) if is_orphan else None
            await self._runs.launcher.poisoned.interrupt(state, claims, signal)
        except RunConflictError:
            return
        except (Exception, RunInterruption) as error:  # noqa: BLE001 - it is tried again when the run is claimed again
            _log.warning("run %s cannot be quarantined now: %s", run.run_id, error_words(error))
            await self._settle(
                run, ClaimEnd(counts=True, delay_seconds=next_delay(claims, self._first_delay))
            )
            return
        problem = (claims.problem or "no error is known: its process ended").partition("\n")[0]
        _log.error(
            "run %s is quarantined after %d claims without progress. Last problem: %s",
            run.run_id,
            claims.count,
            problem,
        )

    async def _root_of(self, run: RunKey) -> tuple[RunKey, bool]:
        """Return the run without a parent above a run, or the run itself, and whether that one has ended."""
        state = await self._state(run.run_id, run.tenant_id)
        parent = state.metadata.get(words.PARENT)
        if parent is None:
            return run, state.is_terminal
        return await self._root_of(RunKey(run.tenant_id, str(parent)))

    async def _is_claimable(self, run: RunKey) -> bool:
        """Return whether the run could be claimed again at once."""
        state = await self._state(run.run_id, run.tenant_id)
        _log.info("run %s: %s", run.run_id, outcome_words(state))
        pending = await self._services.signals.list_pending(run.run_id)
        kinds = {signal.kind for signal in pending if signal.end is None}
        return has_something_to_do(state, kinds, self._services.clock.now(), await self._parent_status(state))

    async def _parent_status(self, state: AgentState) -> AgentStatus | None:
        parent = state.metadata.get(words.PARENT)
        return None if parent is None else (await self._state(str(parent), state.tenant_id)).status

    async def _state(self, run_id: str, tenant_id: str) -> AgentState:
        return await self._runs.get(run_id, principal=Principal(LOCAL.id, tenant_id))
