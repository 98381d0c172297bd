"""Router: one typed decision says which specialist the question is for, and that one answers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pilotage.agent.ports.architecture import AgentRef, AgentSession, Dependencies
from pilotage.architectures.deciding import Share, decide
from pilotage.architectures.moves import StopReason
from pilotage.architectures.parts import (
    WorkerRef,
    add_question,
    ask_worker,
    check_workers,
    declared_agents,
    interrupt,
    purpose_of,
    take_output,
)
from pilotage.architectures.prompts import PromptGuide, PromptGuides, briefing, check_prompts, fill, listed
from pilotage.architectures.turn import Events
from pilotage.checks import reject_outside_unit
from pilotage.jsonvalue import to_json_value
from pilotage.values import value

_FALLBACK = "fallback"


@value
class Route:
    """Chosen route of a question, with the model's confidence."""

    route: str
    confidence: Share
    reason: str = ""


@value
class Router:
    """Classify, then hand over.

    routes: the specialists, by name; the model chooses by the purpose of each: its `objective`, else the first line of
        its instructions.
    fallback: answers if the model is not certain enough or names an unknown route; without it the run ends
        unresolved, or the model must correct the name.
    min_confidence: from 0 to 1, what is certain enough.
    router_prompt: asks for the route.
    """

    routes: Mapping[str, WorkerRef]
    fallback: WorkerRef | None = None
    min_confidence: float = 0.5
    router_prompt: str = (
        "Who should answer this? Choose one route:\n{routes}\n"
        "Say how certain you are, from 0 to 1, and why. Do not answer the question itself."
    )

    name = "router"
    version = 1
    prompt_guides: ClassVar[PromptGuides] = {"router_prompt": PromptGuide(("routes",), "`Route`")}

    def __post_init__(self) -> None:
        check_prompts(self, self.prompt_guides)
        check_workers(self, "routes", self.routes, fallback=self.fallback)
        reject_outside_unit(self, min_confidence=self.min_confidence)

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> Events:
        """Choose a route and let its specialist answer.

        Raises:
            AgentStructuredOutputError: the model names no route, asked twice, and there is no fallback.
            ToolError: the specialist failed.
        """
        add_question(session, prompt)
        known = {"route": list(self.routes)}
        chosen = await decide(
            session, deps, Route, self._question(), choices=known, may_miss=self.fallback is not None
        )
        session.metadata["route"] = to_json_value(chosen)
        yield deps.progress("router.routed", route=chosen.route, confidence=chosen.confidence)
        name, worker = self._for(chosen)
        if worker is None:
            interrupt(session, StopReason.UNRESOLVED)
            session.output = f"No route is certain enough. The nearest is {chosen.route!r}: {chosen.reason}"
            return
        answer = await ask_worker(worker, name, briefing(session, prompt), session, deps)
        take_output(session, deps, answer)
        yield deps.progress("router.answered", route=name)

    def declared_workers(self) -> Mapping[str, AgentRef]:
        """Return the specialists."""
        return declared_agents(self.routes, fallback=self.fallback)

    def _for(self, chosen: Route) -> tuple[str, WorkerRef | None]:
        if chosen.confidence >= self.min_confidence and chosen.route in self.routes:
            return chosen.route, self.routes[chosen.route]
        return _FALLBACK, self.fallback

    def _question(self) -> str:
        known = listed({name: purpose_of(worker) for name, worker in self.routes.items()})
        return fill(self.router_prompt, routes=known)
