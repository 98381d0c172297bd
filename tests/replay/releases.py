"""The form of a changed release: what the next release changed, and the verdict for every place of a pause.

A run is begun by one release and paused before one of its actions, or where it waits for a signal or the time. Then the
next release takes it up. What becomes of it is written beside each change beforehand, one verdict for each place. In
every case no effect is done twice; a run that diverged or was refused has done nothing more, and the release that began
it takes it to the end of its undisturbed run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, TypeVar

from pilotage import (
    Agent,
    AgentExecutionSpec,
    Application,
    ApprovalDecision,
    IAgentModel,
    Pod,
    RecoveryStrategy,
)
from pilotage.agent.run_values import RunResult
from pilotage.agent.signals import AgentSignalKind
from pilotage.agent.state import AgentStateReason, AgentStatus
from pilotage.errors import PilotageError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.runtime.quick import with_pods_asked_for
from pilotage.testing import MemorySealer, MemoryStore, ScriptedModel, SeededIds, VirtualClock, says
from pilotage.testing.script import ScriptEntry
from tests.replay.kit import Process, Shop, World
from tests.replay.story import Asks

DURABLE = RecoveryStrategy.ACTION_BOUNDARY
MOST_PROCESSES = 12
_WAITS = {AgentStateReason.APPROVAL_REQUIRED, AgentStateReason.USER_INTERRUPTED}
"""The reasons of a run that waits for an answer, a signal or the time."""
WAIT = "wait"
"""The place where a run waits for a signal or for the time."""

T = TypeVar("T")
Body: TypeAlias = Callable[[Any, IAgentModel], Awaitable[object]]


@dataclass(frozen=True)
class Release:
    """One release of an application: its agents, of which the first one is run, and everything else in it."""

    agents: tuple[type[object], ...]
    pods: tuple[object, ...] = ()
    replies: tuple[ScriptEntry, ...] = (says("hello"),)
    signals: tuple[tuple[AgentSignalKind, JsonObject], ...] = ()
    """What is sent to a run that waits for something other than an answer."""
    given: tuple[object, ...] = ()
    """The input of the run."""


def next_shop(shop: type[T]) -> type[T]:
    """Make a class the shop of a later release: it has the name and module that the shop had before."""
    shop.__module__, shop.__qualname__ = Shop.__module__, Shop.__qualname__
    return Pod(shop)


def written(body: Body, shop: type[Any] = Shop, *pods: object, **given: Any) -> Release:
    """Return a release with an agent that runs a program over a shop; `given`: parts of its spec or of the release."""
    of_release = {name: given.pop(name) for name in ("replies", "signals") if name in given}

    @Agent(name="clerk", spec=AgentExecutionSpec(**{"name": "clerk", "recovery": DURABLE, **given}))
    class Clerk:
        """Runs a program."""

        def __init__(self, model: IAgentModel, process: Process) -> None:
            self.model, self.process = model, process

        async def execute(self) -> str:
            return f"{await body(shop(self.process), self.model)}"

    return Release((Clerk,), (shop, *pods), **of_release)


@dataclass(frozen=True)
class GoesOn:
    """The run completes with this output; `effects` are those of the whole run, `asks` what a person was asked."""

    output: str
    effects: str
    asks: str = ""

    def asking(self, call: str) -> GoesOn:
        """Return the same verdict of a run that asks a person about a call, anew or for the first time."""
        return replace(self, asks=call)

    def __str__(self) -> str:
        asks = f", asks about {self.asks}" if self.asks else ""
        return f"goes on: {self.output!r} with [{self.effects}]{asks}"


@dataclass(frozen=True)
class Diverges:
    """The run diverges at this action, before any effect."""

    at: str

    def __str__(self) -> str:
        return f"diverges at {self.at}"


@dataclass(frozen=True)
class Refused:
    """The release is not started, or does not take the run up; the error says these words."""

    words: str

    def __str__(self) -> str:
        return f"refused: {self.words}"


@dataclass(frozen=True)
class Fails:
    """The run fails, or stops at a limit, with an error that says these words, having done these effects."""

    words: str
    effects: str

    def __str__(self) -> str:
        return f"fails: {self.words} with [{self.effects}]"


Verdict: TypeAlias = GoesOn | Diverges | Refused | Fails


@dataclass(frozen=True)
class Change:
    """What a release changed, with a verdict for each place at which a run of the release before may be paused."""

    name: str
    before: Release
    after: Release
    verdicts: tuple[Verdict, ...]


CHANGES: dict[str, Change] = {}


def change(name: str, before: Release, after: Release, *verdicts: Verdict) -> None:
    """Add a change to the table; the verdicts are in the order in which the undisturbed run comes to its places."""
    if name in CHANGES:
        raise ValueError(f"two changes are called {name!r}")
    CHANGES[name] = Change(name, before, after, verdicts)


@dataclass
class Life:
    """One run over all its processes."""

    place: str | None = None
    world: World = field(default_factory=World)
    places: list[str] = field(default_factory=list)
    """The places at which the run could be paused, in their order."""
    asked: list[str] = field(default_factory=list)
    """The actions about which the release that is watched has asked a person."""

    def __post_init__(self) -> None:
        self.clock = VirtualClock()
        self.store, self.sealer, self.ids = MemoryStore(self.clock), MemorySealer(b"key"), SeededIds(0)
        self.model: ScriptedModel | None = None
        self.run_id = ""
        self.open: set[str] = set()
        """The questions that were open when the run was paused at its place."""
        self.sent = 0

    def until(self, release: Release, place: str | None) -> RunResult:
        """Carry the run on with a release until it is paused at a place, has diverged or has ended."""
        for _ in range(MOST_PROCESSES):
            result, waits = asyncio.run(self._process(release))
            self.places += [each for each in dict.fromkeys(waits) if each not in self.places]
            if _is_over(result) or (place is not None and place in waits):
                return result
        raise AssertionError(f"the run does not end: {result.state}")

    async def _process(self, release: Release) -> tuple[RunResult, list[str]]:
        process, handler = Process(self.world), Asks(self.place)
        app = Application("release").add(*release.agents, *release.pods, process, self.ids, self.clock)
        app.add(self.store.journal, self.store.states, self.store.signals, self.store.evidence, self.sealer)
        app.add(self._model(release), handler)
        initialize(app)
        try:
            async with asyncio.timeout(120), with_pods_asked_for(app):
                return await self._carry_on(app.get(AgentRuns), release, handler)
        finally:
            process.is_dead = True

    def _model(self, release: Release) -> ScriptedModel:
        self.model = (
            self.model.restarted() if self.model is not None else ScriptedModel(list(release.replies))
        )
        return self.model

    async def _carry_on(
        self, runs: AgentRuns, release: Release, handler: Asks
    ) -> tuple[RunResult, list[str]]:
        if not self.run_id:
            handle = await runs.start(release.agents[0], *release.given)
            self.run_id = handle.id
        else:
            await self._answer(runs, release)
            handle = await runs.resume(self.run_id)
        result = await handle.result()
        if _is_over(result):
            return result, handler.seen
        questions = await runs.questions(self.run_id)
        self.open = self.open or {question.id for question in questions if self.place in handler.seen}
        return result, handler.seen if questions else [*handler.seen, WAIT]

    async def _answer(self, runs: AgentRuns, release: Release) -> None:
        """Give the run what it waits for: answers, else the next signal, else time."""
        questions = await runs.questions(self.run_id)
        for question in questions:
            if question.id not in self.open:
                self.asked.append(str(getattr(question, "call_id", question.id)))
            await runs.answer(self.run_id, question.id, ApprovalDecision.APPROVE, resume=False)
        if questions:
            return
        if self.sent < len(release.signals):
            kind, payload = release.signals[self.sent]
            self.sent += 1
            await runs.signal(self.run_id, kind, payload)
        else:
            self.clock.advance(86_400)


def _has_diverged(result: RunResult) -> bool:
    is_interrupted = result.status is AgentStatus.INTERRUPTED and result.state.reason not in _WAITS
    return is_interrupted and "divergence" in result.state.metadata


def _is_over(result: RunResult) -> bool:
    is_at_limit = result.state.reason is AgentStateReason.LIMIT_REACHED
    return result.state.is_terminal or is_at_limit or _has_diverged(result)


def places_of(release: Release) -> tuple[Life, RunResult]:
    """Return the undisturbed run of a release, with the places at which it could be paused."""
    life = Life()
    return life, life.until(release, None)


def verdict_at(change: Change, place: str) -> Verdict:
    """Pause a run of the release before at a place, take it up with the next release, and say what becomes of it."""
    life = Life(place)
    paused = life.until(change.before, place)
    assert paused.status is AgentStatus.INTERRUPTED, f"not paused at {place}: {paused}"
    done = Counter(life.world.done)
    life.asked.clear()
    verdict = _carried_on(life, change.after)
    twice = {what: count for what, count in life.world.done.items() if count > 1}
    assert not twice, f"done twice: {twice}"
    if isinstance(verdict, Diverges | Refused):
        assert life.world.done == done, f"an effect of a run that is {verdict}"
        _require_the_way_back(change, life)
    return verdict


def _carried_on(life: Life, release: Release) -> Verdict:
    try:
        result = life.until(release, None)
    except PilotageError as error:
        return Refused(str(error))
    if _has_diverged(result):
        divergence = result.state.metadata["divergence"]
        assert isinstance(divergence, dict)
        return Diverges(str(divergence["action"]))
    effects = ", ".join(life.world.done)
    if result.status is not AgentStatus.COMPLETED:
        return Fails(f"{result.status} {result.error}", effects)
    return GoesOn(str(result.output), effects, ", ".join(life.asked))


def _require_the_way_back(change: Change, life: Life) -> None:
    """Check that the release that began a run takes it to its end after the next one could not."""
    reference, expected = places_of(change.before)
    result = life.until(change.before, None)
    assert (result.status, result.output) == (expected.status, expected.output), result
    assert life.world.done == reference.world.done


def is_as_written(found: Verdict, wanted: Verdict) -> bool:
    """Return whether what became of a run is what the change says; of errors it says some words only."""
    match found, wanted:
        case Refused(words), Refused(some):
            return some in words
        case Fails(words, effects), Fails(some, wanted_effects):
            return some in words and effects == wanted_effects
        case _:
            return found == wanted


def differences(change: Change) -> list[str]:
    """Try a change at every place, and return where it does not end as it should."""
    life, _ = places_of(change.before)
    if len(life.places) != len(change.verdicts):
        return [f"{len(change.verdicts)} verdicts for the places {life.places}"]
    tried: Sequence[tuple[str, Verdict, Verdict]] = [
        (place, verdict_at(change, place), wanted)
        for place, wanted in zip(life.places, change.verdicts, strict=True)
    ]
    return [
        f"paused at {place}: {found}; should be: {wanted}"
        for place, found, wanted in tried
        if not is_as_written(found, wanted)
    ]
