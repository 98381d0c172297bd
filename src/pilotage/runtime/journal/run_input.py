"""The input of a run: an instruction, or the arguments of `execute()`, as JSON and back. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.messages import MediaPart, ModelMessage, ModelMessageRole, TextPart
from pilotage.agent.model_request import StructuredOutputSpec
from pilotage.agent.run_values import RunAgentInput
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError, MediaRefusedError
from pilotage.filling import unchecked
from pilotage.jsonvalue import (
    JsonObject,
    JsonValue,
    as_object,
    canonical_json,
    in_record_order,
    to_json_value,
)
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import DamagedRecordError, contract_value, list_field, text_field
from pilotage.values import value


@value
class Instruction:
    """The input of a declarative agent: the prompt and the messages before it.

    A prompt with attachments is the last of the messages too, with all of its parts.
    """

    prompt: str
    messages: tuple[ModelMessage, ...] = ()

    @property
    def attached(self) -> tuple[MediaPart, ...]:
        """The media that were sent with the prompt."""
        last = self.messages[-1] if self.messages else None
        if last is None or last.role is not ModelMessageRole.USER or last.text != self.prompt:
            return ()
        return tuple(part for part in last.parts if isinstance(part, MediaPart))


_instruction = unchecked(Instruction)


def encode_input(definition: AgentDefinition, given: object) -> JsonObject:
    """Return the input as JSON: an instruction, or the arguments of `execute()` by name.

    A single argument is given as it is, and so is the only one that is required; several are given as a mapping. The
    instruction of a `RunAgentInput` fills a single text parameter; for any other it is parsed as JSON.

    Raises:
        AgentDefinitionError: the input does not fit the signature; the message names each reason.
    """
    if definition.is_declarative:
        return _encode_instruction(definition, given)
    if isinstance(given, RunAgentInput) and RunAgentInput not in _parameters(definition).values():
        if given.attachments:
            raise MediaRefusedError(
                f"agent {definition.agent_id!r} has an execute() that takes no media. Give it a parameter of type "
                "RunAgentInput, or send the text alone."
            )
        given = _parsed_instruction(definition, given.instruction)
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
        encoded = {each: in_record_order(to_json_value(value)) for each, value in arguments.items()}
    except TypeError as error:
        raise AgentDefinitionError(f"{name}: the input cannot be stored: {error}.") from error
    decode_input(definition, encoded)
    return encoded


def decode_input(definition: AgentDefinition, recorded: JsonObject) -> dict[str, object]:
    """Return the recorded arguments in the types of the parameters of `execute()`.

    Raises:
        AgentDefinitionError: they do not fit; the message names each reason.
    """
    parameters = _parameters(definition)
    return {each: _decode(definition, each, parameters[each], value) for each, value in recorded.items()}


def decode_instruction(recorded: JsonObject) -> Instruction:
    """Return the recorded instruction of a declarative agent."""
    prompt = text_field(recorded, words.INSTRUCTION)
    if not recorded.get(words.MESSAGES):
        return _instruction(prompt)
    messages = list_field(recorded, words.MESSAGES)
    return Instruction(prompt, tuple(contract_value(ModelMessage, each) for each in messages))


def _encode_instruction(definition: AgentDefinition, given: object) -> JsonObject:
    name = definition.target.__name__
    messages: list[JsonValue] = []
    if isinstance(given, RunAgentInput):
        if given.message_history:
            messages = [in_record_order(to_json_value(message)) for message in given.message_history]
        if given.attachments:
            question = ModelMessage.user((TextPart(given.instruction), *given.attachments))
            messages.append(to_json_value(question))
        given = given.instruction
    elif _is_instruction(given):
        # A parent run gives its child the instruction as it is recorded.
        _messages_in(name, given)
        return as_object(in_record_order(given))
    try:
        prompt = given if isinstance(given, str) else canonical_json(to_json_value(given))
    except TypeError as error:
        raise AgentDefinitionError(f"{name}: the input cannot be stored: {error}.") from error
    if given is None or not prompt.strip():
        raise AgentDefinitionError(f"{name} has no execute() and needs an instruction. Give it a text.")
    return {words.INSTRUCTION: prompt, words.MESSAGES: messages} if messages else {words.INSTRUCTION: prompt}


def _messages_in(name: str, given: JsonObject) -> tuple[ModelMessage, ...]:
    try:
        return decode_instruction(given).messages
    except DamagedRecordError as error:
        raise AgentDefinitionError(f"{name}: the messages of the input do not fit: {error}") from error


_OF_CLIENTS = frozenset({ModelMessageRole.USER, ModelMessageRole.ASSISTANT})


def messages_of_caller(definition: AgentDefinition, given: object) -> tuple[ModelMessage, ...]:
    """Return the messages in an input that is a mapping, as a client sends one; none for every other input.

    Raises:
        AgentDefinitionError: they do not fit, or are more than words of the user and of the model.
    """
    if not definition.is_declarative or isinstance(given, RunAgentInput) or not _is_instruction(given):
        return ()
    name = definition.target.__name__
    found = _messages_in(name, given)
    for each in found:
        if each.role not in _OF_CLIENTS or each.tool_calls or each.metadata:
            raise AgentDefinitionError(
                f"{name}: the input has a message of role {each.role.value!r} that a client cannot send. It takes "
                "messages of the user and of the assistant, without tool calls and metadata. Others are for the code "
                "of the application: RunAgentInput(message_history=[...])."
            )
    return found


def _parsed_instruction(definition: AgentDefinition, instruction: str) -> object:
    """Return the instruction itself for a text parameter, else its JSON value, if it is JSON."""
    parameters = _parameters(definition)
    required = definition.execution.required if definition.execution else ()
    filled = required if len(required) == 1 else tuple(parameters)
    if len(filled) == 1 and parameters[filled[0]] is str:
        return instruction
    try:
        found: object = json.loads(instruction)
    except (ValueError, RecursionError):
        return instruction
    return found


def _is_instruction(given: object) -> TypeGuard[JsonObject]:
    """Return whether an input is a mapping with an instruction, and with nothing else but earlier messages."""
    if not _is_mapping(given):
        return False
    prompt = given.get(words.INSTRUCTION)
    is_prompt = isinstance(prompt, str) and bool(prompt.strip())
    return is_prompt and set(given) <= {words.INSTRUCTION, words.MESSAGES}


def _is_mapping(given: object) -> TypeGuard[Mapping[str, object]]:
    return isinstance(given, Mapping)


def _by_name(
    name: str, parameters: Mapping[str, object], required: Sequence[str], given: object
) -> Mapping[str, object]:
    named = given if _is_mapping(given) else None
    if (given is None and not required) or (named is not None and not named and not required):
        return {}
    if len(parameters) == 1 and (named is None or set(named) != set(parameters)):
        return {next(iter(parameters)): given}
    if named is None and len(required) == 1:
        return {required[0]: given}
    if named is None and given is not None:
        wanted = ", ".join(parameters) or "nothing"
        raise AgentDefinitionError(f"{name}: execute() takes {wanted}. Give the input as a mapping of these.")
    return named or {}


def _decode(definition: AgentDefinition, name: str, wanted: object, value: JsonValue) -> object:
    try:
        return StructuredOutputSpec.from_type(wanted).decode(value)
    except AgentStructuredOutputError as error:
        problems = " ".join(each.removeprefix("the answer: ") for each in error.problems)
        raise AgentDefinitionError(
            f"{definition.target.__name__}: input {name!r} does not fit: {problems}"
        ) from error


def _parameters(definition: AgentDefinition) -> Mapping[str, object]:
    return definition.execution.parameters if definition.execution else {}
