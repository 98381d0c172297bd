"""Writing a loop, word for word as users write it; the names it uses are defined here."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

from pilotage import Agent, AgentEvent, AgentExecutionSpec, RecoveryStrategy
from pilotage.agent import AgentSession, Dependencies
from pilotage.runtime import step


@dataclass(frozen=True)
class Verdict:
    best: int


def judge_prompt(prompt: str, drafts: object) -> str:
    return f"Which of these answers {prompt!r} best? {drafts}"


class BestOfThree:
    name, version = "best_of_three", 1

    async def run(self, session: AgentSession, deps: Dependencies, prompt: str) -> AsyncIterator[AgentEvent]:
        drafts = await deps.runtime.gather("draft", [partial(self._draft, prompt, style) for style in ("plain", "bold", "short")], limit=2)
        verdict = await deps.model.structured(Verdict, judge_prompt(prompt, drafts))
        session.output = drafts[verdict.best]
        yield deps.progress("best_of_three.judged", best=verdict.best)

    async def _draft(self, prompt: str, style: str) -> str:
        async def write() -> str:
            return f"{style}: {prompt}"

        return await step("write", write)


@Agent(spec=AgentExecutionSpec(architecture=BestOfThree(), recovery=RecoveryStrategy.ACTION_BOUNDARY))
class Writer:
    """Write one good sentence."""
