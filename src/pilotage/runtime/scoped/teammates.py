"""The teammates of a declarative agent as its model sees them: tools of one argument, each call a delegation.

`ask_<name>(task)` runs the teammate as a child of the run. Naming an agent as a teammate is the permission to ask it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.messages import ModelToolCall
from pilotage.agent.ports.architecture import AgentRef
from pilotage.agent.spec import AgentExecutionSpec
from pilotage.agent.structured_output import JsonSchemaConstraint
from pilotage.agent.tool_calling import ModelToolSpec
from pilotage.errors import AgentToolBindingError
from pilotage.jsonvalue import JsonObject
from pilotage.values import value

_TASK: JsonObject = {
    "type": "object",
    "properties": {
        "task": {"type": "string", "description": "What to do, with everything that is needed to do it."}
    },
    "required": ["task"],
    "additionalProperties": False,
}


@value
class Teammate:
    """An agent of the application that another one may ask, and what it is good for."""

    name: str
    agent: AgentRef
    purpose: str

    @property
    def tool_name(self) -> str:
        """The name by which a model asks it."""
        return f"ask_{re.sub(r'[^A-Za-z0-9_-]+', '_', self.name)}"

    @property
    def tool(self) -> ModelToolSpec:
        """The teammate as a request shows it to the model."""
        schema: JsonObject = {"title": f"{self.tool_name}.input", **_TASK}
        return ModelToolSpec(self.tool_name, JsonSchemaConstraint(schema), self.purpose)

    def task_in(self, call: ModelToolCall) -> str:
        """What the model asks of the teammate.

        Raises:
            AgentToolBindingError: it does not say, or says something else too.
        """
        task = call.arguments.get("task")
        if not isinstance(task, str) or not task.strip() or set(call.arguments) != {"task"}:
            problem = f"{self.tool_name} takes one argument, 'task', a text that is not blank."
            raise AgentToolBindingError(problem, problems=[problem])
        return task


def teammates_of(
    spec: AgentExecutionSpec,
    definition_of: Callable[[AgentRef], AgentDefinition],
    capabilities: Sequence[str] | None = None,
) -> Mapping[str, Teammate]:
    """The teammates that an agent may ask, by the names of their tools; of a run that was given only some tools, those.

    Raises:
        AgentDefinitionError: one of them is no agent of the application.
    """
    found = [
        Teammate(mate.name, mate.pod, _purpose(mate.name, definition_of(mate.pod)))
        for mate in spec.teammates
        if mate.pod is not None
    ]
    return {mate.tool_name: mate for mate in found if capabilities is None or mate.tool_name in capabilities}


def _purpose(name: str, definition: AgentDefinition) -> str:
    said = definition.spec.objective or (definition.target.__doc__ or "").strip().partition("\n")[0]
    return f"Ask {name}, who works alone and knows only what the task says. {said}".strip()
