"""The input of a run as JSON and back, by the types of the agent's `execute()`. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value


def encode_input(definition: AgentDefinition, given: object) -> JsonObject:
    """The arguments of `execute()` by name: a single one as it is, several from a mapping.

    Raises:
        AgentDefinitionError: the input does not fit the signature; the message names each reason.
    """
    parameters = _parameters(definition)
    name = definition.target.__name__
    arguments = _by_name(name, parameters, given)
    unknown = [each for each in arguments if each not in parameters]
    if unknown:
        raise AgentDefinitionError(f"{name}: execute() has no parameter {', '.join(map(repr, unknown))}.")
    required = definition.execution.required if definition.execution else ()
    missing = [each for each in required if each not in arguments]
    if missing:
        raise AgentDefinitionError(f"{name}: execute() needs {', '.join(map(repr, missing))}.")
    try:
        encoded = {each: to_json_value(value) for each, value in arguments.items()}
    except TypeError as error:
        raise AgentDefinitionError(f"{name}: the input cannot be stored: {error}.") from error
    decode_input(definition, encoded)
    return encoded


def decode_input(definition: AgentDefinition, recorded: JsonObject) -> dict[str, object]:
    """The recorded arguments in the types that `execute()` wants.

    Raises:
        AgentDefinitionError: they do not fit; the message names each reason.
    """
    parameters = _parameters(definition)
    return {each: _decode(definition, each, parameters[each], value) for each, value in recorded.items()}


def _by_name(name: str, parameters: Mapping[str, object], given: object) -> Mapping[str, object]:
    named = cast("Mapping[str, object] | None", given if isinstance(given, Mapping) else None)
    if len(parameters) == 1 and (named is None or set(named) != set(parameters)):
        return {next(iter(parameters)): cast(object, given)}
    if named is None and given is not None:
        wanted = ", ".join(parameters) or "nothing"
        raise AgentDefinitionError(f"{name}: execute() takes {wanted}. Give the input as a mapping of these.")
    return named or {}


def _decode(definition: AgentDefinition, name: str, wanted: object, value: JsonValue) -> object:
    try:
        return StructuredOutputSpec.from_type(wanted).decode(value)
    except AgentStructuredOutputError as error:
        problems = " ".join(error.problems)
        raise AgentDefinitionError(
            f"{definition.target.__name__}: input {name!r} does not fit: {problems}"
        ) from error


def _parameters(definition: AgentDefinition) -> Mapping[str, object]:
    return definition.execution.parameters if definition.execution else {}
