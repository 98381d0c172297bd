"""The agents of an application as clients see them: names, inputs, outputs and tools, with schemas. Pure.

Docstrings and fields of these classes are part of the OpenAPI description. The instructions of an agent are not: they
are for its model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

from pydantic import BaseModel

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.reach import agent_reaches
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.metadata import Idempotency, ToolApprovalRequirement, ToolRiskAxis
from pilotage.container.graph import Graph
from pilotage.errors import PilotageError
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.journal.run_input import encode_input
from pilotage.runtime.services import Services

_TEXTS = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "ada@example.org",
    "uri": "https://example.org",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
_DEEPEST = 8

Schema: TypeAlias = Mapping[str, Any]
"""A JSON schema."""


def example_of(schema: Schema) -> Any:
    """Return an example: what the schema names as one, else its first choice, else the smallest value of its type.

    A pattern is not looked at: check the example where it must fit.
    """
    return _Examples(schema).of(schema, 0)


class _Examples:
    """Examples of parts of one schema, whose references are looked up in it."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def of(self, schema: Schema, depth: int) -> Any:
        if depth > _DEEPEST:
            return None
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("examples", "enum"):
            if schema.get(key):
                return schema[key][0]
        if "$ref" in schema:
            return self.of(self._target(str(schema["$ref"])), depth + 1)
        for key in ("anyOf", "oneOf", "allOf"):
            if schema.get(key):
                return self.of(schema[key][0], depth + 1)
        return self._of_type(schema, depth)

    def _of_type(self, schema: Schema, depth: int) -> Any:
        types: Any = schema.get("type", "")
        first: str = types if isinstance(types, str) else next(iter(types), "")
        match first:
            case "object":
                return self._object(schema, depth)
            case "array":
                least = int(schema.get("minItems", 0))
                return [self.of(schema.get("items", {}), depth + 1) for _ in range(max(1, least))]
            case "string":
                text = _TEXTS.get(str(schema.get("format")), "text")
                return text.ljust(int(schema.get("minLength", 0)), ".")[: schema.get("maxLength")]
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return True
            case _:
                return None

    def _object(self, schema: Schema, depth: int) -> dict[str, Any]:
        members: Schema = schema.get("properties", {})
        required: Sequence[str] = schema.get("required", ())
        return {name: self.of(each, depth + 1) for name, each in members.items() if name in required}

    def _target(self, reference: str) -> Schema:
        found: Schema = self._root
        for step in reference.removeprefix("#/").split("/"):
            found = found.get(step, {})
        return found


def _number(schema: Schema) -> int | float:
    least: int | float | None = schema.get("minimum", schema.get("exclusiveMinimum"))
    if least is not None:
        return least + 1 if "exclusiveMinimum" in schema else least
    most: int | float = schema.get("maximum", schema.get("exclusiveMaximum", 1))
    return min(1, most - 1) if "exclusiveMaximum" in schema else min(1, most)


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
