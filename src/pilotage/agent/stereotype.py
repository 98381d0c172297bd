"""`@Agent`: the stereotype that makes a class an agent, and the plugin `agent` of applications that hold agents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pilotage.agent.bootstrap import AgentBootstrapValidationPostProcessor
from pilotage.agent.definition import AgentDefinition
from pilotage.container.application import Application


@dataclass(kw_only=True, eq=False)
class Agent(AgentDefinition):
    """Marks a class as an agent: `@Agent`, `@Agent(durable=True)`, `@Agent(spec=AgentExecutionSpec(...))`.

    Keywords fill the spec, in which everything else is declared:

    `durable`     runs outlive their process: `recovery=RecoveryStrategy.ACTION_BOUNDARY`
    `output`      the type of the answer: `output_type`
    `teammates`   agents that the model may ask, as classes or as `AgentTeammate`: `teammates`
    `timeout_seconds`, `max_steps`, `max_tool_calls`, `max_tokens`, `max_cost`   the bounds of a run: `limits`

    An agent is a pod like any other: its constructor is injected, it has a scope, it is found by its type.
    Its `execute()` is the business entry point and may be a generator or a function, async or not; called on an
    instance made by hand it is plain business logic.
    """

    post_processors: ClassVar[tuple[type, ...]] = (AgentBootstrapValidationPostProcessor,)


def initialize(app: Application) -> None:
    """Register the validation of agents; models and persistence come from their own plugins."""
    app.add(AgentBootstrapValidationPostProcessor)
