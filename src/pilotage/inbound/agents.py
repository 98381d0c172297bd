"""The agents of an application as clients see them: names, inputs, outputs and tools, with schemas. Pure.

Docstrings and fields of these classes are part of the OpenAPI description. The instructions of an agent are not: they
are for its model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.reach import agent_reaches
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.metadata import Idempotency, ToolApprovalRequirement, ToolRiskAxis
from pilotage.container.graph import Graph
from pilotage.errors import PilotageError
from pilotage.inbound.examples import example_of
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.journal.run_input import encode_input
from pilotage.runtime.services import Services

_TEXT: JsonObject = {"type": "string", "minLength": 1}
_GREETING = "Hello"


class ToolView(BaseModel):
    """A tool of an agent; `parameters` is the schema of its arguments, `risk` what a call may do.

    `approval` says whether a person is asked before a call: always, never, or by the risk of the call.
    """

    name: str
    description: str | None
    parameters: dict[str, Any]
    result: dict[str, Any]
    risk: list[ToolRiskAxis]
    idempotency: Idempotency
    approval: ToolApprovalRequirement

    @classmethod
    def of(cls, tool: AgentToolDescriptor) -> ToolView:
        """Return a tool."""
        return cls(
            name=tool.schema.name,
            description=tool.description,
            parameters=dict(tool.schema.input_schema),
            result=dict(tool.schema.output_schema),
            risk=list(tool.metadata.risk.axes),
            idempotency=tool.effective_idempotency,
            approval=tool.metadata.approval,
        )


class AgentView(BaseModel):
    """An agent: `input` and `output` are schemas, `example` is an input that fits. A durable run survives a crash."""

    name: str
    objective: str | None
    is_durable: bool
    input: dict[str, Any]
    output: dict[str, Any]
    example: Any = None
    tools: list[ToolView]
    teammates: list[str]
    signals: list[str]

    @classmethod
    def of(cls, definition: AgentDefinition, tools: Iterable[AgentToolDescriptor]) -> AgentView:
        """Return an agent with its tools."""
        spec = definition.spec
        return cls(
            name=definition.agent_id,
            objective=spec.objective,
            is_durable=spec.is_durable,
            input=dict(input_schema(definition)),
            output=_output_schema(definition),
            example=example_input(definition),
            tools=[ToolView.of(each) for each in tools],
            teammates=[each.name for each in spec.teammates],
            signals=[each.value for each in spec.accepted_signals],
        )


class AgentsView(BaseModel):
    """All agents that are served."""

    agents: list[AgentView]

    @classmethod
    def of(cls, services: Services) -> AgentsView:
        """Return the agents of a started application, with the tools of their providers."""
        declared = {each.name: each.tools for each in agent_reaches(services.app.graph)}
        return cls(
            agents=[
                AgentView.of(each, services.catalogs.tools_of(each.agent_id) or declared[each.agent_id])
                for each in agents_in(services.app.graph)
            ]
        )


def agents_in(graph: Graph) -> Sequence[AgentDefinition]:
    """Return the agents of an application, in order of registration."""
    return [node.pod for node in graph.nodes if isinstance(node.pod, AgentDefinition)]


def input_schema(definition: AgentDefinition) -> JsonObject:
    """Return the schema of the input of an agent: a text, or the arguments of `execute()`."""
    contract = definition.execution
    if contract is None:
        return _TEXT
    members = {name: _schema_of(type_) for name, type_ in contract.parameters.items()}
    if len(members) == 1:
        return next(iter(members.values()))
    return {"type": "object", "properties": members, "required": list(contract.required)}


def example_input(definition: AgentDefinition) -> Any:
    """Return an input with which a run can be started; None where none is known."""
    if definition.is_declarative:
        return _GREETING
    example = example_of(input_schema(definition))
    try:
        encode_input(definition, example)
    except PilotageError:
        return None
    return example


def _output_schema(definition: AgentDefinition) -> dict[str, Any]:
    declared = definition.spec.output_type
    if declared is None and definition.execution is not None:
        declared = definition.execution.output_type
    return dict(_schema_of(str if declared is None else declared))


def _schema_of(type_: object) -> JsonObject:
    """Return the schema of a type; one that fits everything where the type has none."""
    try:
        return StructuredOutputSpec.from_type(type_).constraint.schema
    except PilotageError:
        return {}
