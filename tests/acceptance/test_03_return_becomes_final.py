"""Use case 3: an `execute()` that simply returns is a stream whose last item is the answer."""

from __future__ import annotations

from dataclasses import dataclass

from pilotage import Agent, Application, Final, RunAgentInput
from pilotage.agent import AgentYieldKind, RunFinishedEvent
from pilotage.runtime import AgentRunner


@dataclass(frozen=True)
class Greeting:
    words: str


@Agent
class Greeter:
    async def execute(self, name: str) -> Greeting:
        return Greeting(f"Good day, {name}.")


@Agent
class SyncGreeter:
    def execute(self, name: str) -> str:
        return f"Good day, {name}."


async def test_what_execute_returns_is_the_final_item() -> None:
    async with Application("hotel").add(Greeter, SyncGreeter).load_plugins() as app:
        for agent, answer in ((Greeter, Greeting("Good day, Ada.")), (SyncGreeter, "Good day, Ada.")):
            runner = AgentRunner.for_agent_instance(app.get(agent))
            (item,) = [item async for item in runner.run(RunAgentInput(agent.__name__, "Ada"))]
            assert item.kind is AgentYieldKind.FINAL
            assert item == Final(answer, metadata=item.payload.metadata)


async def test_as_events_it_is_the_output_of_the_end() -> None:
    async with Application("hotel").add(Greeter).load_plugins() as app:
        runner = AgentRunner.for_agent_instance(app.get(Greeter))
        *_, last = [event async for event in runner.run_events(RunAgentInput("r-1", "Ada"))]
        assert isinstance(last, RunFinishedEvent)
        assert last.metadata["output"] == {"words": "Good day, Ada."}
