"""One run of a program, carried on by as many processes as it takes, and what became of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random

from pilotage import Application, ApprovalDecision, RunContext, RunHandle
from pilotage.agent.approval import AgentApprovalRequest
from pilotage.agent.ports.handlers import ApprovalSubject, IAgentApprovalHandler, IAgentRecoveryHandler
from pilotage.agent.ports.journal import CommitOutcome, IAgentJournal, JournalCommit
from pilotage.agent.ports.persistence import JournalStage, RunKey
from pilotage.agent.recovery import AgentResumeBoundary
from pilotage.agent.recovery_request import (
    AgentRecoveryRequest,
    RecoveryAnswer,
    RecoveryDecision,
    RecoveryDone,
    RecoveryRetried,
)
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState, AgentStatus
from pilotage.agent.tools.metadata import ToolRisk
from pilotage.jsonvalue import JsonValue, object_or_empty
from pilotage.runtime import AgentRuns
from pilotage.runtime.journal.scope import idempotency_key
from pilotage.runtime.plugin import initialize
from pilotage.runtime.quick import with_pods_asked_for
from pilotage.testing import (
    Fault,
    FaultyJournal,
    MemorySealer,
    MemoryStore,
    ProcessStopped,
    ScriptedModel,
    SeededIds,
    StopAfter,
    StopBefore,
    says,
)
from tests.replay.kit import Process, Program, Recovery, Shop, World

MOST_PROCESSES = 14
SECONDS = 4.0
"""The seconds after which a process that has next to nothing to do hangs; one that computes has as many again."""
LEAST_WORK = 0.15
"""The seconds of computing within `SECONDS` that a machine has left over for a process even if it is very busy."""
MOST_PERIODS = 15
MOST_HANGS = 2
PATIENCE = 0.4
"""The seconds after which people answer the questions of a run that goes on beside them."""
DYING = 0.2
"""The seconds that the code of a dead process is left to end by itself."""
_ENDS = {"divergence", "damage"}
"""What the state of a run says that cannot go on."""


class Verdict(Enum):
    """What became of one run, from good to bad."""

    COMPLETES = "completes"
    DIVERGES = "diverges"
    DAMAGED = "damaged"
    """Its record was found to be damaged, and it was interrupted."""
    ASKS = "asks"
    """A question about an unknown outcome that no crash has caused, or one after the other about the same crash."""
    ELSEWHERE = "diverges elsewhere"
    """It diverged at another action than those that are written beside it."""
    STUCK = "stuck"
    FAILS = "fails"
    WRONG = "wrong"
    """It completed with another output, or with an effect that the uninterrupted run does not have."""
    TWICE = "twice"


@dataclass(frozen=True)
class Place:
    """Where a run is disturbed: a pause before an action, a death at a commit or behind an effect."""

    pause: str | None = None
    fault: Fault | None = None
    effect: int | None = None
    lost: str | None = None
    """The action from which on the store loses all rows while the run is paused."""
    fault_in: int = 0
    """The process that has the fault: 1 is the one that goes on after the pause."""

    def __str__(self) -> str:
        words = [f"pause at {self.pause}" if self.pause else "", str(self.fault or "")]
        words.append(f"death behind effect {self.effect}" if self.effect else "")
        return " ".join(filter(None, words)) or "nothing"


class Asks(IAgentApprovalHandler):
    """Wants a question before one action, and notes the actions it is asked about."""

    def __init__(self, at: str | None) -> None:
        self.at = at
        self.seen: list[str] = []

    async def request_for(self, context: RunContext, subject: ApprovalSubject) -> AgentApprovalRequest | None:
        self.seen.append(subject.action_ref)
        if subject.action_ref != self.at:
            return None
        return AgentApprovalRequest("id", "run", subject.boundary, "May it?", ToolRisk(), subject.action_ref)


class Tells(IAgentRecoveryHandler):
    """Knows what took effect: an action did, with its result, or it is tried again."""

    def __init__(self, story: Story) -> None:
        self._story = story

    async def decide(self, context: RunContext, boundary: AgentResumeBoundary) -> RecoveryAnswer | None:
        story = self._story
        story.handled += 1
        if story.program.recovery is Recovery.ALTERNATES and story.handled % 2:
            return None
        result = story.truth_about(context.run_id or "", boundary.action_id)
        if result is None:
            return RecoveryRetried("handled", boundary.action_id, 1)
        return RecoveryDone("handled", boundary.action_id, result)


@dataclass
class Story:
    """One run of a program."""

    program: Program
    place: Place = field(default_factory=Place)
    has_handler: bool = False
    world: World = field(default_factory=World)
    commits: list[int] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """The actions before which the run could be paused."""
    handled: int = 0
    """How often the application's recovery handler was asked."""
    rounds: int = 0
    """How often the run stopped to ask people about unknown outcomes."""
    hangs: int = 0
    """The number of processes that did not come to a result in time."""
    broken: int = 0
    """The number of processes that ended with an error, although nothing disturbed them."""
    note: str = ""

    def __post_init__(self) -> None:
        self.store, self.sealer, self.ids = MemoryStore(), MemorySealer(), SeededIds(0)
        self.agent = self.program.agent()
        self.world.dies_at = self.place.effect
        self.model = ScriptedModel([says(text) for text in self.program.replies or ("hello",)])
        self.lost: dict[str, JsonValue] = {}

    def tell(self) -> RunResult | None:
        """Carry the run on until it ends; None if it does not."""
        for number in range(MOST_PROCESSES):
            result = asyncio.run(self._process(self.place.fault if number == self.place.fault_in else None))
            if result is not None and (result.state.is_terminal or _ENDS & result.state.metadata.keys()):
                return result
            if self.place.lost is not None and not number:
                self._lose(self.place.lost)
            if self.hangs >= MOST_HANGS:
                return None
        return None

    def _lose(self, action: str) -> None:
        """Remove the rows of an action and all later ones from the store; it still has its head."""
        (state,) = asyncio.run(self._states())
        journal = self.store.tables.journals.find(state.tenant_id, state.id)
        if journal is None:
            raise AssertionError("a run has a journal")
        del journal.rows[[row.columns[1] for row in journal.rows].index(action) :]

    async def _process(self, fault: Fault | None) -> RunResult | None:
        process = Process(self.world)
        journal = _MortalJournal(process, self.store.journal, fault)
        handler = Asks(self.place.pause)
        app = Application("replay").add(self.agent, Shop, process, journal, self.ids)
        app.add(self.store.states, self.store.signals, self.store.evidence, self.sealer)
        app.add(self.model)
        if self.has_handler:
            app.add(handler)
        if self.program.recovery is not None:
            app.add(Tells(self))
        initialize(app)
        try:
            async with _while_it_works(), with_pods_asked_for(app):
                result = await _until_death(self._carry_on(app.get(AgentRuns)), process)
        except BaseException as end:  # noqa: BLE001 - a dead process ends in many ways
            self.note = repr(end)
            self.hangs += isinstance(end, TimeoutError)
            self.broken += not (process.has_died or _is_dead(journal))
            result = None
        finally:
            self._bury(process, journal)
        self.asked += handler.seen
        if result is not None:
            self.note = f"{result.status} {result.state.current_activity or ''}"
        return None if process.has_died or _is_dead(journal) else result

    def _bury(self, process: Process, journal: FaultyJournal) -> None:
        process.is_dead = True
        self.model = self.model.restarted()
        self.commits.append(journal.commits)
        for commit in journal.lost:
            for row in commit.rows:
                if (
                    row.stage is JournalStage.AFTER
                    and isinstance(row.record, dict)
                    and "result" in row.record
                ):
                    self.lost[row.action_id] = row.record["result"]

    async def _states(self) -> list[AgentState]:
        return [state for status in AgentStatus for state in await self.store.states.list_by_status(status)]

    async def _carry_on(self, runs: AgentRuns) -> RunResult:
        known = await self._states()
        if not known:
            return await self._until_it_stops(runs, await runs.start(self.agent))
        run = known[0].id
        if known[0].is_terminal:
            return await runs.result(run)
        await self._answer(runs, run)
        return await self._until_it_stops(runs, await runs.resume(run))

    async def _until_it_stops(self, runs: AgentRuns, handle: RunHandle) -> RunResult:
        """Return the result of one attempt; a program that goes on beside its questions is answered meanwhile."""
        stopping = asyncio.ensure_future(handle.result())
        while not (await asyncio.wait([stopping], timeout=PATIENCE))[0]:
            await self._answer(runs, handle.id)
        return await stopping

    async def _answer(self, runs: AgentRuns, run: str) -> None:
        has_asked = False
        for request in await runs.questions(run):
            pending = await self.store.signals.list_pending(run)
            if request.id in {str(signal.payload.get("request_id")) for signal in pending}:
                continue
            if isinstance(request, AgentRecoveryRequest):
                has_asked = True
                await self._tell_the_truth(runs, run, request)
            else:
                await runs.answer(run, request.id, ApprovalDecision.APPROVE, resume=False)
        self.rounds += has_asked

    async def _tell_the_truth(self, runs: AgentRuns, run: str, request: AgentRecoveryRequest) -> None:
        result = self.truth_about(run, request.action_id)
        if result is not None:
            await runs.answer(run, request.id, RecoveryDecision.DONE, result=result, resume=False)
            return
        actions: dict[str, JsonValue] = {}
        for each in request.to_decide:
            if any(
                each.action_id.startswith(f"{outer}/") for outer in actions if "result" in str(actions[outer])
            ):
                continue
            result = self.truth_about(run, each.action_id)
            done: JsonValue = {"decision": "done", "result": result}
            actions[each.action_id] = {"decision": "retry"} if result is None else done
        await runs.answer(run, request.id, RecoveryDecision.RETRY, resume=False, actions=actions)

    def truth_about(self, run: str, action_id: str) -> JsonValue:
        """Return the result of an action that took effect; None if it did not."""
        key = idempotency_key(RunKey("default", run), action_id)
        name = action_id.rpartition("/")[2]
        return self.lost.get(action_id, self.world.by_key.get(key, self.world.by_key.get(name)))


