"""What the loops cost beside what they do: ReAct against the same loop written out, and coming back behind folds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from functools import partial
from itertools import count
from time import perf_counter

from benchmarks.agents import Asking, Blocking, Declared, Kept
from benchmarks.timing import FULL, Effort, Measure, medians, repeated

from pilotage import (
    Agent,
    AgentEvent,
    AgentExecutionSpec,
    Application,
    ModelMessage,
    ModelRequest,
    RecoveryStrategy,
    RunAgentInput,
    ToolEffects,
    agent_tool,
)
from pilotage.agent import (
    AgentSession,
    Dependencies,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallResultEvent,
)
from pilotage.agent.model_stream import ModelEventProjector
from pilotage.agent.ports.architecture import AgentRef
from pilotage.runtime import AgentRuns
from pilotage.runtime.plugin import initialize
from pilotage.runtime.runner import AgentRunner
from pilotage.testing import MemoryStore

BRANCHES = 100
_names = map(str, count(1))


class Direct:
    """ReAct without its seams: the same calls and events, written out for replies that are never cut or wrong."""

    name, version = "direct", 1

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        session.messages.append(ModelMessage.user(prompt))
        lead, by = ModelMessage.system(session.instructions), deps.attribution
        while True:
            step, message_id = f"model-{session.turns + 1}", deps.next_message_id()
            yield StepStartedEvent(by, step)
            projector = ModelEventProjector(by, message_id, f"{message_id}:reasoning", {})
            request = ModelRequest((lead, *session.messages), tool_calling=deps.tools.calling)
            reply = None
            async for event in deps.model.stream(request):
                for shown in projector.project(event):
                    yield shown
                reply = event.response or reply
            assert reply is not None
            session.turns += 1
            yield StepFinishedEvent(by, step)
            session.messages.append(ModelMessage.assistant(reply.content, reply.tool_calls))
            if not reply.tool_calls:
                session.output = reply.content
                return
            for outcome in await deps.tools.call_all(reply.tool_calls):
                session.messages.append(outcome.message)
                call = outcome.call
                yield ToolCallResultEvent(by, call.call_id or "", call.name, message_id, outcome.result)


@Agent(spec=AgentExecutionSpec(architecture=Direct()))
class Straight:
    """Look things up, then answer."""

    @agent_tool(effects=ToolEffects.read_only())
    async def look_up(self, page: int) -> str:
        """Look a page up."""
        return ""


class Broad:
    """Many calls of the model in branches that are folded, or in children; then one more call."""

    name, version = "broad", 1

    def __init__(self, calls: int, *, in_children: bool) -> None:
        self._calls, self._in_children = calls, in_children
        self.began_at = 0.0

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        self.began_at = perf_counter()
        branch = partial(self._child if self._in_children else self._asked, deps)
        await deps.runtime.gather("many", [branch] * BRANCHES)
        yield deps.progress("broad.done")
        await deps.model.complete(_question(0))

    def declared_workers(self) -> Mapping[str, AgentRef]:
        return {"kept": Kept} if self._in_children else {}

    async def _asked(self, deps: Dependencies) -> int:
        for _ in range(self._calls):
            await deps.model.complete(_question(1))
        return self._calls

    async def _child(self, deps: Dependencies) -> str:
        # The child asks for a page so often, and answers.
        return str(await deps.runtime.spawn_child("kept", Kept, str(self._calls - 1)))


def _question(pages: int) -> ModelRequest:
    return ModelRequest([ModelMessage.system("Look things up."), ModelMessage.user(str(pages))])


class Patient(Blocking):
    """Blocks only in the last call of the run itself, not in its children."""

    async def stream(self, request: ModelRequest) -> AsyncIterator[object]:  # type: ignore[override]
        if request.messages[1].text == "0":
            async for event in super().stream(request):
                yield event
        else:
            async for event in Asking.stream(self, request):
                yield event


def measure(effort: Effort = FULL) -> dict[str, float]:
    """The ratio of ReAct to the direct loop; times to come back behind 3,000 model calls."""
    return asyncio.run(_measure(effort))


async def _measure(effort: Effort) -> dict[str, float]:
    calls = 30 if effort is FULL else 2
    return {
        **await _loops(effort),
        **await _coming_back("branches", calls, effort, in_children=False),
        **await _coming_back("children", calls, effort, in_children=True),
    }


async def _loops(effort: Effort) -> dict[str, float]:
    app = Application("loops").add(Declared, Straight, Asking())
    initialize(app)
    async with app:
        turns = effort.turns[-1]
        found = await medians(
            {
                "react": repeated(partial(_events, app.get(Declared), turns), effort.times(4)),
                "direct": repeated(partial(_events, app.get(Straight), turns), effort.times(4)),
            },
            effort.rounds,
        )
    return {
        f"ReAct, per turn of {turns}, us": found["react"] / turns * 1e6,
        f"the same loop written out, per turn of {turns}, us": found["direct"] / turns * 1e6,
        "ReAct / the same loop written out": found["react"] / found["direct"],
    }


async def _events(agent: object, turns: int) -> None:
    runner = AgentRunner.for_agent_instance(agent)
    async for _ in runner.run_events(RunAgentInput(next(_names), str(turns))):
        pass


async def _coming_back(where: str, calls: int, effort: Effort, *, in_children: bool) -> dict[str, float]:
    broad = Broad(calls, in_children=in_children)
    spec = AgentExecutionSpec(name="broad", recovery=RecoveryStrategy.ACTION_BOUNDARY, architecture=broad)

    @Agent(spec=spec)
    class Wide:
        """Do a lot."""

    model = Patient()
    app = Application("back").add(Wide, Kept, model, *MemoryStore().ports)
    initialize(app)
    async with app:
        runs = app.get(AgentRuns)
        handle = await runs.start(Wide, "go")
        await model.reached.get()
        await runs.stop()
        back: Measure = partial(_seconds_to_next_call, runs, handle.id, model)
        replay: Measure = partial(_seconds_to_next_call, runs, handle.id, model, broad)
        found = await medians({"back": back, "replay": replay}, effort.rounds)
    what = f"{calls * BRANCHES} model calls in folded {where}, ms"
    return {f"resume behind {what}": found["back"] * 1e3, f"replay of {what}": found["replay"] * 1e3}


async def _seconds_to_next_call(
    runs: AgentRuns, run_id: str, model: Patient, since: Broad | None = None
) -> float:
    """From the wish to resume, or from the first step of the loop, to the next call of the model."""
    started = perf_counter()
    await runs.resume(run_id)
    await model.reached.get()
    seconds = perf_counter() - (started if since is None else since.began_at)
    await runs.stop()
    return seconds
