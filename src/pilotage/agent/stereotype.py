"""`@Agent`: the stereotype that makes a class an agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pilotage.agent.bootstrap import AgentBootstrapValidationPostProcessor
from pilotage.agent.definition import AgentDefinition


@dataclass(kw_only=True, eq=False)
class Agent(AgentDefinition):
    """Marks a class as an agent: `@Agent`, `@Agent(name=...)`, `@Agent(spec=AgentExecutionSpec(...))`.

    An agent is a pod like any other: its constructor is injected, it has a scope, it is found by its type.
    Its `execute()` is the business entry point and may be a generator or a function, async or not; called on an
    instance made by hand it is plain business logic.
    """

    post_processors: ClassVar[tuple[type, ...]] = (AgentBootstrapValidationPostProcessor,)
