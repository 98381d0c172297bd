"""`McpExports`: what an application offers over MCP. Values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from enum import StrEnum
from typing import Any

from pilotage.adapters.mcp_server.forms import McpForm
from pilotage.adapters.mcp_server.offers import McpPrompt, McpResource
from pilotage.agent.ports.architecture import AgentRef
from pilotage.checks import reject_not_positive
from pilotage.values import value

_MONTH = 30 * 24 * 3600.0


class McpTasks(StrEnum):
    """When a call of a durable agent is answered with a task, to clients that know the Tasks extension.

    `WHEN_SLOW`   if the run is still under way after `task_after_seconds`
    `ALWAYS`      at once; clients without the extension wait for the result
    `REQUIRED`    at once; clients without the extension are refused
    `NEVER`       not at all
    """

    WHEN_SLOW = "when_slow"
    ALWAYS = "always"
    REQUIRED = "required"
    NEVER = "never"


def _no_modes() -> Mapping[str, McpTasks]:
    return {}


def _no_forms() -> Mapping[Any, Sequence[McpForm]]:
    return {}


@value(slots=False)
class McpExports:
    """What an application offers over MCP. The same for all transports; a pod of it counts for `pilotage mcp serve`.

    `agents`               the agents that are tools, all by default; each by its class or its id
    `prompts`, `resources` what the application offers beside them; runs are resources anyway
    `forms`                the forms that an agent may ask the user of a client to fill in, by agent
    `name`, `instructions` how the server introduces itself; the name is that of the application by default
    `tasks`                when agents answer with tasks, by agent; all others as `WHEN_SLOW`
    `task_after_seconds`   how long a call waits before it becomes a task
    `poll_seconds`         how often clients should ask for a task
    `state_seconds`        how long a question of a call can be answered with the state that came with it
    `max_argument_bytes`, `max_argument_depth`   bounds of the arguments of a call, on every transport
    """

    agents: Sequence[AgentRef] | None = None
    prompts: Sequence[McpPrompt] = ()
    resources: Sequence[McpResource] = ()
    forms: Mapping[Any, Sequence[McpForm]] = field(default_factory=_no_forms)
    name: str | None = None
    instructions: str | None = None
    tasks: Mapping[Any, McpTasks] = field(default_factory=_no_modes)
    task_after_seconds: float = 2.0
    poll_seconds: float = 1.0
    state_seconds: float = _MONTH
    max_argument_bytes: int = 1_000_000
    max_argument_depth: int = 100

    def __post_init__(self) -> None:
        reject_not_positive(
            self,
            task_after_seconds=self.task_after_seconds,
            poll_seconds=self.poll_seconds,
            state_seconds=self.state_seconds,
            max_argument_bytes=self.max_argument_bytes,
            max_argument_depth=self.max_argument_depth,
        )
