"""What a run was started with: its first row, as a value and as JSON. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from datetime import datetime
from functools import cache, lru_cache
from typing import TypeGuard

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.limits import AgentExecutionLimits
from pilotage.agent.messages import ModelMessage, TextPart
from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.principal import Principal, RunContext
from pilotage.agent.run_input import RunAgentInput
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.agent.tool_calling import ModelToolSpec
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, empty_object, text_digest, to_json_value
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import contract_value, decode_row, list_field, text_field
from pilotage.values import value

MOST_GENERATIONS = 8


@value
class RunStart:
    """Who asked which agent for what, and how far it may go; the same in every attempt at the run.

    `parent` is the run that delegated, `generation` how many stand above it. `capabilities` are the tools the run
    may use, None for all of its agent's. `history` is how many turns of the conversation came before it. `salt` goes
    into fingerprints: the run's own id, but for a fork, whose rows have those of the run it left. `trust` is the
    label of what its parent knew when it asked, or of the context it was given. `model` is the one its caller selected,
    `deferred` the tools that he carries out. `session` is the conversation of a parent, which a worker knows and does
    not hold. `branch` is the step of its parent that it stands for, `exits` are the control calls that end it.
    """

    agent: str
    input: JsonObject
    principal: Principal
    conversation: str | None = None
    parent: str | None = None
    generation: int = 0
    deadline: datetime | None = None
    limits: AgentExecutionLimits = field(default_factory=AgentExecutionLimits)
    capabilities: tuple[str, ...] | None = None
    history: int | None = None
    definition: str = ""
    salt: str = ""
    trust: JsonObject = field(default_factory=empty_object)
    metadata: JsonObject = field(default_factory=empty_object)
    given: JsonObject = field(default_factory=empty_object)
    model: str | None = None
    deferred: tuple[ModelToolSpec, ...] = ()
    session: str | None = None
    branch: str | None = None
    exits: tuple[ModelToolSpec, ...] = ()

    def context(self, run_id: str) -> RunContext:
        """What tools and hooks of the run may know of it."""
        conversation = self.conversation or self.session or run_id
        return RunContext(self.principal.tenant, self.principal.id, conversation, run_id, self.metadata)


def encode_start(start: RunStart) -> JsonObject:
    """The start as JSON; what has its default is left out."""
    record: dict[str, JsonValue] = {
        words.AGENT: start.agent,
        words.INPUT: to_json_value(start.input),
        words.PRINCIPAL: _encode_principal(start.principal),
    }
    for name, default in _defaults():
        held = getattr(start, name)
        if held is not default and held != default:
            record[name] = to_json_value(held)
    return record


@lru_cache(maxsize=256)
def _encode_principal(principal: Principal) -> JsonValue:
    """Many runs are started by few."""
    return to_json_value(principal)


@cache
def _defaults() -> tuple[tuple[str, object], ...]:
    """What may be left out, and what it is then."""
    plain = RunStart("-", {}, Principal("-"))
    return tuple(
        (each.name, getattr(plain, each.name))
        for each in fields(plain)
        if each.name not in {words.AGENT, words.INPUT, words.PRINCIPAL}
    )


def decode_start(first: JournalRow) -> RunStart:
    """The start that the first row of a run recorded."""
    return decode_row(first, lambda record: contract_value(RunStart, record))


@lru_cache(maxsize=1024)
def definition_digest(definition: AgentDefinition) -> str:
    """Changes when prompt, output or tools of an agent change: drift that a resumed run writes down."""
    tools = [tool.schema.name for tool in definition.tool_catalog.descriptors]
    spec = definition.spec
    said: list[JsonValue] = [definition.instructions, spec.version, str(spec.output_type), sorted(tools)]
    return text_digest(canonical_json(said))[:16]


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
    prompt = text_field(recorded, words.INSTRUCTION)
    if not recorded.get(words.MESSAGES):
        return Instruction(prompt)
    messages = list_field(recorded, words.MESSAGES)
    return Instruction(prompt, tuple(contract_value(ModelMessage, each) for each in messages))


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
        # A parent run gives its child the instruction as it is recorded.
        return given
    try:
        prompt = given if isinstance(given, str) else canonical_json(to_json_value(given))
    except TypeError as error:
        raise AgentDefinitionError(f"{name}: the input cannot be stored: {error}.") from error
    if given is None or not prompt.strip():
        raise AgentDefinitionError(f"{name} has no execute() and needs an instruction. Give it a text.")
    return {words.INSTRUCTION: prompt, **({words.MESSAGES: messages} if messages else {})}


def _meant(definition: AgentDefinition, instruction: str) -> object:
    """The instruction itself, where a text is wanted; else what it says as JSON, if it is JSON."""
    parameters = _parameters(definition)
    required = definition.execution.required if definition.execution else ()
    filled = required if len(required) == 1 else tuple(parameters)
    if not filled or (len(filled) == 1 and parameters[filled[0]] is str):
        return instruction
    try:
        meant: object = json.loads(instruction)
    except (ValueError, RecursionError):
        return instruction
    return meant


def _is_instruction(given: object) -> TypeGuard[JsonObject]:
    """Whether an input is a mapping with an instruction, and with nothing else but earlier messages."""
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
        problems = " ".join(error.problems)
        raise AgentDefinitionError(
            f"{definition.target.__name__}: input {name!r} does not fit: {problems}"
        ) from error


def _parameters(definition: AgentDefinition) -> Mapping[str, object]:
    return definition.execution.parameters if definition.execution else {}
