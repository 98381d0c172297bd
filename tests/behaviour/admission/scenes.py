"""One scene for each kind of effect: a run that comes to the effect, with stages that refuse it there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.behaviour.admission import agents
from tests.behaviour.admission.agents import (
    EVENT,
    Acting,
    Child,
    Looping,
    Program,
    ProgramOf,
    SceneModel,
    Tools,
)
from tests.behaviour.admission.stages import (
    Approvals,
    ArmingContextHandler,
    Budget,
    Hooks,
    LateClock,
    Permissions,
    Refusals,
    Stage,
    Switches,
)

from pilotage import (
    Agent,
    AgentExecutionLimits,
    AgentExecutionSpec,
    AgentStatus,
    Application,
    RecoveryStrategy,
    RunResult,
)
from pilotage.agent import (
    AgentApprovalBoundaryKind,
    AgentEvidenceKind,
    AgentRecoveryRequest,
    AgentTeammate,
    ContextTokenBudget,
    JournalRow,
    LimitCode,
    RunKey,
)
from pilotage.context import CompactionStrategy, KeepRecent, SummariseOldTurns
from pilotage.runtime import AgentRuns
from pilotage.testing import Fault, FaultyJournal, MemoryStore, ScriptedModel, StopAfter, calls, says, turn

FULL = ContextTokenBudget(max_tokens=700, reserved_output_tokens=100)


@dataclass(frozen=True)
class Scene:
    """How a run comes to an effect. `carried_out` is the record by which the effect is known to have begun.

    Nobody is asked about a `spared` boundary. A run that dies at a commit comes to the effect in its next process;
    the stages that follow from what a run did before then `cannot_refuse`.
    """

    carried_out: str
    program: Program | None = None
    script: Callable[[str], ScriptedModel] = field(default=lambda _: ScriptedModel([says("Yes.")] * 4))
    arms_at: int = 0
    max_tool_calls: int = 1
    compaction: tuple[CompactionStrategy, ...] = ()
    spared: AgentApprovalBoundaryKind | None = None
    dies_at: int | None = None
    cannot_refuse: tuple[Stage, ...] = ()

    def limits(self, stages: Collection[Stage]) -> AgentExecutionLimits:
        """The limits of the run: all used up before the effect, where the stage of limits refuses."""
        if Stage.LIMITS not in stages:
            return AgentExecutionLimits(timeout_seconds=60)
        max_steps = 1 if self.program is not None else None
        return AgentExecutionLimits(
            timeout_seconds=60, max_steps=max_steps, max_tool_calls=self.max_tool_calls
        )

    def spec(self, limits: AgentExecutionLimits) -> AgentExecutionSpec:
        """The spec of the agent."""
        return AgentExecutionSpec(
            name="acting",
            recovery=RecoveryStrategy.ACTION_BOUNDARY,
            limits=limits,
            accepted_signals=[EVENT],
            untrusted_signals=[],
            delegation_allowed=True,
            teammates=[AgentTeammate("child", pod=Child)],
            context_budget=FULL if self.compaction else None,
            compaction=self.compaction,
        )


@dataclass(frozen=True)
class Stopped:
    """How an effect fared: the stage that refused it, or none."""

    by: Stage | None
    result: RunResult


class Stand:
    """A store, and processes over it with the stages of one scene. Without ports nobody is asked by the gate."""

    def __init__(
        self,
        scene: Scene,
        stages: Collection[Stage],
        *,
        limits: AgentExecutionLimits | None = None,
        has_ports: bool = True,
    ) -> None:
        self.scene = scene
        self.refusals = Refusals(() if scene.dies_at else stages)
        self.store = MemoryStore()
        self.clock = LateClock(self.refusals)
        self.budget = Budget(self.refusals)
        self._has_ports = has_ports
        self._stages = stages
        kind = Acting if scene.program is not None else Looping
        spec = scene.spec(limits or scene.limits(stages))
        self.agent = Agent(spec=spec)(type("Acting", (kind,), {"__doc__": "Act."}))

    @asynccontextmanager
    async def process(self, fault: Fault | None = None) -> AsyncGenerator[AgentRuns, None]:
        """One process with all stages as ports of its application."""
        refusals, store, scene = self.refusals, self.store, self.scene
        key = "account" if Stage.TRUST in self._stages else "look"
        app = Application("scene").add(self.agent, Child, Tools, refusals, self.clock)
        app.add(SceneModel(refusals, scene.script(key), scene.arms_at), ArmingContextHandler(refusals))
        if self._has_ports:
            app.add(Switches(refusals), Permissions(refusals), Hooks(refusals), self.budget)
            app.add(Approvals(refusals, scene.spared))
        app.add(FaultyJournal(store.journal, fault), store.states, store.signals, store.evidence)
        app.add(store.conversations, store.sealer)
        if scene.program is not None:
            app.add(ProgramOf(scene.program))
        async with app.load_plugins(include=["runtime"]) as running:
            refusals.runs = running.get(AgentRuns)
            yield refusals.runs

    async def attempt(self) -> Stopped:
        """Let a run come to the effect."""
        if self.scene.dies_at is not None:
            return await self._attempt_again(self.scene.dies_at)
        async with self.process() as runs:
            result = await (await runs.start(self.agent, "go")).result()
            return await self._stopped(runs, result)

    async def _attempt_again(self, dies_at: int) -> Stopped:
        """Let a process die behind a commit; the stages refuse in the next one."""
        async with self.process(StopAfter(dies_at)) as runs:
            handle = await runs.start(self.agent, "go")
            (death,) = await asyncio.gather(handle.result(), return_exceptions=True)
            assert isinstance(death, BaseException), "the process did not reach its fault"
        self.refusals.begin_anew(self._stages)
        async with self.process() as runs:
            result = await (await runs.resume(handle.id)).result()
            return await self._stopped(runs, result)

    async def _stopped(self, runs: AgentRuns, result: RunResult) -> Stopped:
        rows = [row async for row in self.store.journal.read(RunKey("default", result.state.id))]
        if await self._has_begun(runs, result):
            return Stopped(None, result)
        return Stopped(refusing_stage(self.refusals, result, rows), result)

    async def _has_begun(self, runs: AgentRuns, result: RunResult) -> bool:
        run_id = result.state.id
        match self.scene.carried_out:
            case "answer":
                return result.status is AgentStatus.COMPLETED
            case "question":
                return any(isinstance(each, AgentRecoveryRequest) for each in await runs.questions(run_id))
            case "context":
                kinds = [each.kind for each in await runs.evidence(run_id)]
                return AgentEvidenceKind.CONTEXT_DIGEST in kinds
            case name:
                return name in self.refusals.carried_out


def refusing_stage(refusals: Refusals, result: RunResult, rows: list[JournalRow]) -> Stage:
    """The stage that stopped a run: a port has recorded it, the others are known by how the run ended."""
    denied = [str(row.record) for row in rows if "is not allowed" in str(row.record)]
    if denied and "communicates outward" in denied[0]:
        return Stage.TRUST
    if refusals.refused:
        return refusals.refused[0]
    if result.error is None:
        return Stage.ALIVE
    ends = {
        LimitCode.TIMEOUT.value: Stage.DEADLINE,
        LimitCode.MAX_STEPS.value: Stage.LIMITS,
        LimitCode.MAX_TOOL_CALLS.value: Stage.LIMITS,
    }
    return ends[str(result.error["code"])]


def _calls(*names: str) -> Callable[[str], ScriptedModel]:
    """A model that reads first and then calls tools in one reply."""

    def script(first: str) -> ScriptedModel:
        arguments = {"ask_child": {"task": "help"}}
        reply = turn(*(calls(name, dict(arguments.get(name, {}))) for name in names))
        return ScriptedModel([calls(first), reply, says("Done.")])

    return script


_HISTORY = (Stage.TRUST, Stage.LIMITS)
_CONTEXT = AgentApprovalBoundaryKind.CONTEXT_TRANSFORMATION
_SUMMARY = (SummariseOldTurns(1, 200),)

SCENES: dict[str, Scene] = {
    "tool call of a model": Scene("send", script=_calls("send"), arms_at=2),
    "tool calls of one reply": Scene("send", script=_calls("send", "repeat"), arms_at=2, max_tool_calls=2),
    "teammate asked by a model": Scene("child", script=_calls("ask_child"), arms_at=2),
    "tool call of a program": Scene("send", agents.calls_a_tool),
    "step": Scene("step", agents.takes_a_step),
    "child run": Scene("child", agents.runs_a_child),
    "value": Scene("value", agents.draws_a_value),
    "signal taken in": Scene("signal", agents.waits_for_a_signal),
    "model call": Scene("model", agents.asks_the_model),
    "streamed model call": Scene("model", agents.reads_a_stream),
    "summary": Scene("request 2", agents.shows_a_long_context, compaction=_SUMMARY, spared=_CONTEXT),
    "context change": Scene("context", agents.shows_a_long_context, compaction=(KeepRecent(1),)),
    "publication": Scene("answer", agents.gives_an_answer),
    "question about an unknown outcome": Scene("question", agents.loses_an_outcome, cannot_refuse=_HISTORY),
    "repetition after a crash": Scene("repeat", agents.may_repeat, dies_at=2, cannot_refuse=_HISTORY),
    "question after a crash": Scene("question", agents.may_not_repeat, dies_at=2, cannot_refuse=_HISTORY),
}
