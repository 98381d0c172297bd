"""`crash_matrix`: stops an agent's process at every write, and checks that the outcome is the same.

The run goes through once without a fault; that is the reference. Then, for every commit and every kind of fault, it
is started in a new world, stopped there, and continued by new processes; for every stop also with a
second stop while it recovers. Questions are answered: approvals by the caller's function, unknown outcomes
by the actual outcome, which is in a row of the dead process that no commit made durable. Calls that are under way when
a process stops come to their own end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.ports.journal import IAgentJournal
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RunKey
from pilotage.agent.ports.repositories import (
    IAgentEvidenceRepository,
    IAgentSignalRepository,
    IAgentStateRepository,
)
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.recovery_request import AgentRecoveryRequest, OpenAction, RecoveryDecision
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import ApprovalDecision
from pilotage.agent.state import AgentState, AgentStateReason, AgentStatus
from pilotage.container.application import Application
from pilotage.jsonvalue import JsonValue, to_json_value
from pilotage.runtime.door.run import Run
from pilotage.runtime.journal.durable_replay import DurableReplay
from pilotage.runtime.journal.scope import MAY_BE_REPEATED, idempotency_key
from pilotage.runtime.journal.seals import Seals
from pilotage.runtime.plugin import initialize
from pilotage.runtime.quick import with_pods_asked_for
from pilotage.runtime.runs import AgentRuns
from pilotage.testing.faults import FAULTS, STOPS, Fault, FaultyJournal, ProcessStopped
from pilotage.testing.ids import SeededIds
from pilotage.testing.memory import MemoryStore
from pilotage.testing.scripted_model import ScriptedModel
from pilotage.testing.sealer import MemorySealer
from pilotage.values import value

Approver: TypeAlias = Callable[[AgentApprovalRequest], ApprovalDecision]
CarryOut: TypeAlias = Callable[[AgentRecoveryRequest], JsonValue]

_MOST_PROCESSES = 30
_RECOVERY_COMMITS = (1, 2, 3)

_RowOf: TypeAlias = tuple[RunKey, JournalRow]
CrashPoint: TypeAlias = tuple[Fault | None, ...]
"""The fault of each process in turn; processes beyond the last one have none."""


class StorePorts(Protocol):
    """The ports of a store that a run requires; the faults are injected into the journal."""

    @property
    def journal(self) -> IAgentJournal: ...

    @property
    def states(self) -> IAgentStateRepository: ...

    @property
    def signals(self) -> IAgentSignalRepository: ...

    @property
    def evidence(self) -> IAgentEvidenceRepository: ...


def always(request: AgentApprovalRequest) -> ApprovalDecision:
    """Approve every request."""
    return ApprovalDecision.APPROVE


def _no_results(request: AgentRecoveryRequest) -> JsonValue:
    raise AssertionError(
        f"the run waits for {request.action_name!r}, which its caller carries out: crash_matrix(..., carry_out=...)."
    )


@value
class _Answers:
    """The functions that answer the questions of a run, and how long a call may take when its process stops."""

    approve: Approver
    carry_out: CarryOut
    seconds_to_end: float


@value
class CrashReport:
    """Result of a crash matrix: the number of points, the differences from the reference run, and its keys."""

    points: int
    reference: RunResult
    differences: tuple[str, ...]
    repeated: tuple[str, ...]
    keys: Mapping[str, str]

    def key(self, tool: str) -> str:
        """Return the idempotency key of a tool's first call, which is the same in all runs."""
        if tool not in self.keys:
            raise AssertionError(
                f"the run does not call {tool!r}. It calls {', '.join(map(repr, self.keys)) or 'nothing'}."
            )
        return self.keys[tool]

    def assert_same_result(self) -> None:
        """Fail unless the run ended in the same way at all crash points."""
        if self.differences:
            raise AssertionError("\n".join(["some crashes change the result:", *self.differences]))

    def assert_no_repeated_effects(self) -> None:
        """Fail if an effect that may not be repeated occurred more than once."""
        if self.repeated:
            raise AssertionError("\n".join(["some crashes repeat an effect:", *self.repeated]))