class _MortalJournal(FaultyJournal):
    """The journal as a process reaches it: a dead one writes nothing, whatever its code does behind its death."""

    def __init__(self, process: Process, journal: IAgentJournal, fault: Fault | None) -> None:
        super().__init__(journal, fault)
        self._process = process

    async def commit(self, commits: Sequence[JournalCommit]) -> Sequence[CommitOutcome]:
        self._process.require_life()
        try:
            return await super().commit(commits)
        except ProcessStopped:
            self._process.die()
            raise


@asynccontextmanager
async def _while_it_works() -> AsyncGenerator[None, None]:
    """A time limit that counts from anew while the process computes: on a busy machine it is slow and does not hang."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(SECONDS) as limit:

        def look(worked: float, periods: int) -> None:
            now = time.thread_time()
            if now - worked >= LEAST_WORK and periods < MOST_PERIODS:
                limit.reschedule(loop.time() + SECONDS)
                timers.append(loop.call_later(SECONDS * 0.99, look, now, periods + 1))

        timers = [loop.call_later(SECONDS * 0.99, look, time.thread_time(), 1)]
        try:
            yield
        finally:
            timers[-1].cancel()


async def _until_death(carrying: Coroutine[object, object, RunResult], process: Process) -> RunResult:
    """Return the result of a process, unless it dies: then nothing is waited for that its dead tasks would bring."""
    work = asyncio.ensure_future(carrying)
    death = asyncio.ensure_future(process.death.wait())
    await asyncio.wait([work, death], return_when=asyncio.FIRST_COMPLETED)
    death.cancel()
    if not work.done():
        await asyncio.wait([work], timeout=DYING)
        work.cancel()
    return await work


def _is_dead(journal: FaultyJournal) -> bool:
    """Return whether the process of this journal died by its fault."""
    return journal._is_stopped


@dataclass
class Tried:
    """What became of a program: how often each verdict, and the first place of each."""

    program: Program
    counts: dict[Verdict, int] = field(default_factory=dict)
    places: dict[Verdict, str] = field(default_factory=dict)

    def add(self, verdict: Verdict, place: str) -> None:
        self.counts[verdict] = self.counts.get(verdict, 0) + 1
        self.places.setdefault(verdict, place)

    @property
    def worst(self) -> Verdict:
        return max(self.counts, key=list(Verdict).index)

    @property
    def is_as_it_should(self) -> bool:
        allowed = (
            {Verdict.COMPLETES} if self.program.is_deterministic else {Verdict.COMPLETES, Verdict.DIVERGES}
        )
        return set(self.counts) <= allowed


def try_everywhere(
    program: Program,
    *,
    with_deaths: bool = True,
    with_pairs: bool = False,
    is_sample: bool = False,
    until: Verdict | None = None,
) -> Tried:
    """Run a program undisturbed, then once for every place at which it can be disturbed.

    With pairs, also for a death at every commit of the process that goes on after each pause. A sample has every pause,
    and half of the deaths at commits. It ends at the first verdict that is like `until`.
    """
    tried = Tried(program)
    reference = Story(program)
    expected = reference.tell()
    if expected is None or expected.status is not AgentStatus.COMPLETED or reference.broken:
        tried.add(
            Verdict.STUCK if expected is None else Verdict.FAILS, f"undisturbed: {reference.note} {expected}"
        )
        return tried
    draw = Random(program.name)  # noqa: S311 - a repeatable draw
    for place, has_handler in _places(program, reference):
        if is_sample and place.fault is not None and draw.random() < 0.5:
            continue
        if not (with_deaths or has_handler):
            break
        story = Story(program, place, has_handler)
        verdict = _verdict(story, story.tell(), reference, expected)
        tried.add(verdict, f"{place} {story.note}")
        if verdict is until:
            return tried
        if with_pairs and place.pause and len(story.commits) > 1:
            for number in range(1, story.commits[1] + 1):
                pair = replace(place, fault=StopAfter(number), fault_in=1)
                second = Story(program, pair, has_handler)
                verdict = _verdict(second, second.tell(), reference, expected)
                tried.add(verdict, f"{pair} {second.note}")
    return tried


def try_losing(program: Program, pause: str, lost: str) -> Verdict:
    """Pause a run before an action, lose its rows from another one on, and return what becomes of the run."""
    reference = Story(program)
    expected = reference.tell()
    if expected is None:
        raise AssertionError(f"{program.name} does not end: {reference.note}")
    story = Story(program, Place(pause=pause, lost=lost), has_handler=True)
    return _verdict(story, story.tell(), reference, expected)


def _places(program: Program, reference: Story) -> Iterator[tuple[Place, bool]]:
    watched = Story(program, has_handler=True)
    watched.tell()
    for action in dict.fromkeys(watched.asked):
        yield Place(pause=action), True
    # With a recovery handler later processes go on by themselves; elsewhere a person has resumed the run.
    processes = len(reference.commits) if program.recovery is not None else 1
    for process, commits in enumerate(reference.commits[:processes]):
        for number in range(1, commits + 1):
            yield Place(fault=StopBefore(number), fault_in=process), False
            yield Place(fault=StopAfter(number), fault_in=process), False
    for number in range(1, reference.world.calls + 1):
        yield Place(effect=number), False


def _verdict(story: Story, result: RunResult | None, reference: Story, expected: RunResult) -> Verdict:
    done, wanted = story.world.done, reference.world.done
    at_most = story.program.at_most or sum(wanted.values())
    if any(count > max(1, wanted[what]) for what, count in done.items()) or sum(done.values()) > at_most:
        story.note = f"{dict(done)} instead of {dict(wanted)}"
        return Verdict.TWICE
    if result is None:
        return Verdict.STUCK
    if "damage" in result.state.metadata:
        return Verdict.DAMAGED
    if "divergence" in result.state.metadata:
        divergence = result.state.metadata["divergence"]
        story.note = str(divergence)
        may_diverge = story.program.may_diverge
        return (
            Verdict.ELSEWHERE
            if may_diverge and _diverged_at(divergence) not in may_diverge
            else Verdict.DIVERGES
        )
    if result.status is not expected.status or story.broken:
        story.note = f"{result.status} {result.error} {story.note}"
        return Verdict.FAILS
    return _verdict_about_output(story, result, reference, expected)


def _diverged_at(divergence: JsonValue) -> str:
    """Return the recorded action at which a run diverged, or the one it asked for where none is recorded."""
    facts = object_or_empty(divergence)
    place = object_or_empty(facts.get("recorded")) or facts
    return str(place["action"]).removesuffix("/approval").rpartition("/")[2]


def _verdict_about_output(story: Story, result: RunResult, reference: Story, expected: RunResult) -> Verdict:
    program, done, wanted = story.program, story.world.done, reference.world.done
    if sum(done.values()) < program.at_least:
        story.note = f"only {dict(done)}"
        return Verdict.WRONG
    if not program.is_deterministic or program.depends_on_time:
        return Verdict.COMPLETES
    if done != wanted or result.output != expected.output:
        story.note = f"{dict(done)} instead of {dict(wanted)}; {result.output!r}"
        return Verdict.WRONG
    return Verdict.ASKS if story.rounds > _rounds_allowed(story) else Verdict.COMPLETES


def _rounds_allowed(story: Story) -> int:
    """Return how often a run may stop to ask about unknown outcomes: once for each crash, if nobody else knows."""
    if story.program.recovery is Recovery.ALTERNATES:
        return story.handled
    is_told = story.program.recovery is Recovery.TELLS
    return 0 if is_told else (story.place.fault is not None) + (story.place.effect is not None)
