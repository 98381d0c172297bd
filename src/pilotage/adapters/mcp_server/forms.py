"""Forms that an agent asks the user of a client to fill in: each is a tool that the caller of the run carries out.

A model is offered the tool with the others; an `execute()` finds it in `caller_tools()` by its name. A call takes the
`message` to the user, and gives `{"action": "accept", "content": {...}}` or `{"action": "decline"}`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.model_request import JsonSchemaConstraint, ModelToolSpec, StructuredOutputSpec
from pilotage.agent.run_values import RunAgentInput
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError
from pilotage.inbound.problems import RequestRefusedError
from pilotage.jsonvalue import JsonValue, canonical_json, object_or_empty, to_json_value
from pilotage.values import value

MESSAGE = "message"
_FLAT = frozenset({"string", "integer", "number", "boolean"})
_PARAMETERS = JsonSchemaConstraint(
    {
        "type": "object",
        "properties": {MESSAGE: {"type": "string", "description": "What the user is asked."}},
        "required": [MESSAGE],
        "additionalProperties": False,
    }
)


@value(slots=False)
class McpForm:
    """A form: its name, what it is for, and a type with its fields, which are texts, numbers, switches and choices."""

    name: str
    fields: type[Any]
    description: str = "Ask the user."

    def __post_init__(self) -> None:
        properties = object_or_empty(self.schema.get("properties"))
        if not properties or not all(_is_flat(each) for each in properties.values()):
            raise AgentDefinitionError(
                f"form {self.name!r} has fields that a client cannot show. Give it a dataclass or a TypedDict of "
                "texts, numbers, switches and choices (Literal)."
            )

    @cached_property
    def schema(self) -> Mapping[str, Any]:
        """The schema of the filled form."""
        schema = dict(StructuredOutputSpec.from_type(self.fields).constraint.schema)
        return {name: each for name, each in schema.items() if name in ("type", "properties", "required")}

    def content(self, filled: Mapping[str, Any]) -> JsonValue:
        """Return the filled form as JSON.

        Raises:
            RequestRefusedError: it does not fit the fields.
        """
        try:
            return to_json_value(StructuredOutputSpec.from_type(self.fields).decode(dict(filled)))
        except AgentStructuredOutputError as error:
            raise RequestRefusedError(f"The form is not filled in: {' '.join(error.problems)}") from error

    @property
    def tool(self) -> ModelToolSpec:
        """The tool that a run is offered."""
        return ModelToolSpec(self.name, _PARAMETERS, self.description)


def input_with_forms(definition: AgentDefinition, given: Any, forms: Sequence[McpForm]) -> Any:
    """Return the input of a run that may ask its caller's user to fill in forms."""
    if not forms:
        return given
    contract = definition.execution
    parameters: Mapping[str, object] = {} if contract is None else contract.parameters
    only = next(iter(parameters), None)
    if isinstance(given, str):
        words = given
    elif only is not None and len(parameters) == 1 and parameters[only] is str:
        words = str(given.get(only, ""))
    else:
        words = canonical_json(given)
    return RunAgentInput("mcp", words, deferred_tools=[each.tool for each in forms])


def refuse_unfit_agent(definition: AgentDefinition) -> None:
    """Refuse forms for an agent whose input cannot be sent along with them.

    Raises:
        AgentDefinitionError: it takes a text and something that may be left out.
    """
    contract = definition.execution
    if contract is None or len(contract.required) != 1 or len(contract.parameters) == 1:
        return
    if contract.parameters[contract.required[0]] is str:
        raise AgentDefinitionError(
            f"agent {definition.agent_id!r} cannot have forms: its execute() takes a text and parameters that may be "
            "left out. Make them one parameter, or required."
        )


def _is_flat(schema: Any) -> bool:
    found = object_or_empty(schema)
    if "enum" in found or "const" in found:
        return True
    options = found.get("anyOf")
    if isinstance(options, list):
        return all(_is_flat(each) or object_or_empty(each).get("type") == "null" for each in options)
    return found.get("type") in _FLAT