async def crash_matrix(
    agent: type[object],
    given: object = None,
    *,
    model: ScriptedModel | None = None,
    add: Sequence[object] = (),
    approve: Approver = always,
    carry_out: CarryOut | None = None,
    store: Callable[[], StorePorts] = MemoryStore,
    second_stops: Sequence[int] = _RECOVERY_COMMITS,
    seconds_to_end: float = 5.0,
) -> CrashReport:
    """Try every crash point of one run of an agent, its children included.

    `add` holds the pods of the agent. Classes are made anew by every process. Instances are the outside world: they
    outlive the processes of one run, and every crash point gets copies of their initial state. `carry_out`
    returns the results of deferred tools. `store` returns an empty store, one for each crash point. `second_stops` are
    the commits of a recovering process at which it stops too; fewer of them are faster. A call that acts when its
    process stops has `seconds_to_end`; the outcome of one that takes longer would be unknown.
    """
    pristine = [deepcopy(each) for each in add]
    answers = _Answers(approve, carry_out or _no_results, seconds_to_end)
    reference = _Story(agent=agent, given=given, model=model, world=add, answers=answers, store=store())
    result = await reference.carry_through(())
    points = list(_points(reference.commits, second_stops))
    differences: list[str] = []
    repeated: list[str] = []
    for point in points:
        world = [deepcopy(each) for each in pristine]
        story = _Story(
            agent=agent,
            given=given,
            model=model and model.fresh(),
            world=world,
            answers=answers,
            store=store(),
        )
        ended = await story.carry_through(point)
        # A run that ended before its process stopped is read from its record, where the output is JSON.
        if (ended.status, to_json_value(ended.output)) != (result.status, to_json_value(result.output)):
            difference = (
                f"{ended.status} with {ended.output!r} instead of {result.status} with {result.output!r}"
            )
            differences.append(f"  {_described(point)}: {difference}")
        repeated.extend(f"  {_described(point)}: {action_id}" for action_id in story.done_twice())
    return CrashReport(len(points), result, tuple(differences), tuple(repeated), reference.keys())


def _points(commits: Sequence[int], second_stops: Sequence[int]) -> Iterator[CrashPoint]:
    """Yield every fault at every commit of every process; for the stops, another one while the run recovers."""
    for process, count in enumerate(commits):
        before: CrashPoint = (None,) * process
        for number in range(1, count + 1):
            yield from ((*before, make(number)) for make in FAULTS)
            for first in STOPS:
                for again in second_stops:
                    yield from ((*before, first(number), second(again)) for second in STOPS)


