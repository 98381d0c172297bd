"""The input of a run as JSON and back, by the types of the agent's `execute()`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import cast

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.messages import ModelMessage, TextPart
from pilotage.agent.run_input import RunAgentInput
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, to_json_value
from pilotage.values import value


@value
class Instruction:
    """What a declarative agent is asked: the prompt, and what was said before it.

    A question with attachments is the last of the messages too, with all of its parts.
    """

    prompt: str
    messages: tuple[ModelMessage, ...] = ()


def encode_input(definition: AgentDefinition, given: object) -> JsonObject:
    """The input as JSON: an instruction, or the arguments of `execute()` by name.

    A single argument is given as it is, and so is the only one that is required; several are given as a mapping. The
    instruction of a `RunAgentInput` fills a single text; where something else is wanted, it is the JSON of that.

    Raises:
        AgentDefinitionError: the input does not fit the signature; the message names each reason.
    """
    if definition.is_declarative:
        return _encode_instruction(definition, given)
    if isinstance(given, RunAgentInput) and RunAgentInput not in _parameters(definition).values():
        given = _meant(definition, given.instruction)
    parameters = _parameters(definition)
    required = definition.execution.required if definition.execution else ()
    name = definition.target.__name__
    arguments = _by_name(name, parameters, required, given)
    unknown = [each for each in arguments if each not in parameters]
    if unknown:
        raise AgentDefinitionError(f"{name}: execute() has no parameter {', '.join(map(repr, unknown))}.")
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


def decode_instruction(recorded: JsonObject) -> Instruction:
    """The recorded instruction of a declarative agent."""
    prompt, said = cast(str, recorded["instruction"]), cast("list[JsonValue]", recorded.get("messages", ()))
    if not said:
        return Instruction(prompt)
    read = StructuredOutputSpec.from_type(ModelMessage).decode
    return Instruction(prompt, tuple(cast(ModelMessage, read(each)) for each in said))


def _encode_instruction(definition: AgentDefinition, given: object) -> JsonObject:
    name = definition.target.__name__
    messages: list[JsonValue] = []
    if isinstance(given, RunAgentInput):
        messages = [to_json_value(message) for message in given.message_history]
        if given.attachments:
            question = ModelMessage.user((TextPart(given.instruction), *given.attachments))
            messages.append(to_json_value(question))
        given = given.instruction
    elif _is_instruction(given):
        # What a run hands to a child of it: an instruction as it is recorded.
        return cast(JsonObject, given)
    try:
        prompt = given if isinstance(given, str) else canonical_json(to_json_value(given))
    except TypeError as error:
        raise AgentDefinitionError(f"{name}: the input cannot be stored: {error}.") from error
    if given is None or not prompt.strip():
        raise AgentDefinitionError(f"{name} has no execute() and needs an instruction. Give it a text.")
    return {"instruction": prompt, **({"messages": messages} if messages else {})}


def _meant(definition: AgentDefinition, instruction: str) -> object:
    """The instruction itself, where a text is wanted; else what it says as JSON, if it is JSON."""
    parameters = _parameters(definition)
    required = definition.execution.required if definition.execution else ()
    filled = required if len(required) == 1 else tuple(parameters)
    if not filled or (len(filled) == 1 and parameters[filled[0]] is str):
        return instruction
    try:
        return cast(object, json.loads(instruction))
    except (ValueError, RecursionError):
        return instruction


def _is_instruction(given: object) -> bool:
    """Whether it is a mapping with an instruction, and nothing else but what was said before it."""
    if not isinstance(given, Mapping):
        return False
    named = cast("Mapping[str, object]", given)
    prompt = named.get("instruction")
    return isinstance(prompt, str) and bool(prompt.strip()) and set(named) <= {"instruction", "messages"}


def _by_name(
    name: str, parameters: Mapping[str, object], required: Sequence[str], given: object
) -> Mapping[str, object]:
    named = cast("Mapping[str, object] | None", given if isinstance(given, Mapping) else None)
    if (given is None and not required) or (named is not None and not named and not required):
        return {}
    if len(parameters) == 1 and (named is None or set(named) != set(parameters)):
        return {next(iter(parameters)): cast(object, given)}
    if named is None and len(required) == 1:
        return {required[0]: cast(object, given)}
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