def _acting(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the calls of a run that act and may not be repeated, as requests that another machine has received.

    Not those that wait for a call inside of them: they cannot end.
    """
    replay, begun = run.replay, run.outcomes.begun
    for action_id, effect in begun.items():
        is_acting = effect.has_acted and effect.kind.is_call and not effect.action.may_be_repeated
        waits = any(each.startswith(f"{action_id}/") for each in begun)
        if isinstance(replay, DurableReplay):
            waits = waits or replay.pause_below(action_id) is not None
        if is_acting and not waits:
            yield run.id, action_id


def _has_stopped(state: AgentState) -> bool:
    """Return whether a run has ended, or waits at a limit, which is not raised here."""
    return state.is_terminal or state.reason is AgentStateReason.LIMIT_REACHED


def _described(point: CrashPoint) -> str:
    return " then ".join(str(fault) for fault in point if fault is not None)


@dataclass
class _Story:
    """One run, continued by as many processes as necessary."""

    agent: type[object]
    given: Any
    model: ScriptedModel | None
    world: Sequence[object]
    answers: _Answers
    store: StorePorts
    commits: list[int] = field(default_factory=list[int])

    def __post_init__(self) -> None:
        self._sealer, self._ids = MemorySealer(), SeededIds(0)
        self._rows: list[_RowOf] = []
        self._lost: list[_RowOf] = []
        self._unknown: set[tuple[str, str]] = set()

    async def carry_through(self, point: CrashPoint) -> RunResult:
        for process in range(_MOST_PROCESSES):
            result = await self._one_process(point[process] if process < len(point) else None)
            if result is not None and _has_stopped(result.state):
                for state in await self._states():
                    run = RunKey("default", state.id)
                    self._rows += self._opened(run, [row async for row in self.store.journal.read(run)])
                return result
        raise AssertionError(
            f"{self.agent.__name__} does not come to an end within {_MOST_PROCESSES} processes"
        )

    def keys(self) -> dict[str, str]:
        """Return the key of the first call of each tool."""
        found: dict[str, str] = {}
        for run, row in self._rows:
            if row.kind is AgentActionKind.TOOL_CALL:
                name = row.action_id.rpartition("/tool:")[2].rpartition("#")[0]
                found.setdefault(name, idempotency_key(run, row.action_id))
        return found

    def done_twice(self) -> Iterator[str]:
        """Return the unrepeatable actions with a result in more than one attempt."""
        attempts: dict[tuple[RunKey, str], set[int]] = {}
        for run, row in [*self._rows, *self._lost]:
            if (
                row.stage is JournalStage.AFTER
                and row.idempotency not in MAY_BE_REPEATED
                and _has_result(row)
            ):
                attempts.setdefault((run, row.action_id), set()).add(row.attempt)
        return (action_id for (_, action_id), numbers in attempts.items() if len(numbers) > 1)

    async def _one_process(self, fault: Fault | None) -> RunResult | None:
        journal = FaultyJournal(self.store.journal, fault, before_stop=lambda: self._calls_end(app))
        app = Application("crash matrix").add(self.agent, *self.world, journal, self._ids)
        app.add(self.store.states, self.store.signals, self.store.evidence, self._sealer)
        if self.model is not None:
            app.add(self.model)
        initialize(app)
        try:
            async with with_pods_asked_for(app):
                runs = app.get(AgentRuns)
                runs.services.writer.on_lost = self._lose
                return await self._carry_on(runs)
        except ProcessStopped:
            return None
        finally:
            self.commits.append(journal.commits)
            self.model = self.model and self.model.restarted()

    async def _calls_end(self, app: Application) -> None:
        """Let calls that act come to their ends: their outcomes are what people know of them later."""
        launcher, clock = app.get(AgentRuns).launcher, asyncio.get_running_loop()
        begun = clock.time()
        while True:
            live = filter(None, (launcher.live(key.run_id) for key in list(launcher.live_runs)))
            acting = {each for one in live for each in _acting(one.run)}
            if not acting:
                return
            if clock.time() - begun > self.answers.seconds_to_end:
                self._unknown |= acting
                return
            await asyncio.sleep(0.001)

    def _lose(self, run: RunKey, rows: Sequence[JournalRow]) -> None:
        """Remember rows of a dead process: its calls under way end, and their outcomes reach no store."""
        self._lost += self._opened(run, rows)

    def _opened(self, run: RunKey, rows: Sequence[JournalRow]) -> list[_RowOf]:
        """Return the rows with sealed records opened."""
        return [(run, row) for row in Seals(self._sealer, run).opened_rows(rows)]

    async def _states(self) -> list[AgentState]:
        return [state for status in AgentStatus for state in await self.store.states.list_by_status(status)]

    async def _carry_on(self, runs: AgentRuns) -> RunResult:
        known = [state for state in await self._states() if "parent" not in state.metadata]
        if not known:
            handle = await runs.start(self.agent, self.given)
            return await handle.result()
        if _has_stopped(known[0]):
            return await runs.result(known[0].id)
        await self._answer(runs, known[0].id)
        return await (await runs.resume(known[0].id)).result()

    async def _answer(self, runs: AgentRuns, run_id: str) -> None:
        for request in await runs.questions(run_id):
            pending = await self.store.signals.list_pending(request.agent_state_id)
            if request.id in {str(signal.payload.get("request_id")) for signal in pending}:
                continue
            if isinstance(request, AgentRecoveryRequest) and not request.is_about_unknown:
                result = self.answers.carry_out(request)
                await runs.answer(run_id, request.id, RecoveryDecision.DONE, result=result, resume=False)
            elif isinstance(request, AgentRecoveryRequest):
                await self._answer_unknown_outcome(runs, run_id, request)
            else:
                await runs.answer(run_id, request.id, self.answers.approve(request), resume=False)

    async def _answer_unknown_outcome(
        self, runs: AgentRuns, run_id: str, request: AgentRecoveryRequest
    ) -> None:
        outcome = self._actual_outcome(request.agent_state_id, request)
        decision = RecoveryDecision(str(outcome.pop("decision")))
        if decision is RecoveryDecision.RETRY and request.to_decide:
            inside = {
                each.action_id: self._actual_outcome(request.agent_state_id, each)
                for each in request.to_decide
            }
            done = [each for each, answer in inside.items() if answer["decision"] == RecoveryDecision.DONE]
            outcome["actions"] = {
                each: answer
                for each, answer in inside.items()
                if not any(each.startswith(f"{outer}/") for outer in done)
            }
        await runs.answer(run_id, request.id, decision, resume=False, principal=None, **outcome)

    def _actual_outcome(self, run_id: str, action: AgentRecoveryRequest | OpenAction) -> dict[str, JsonValue]:
        """Return the answer about an attempt: done, with the result that was lost, or retry."""
        attempt = (run_id, action.action_id, action.attempt)
        for run, row in self._lost:
            is_same = (run.run_id, row.action_id, row.attempt) == attempt and _has_result(row)
            if is_same and isinstance(row.record, Mapping):
                return {"decision": RecoveryDecision.DONE.value, "result": row.record["result"]}
        if (run_id, action.action_id) in self._unknown:
            raise AssertionError(
                f"{action.action_id!r} did not end within {self.answers.seconds_to_end:g} seconds after its process "
                "stopped, so nobody can say what it did. Let it take less time, or not wait for other calls of the run."
            )
        return {"decision": RecoveryDecision.RETRY.value}


def _has_result(row: JournalRow) -> bool:
    return row.stage is JournalStage.AFTER and isinstance(row.record, Mapping) and "result" in row.record
