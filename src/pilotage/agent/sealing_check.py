"""Which agents need sealed records, checked at start-up. Pure.

A record is what replay needs, a view is what others may read. Where a declaration makes the two differ, the
record must be sealed; an application that cannot seal is refused before anything runs. Secrets are in neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.agent.tools.metadata import EvidenceCapture
from pilotage.container.names import enumerate_names
from pilotage.errors import (
    AgentBootstrapError,
    AgentDefinitionError,
    AgentPersistenceConfigurationError,
    Problem,
)
from pilotage.safety.discovery import find_sensitive_fields
from pilotage.safety.fields import SecretField, SensitiveFieldDescriptor
from pilotage.safety.guard import EvidenceExposurePolicy

WAY_OUT = (
    'Install a sealer: pip install "pilotage[sealing]", and name its key file in PILOTAGE_SEALING_KEY_FILE. '
    "Or bind your own: app.bind(IRecordSealer, ...); in tests, pilotage.testing.MemorySealer()."
)


def unsealable(definition: AgentDefinition, tools: Iterable[AgentToolDescriptor]) -> Iterator[Problem]:
    """What an application without a sealer cannot keep of an agent: a problem for each tool, input or output."""
    if not definition.spec.is_durable:
        return
    agent = definition.target.__name__
    for tool in tools:
        reasons = _kept_of(tool, definition)
        if reasons:
            yield _problem((agent, f"{tool.owner.__name__}.{tool.name}"), reasons)
    try:
        yield from _unsealable_ends(agent, definition)
    except AgentDefinitionError as error:
        yield Problem(
            code=error.code,
            summary=str(error),
            remedy="",
            path=(agent,),
            family=AgentBootstrapError,
            detail=error,
        )
    if definition.spec.redaction is not None:
        yield _problem((agent, "spec.redaction"), ("what the model says, once it is redacted",))


def _kept_of(tool: AgentToolDescriptor, definition: AgentDefinition) -> tuple[str, ...]:
    """What replay needs of a tool and others must not read.

    What was only read is read again. But where a model drives the agent, its replies hold the arguments too, and a
    model does not say the same again.
    """
    if not tool.metadata.is_read_only:
        return withheld_by(tool)
    arguments = _named("sensitive arguments", tool.schema.input_sensitive_fields)
    return (arguments,) if arguments and definition.is_declarative else ()


def withheld_by(tool: AgentToolDescriptor) -> tuple[str, ...]:
    """What a tool's declaration keeps from the readers of the record; nothing for most tools."""
    arguments = _named("sensitive arguments", tool.schema.input_sensitive_fields)
    return tuple(filter(None, (arguments, _result_withheld_by(tool))))


def input_fields(definition: AgentDefinition) -> tuple[SensitiveFieldDescriptor, ...]:
    """Where the input of an agent is sensitive, by the parameters of its `execute()`.

    Raises:
        AgentDefinitionError: a type in it cannot be read.
    """
    parameters: Mapping[str, object] = definition.execution.parameters if definition.execution else {}
    return tuple(found for name, hint in parameters.items() for found in find_sensitive_fields(hint, (name,)))


def output_fields(definition: AgentDefinition) -> tuple[SensitiveFieldDescriptor, ...]:
    """Where the output of an agent is sensitive.

    Raises:
        AgentDefinitionError: a type in it cannot be read.
    """
    declared = definition.execution.output_type if definition.execution else definition.spec.output_type
    return find_sensitive_fields(declared)


@cache
def hidden_output(definition: AgentDefinition) -> tuple[SensitiveFieldDescriptor, ...]:
    """Where the output of an agent is sensitive, as far as its type can be read; start-up says where it cannot."""
    try:
        return output_fields(definition)
    except AgentDefinitionError:
        return ()


def _result_withheld_by(tool: AgentToolDescriptor) -> str:
    capture = tool.metadata.evidence
    match capture:
        case EvidenceCapture.RAW:
            return ""
        case EvidenceCapture.STRUCTURED:
            return _named("sensitive results", tool.schema.output_sensitive_fields)
        case _:
            return f"its result (evidence={capture.value!r})"


def _unsealable_ends(agent: str, definition: AgentDefinition) -> Iterator[Problem]:
    for part, found in (("input", input_fields(definition)), ("output", output_fields(definition))):
        reason = _named(f"sensitive {part}", found)
        if reason:
            yield _problem((agent, part), (reason,))


def _named(what: str, fields: Sequence[SensitiveFieldDescriptor]) -> str:
    """The fields a reader does not get to see, in words."""
    policy = EvidenceExposurePolicy()
    hidden = [
        each
        for each in fields
        if not isinstance(each.field, SecretField) and not policy.can_expose_value(each.field)
    ]
    names = sorted({".".join(each.path) for each in hidden if each.path})
    return f"{what} ({', '.join(names)})" if names else what * bool(hidden)


def _problem(path: tuple[str, ...], reasons: Sequence[str]) -> Problem:
    return Problem(
        code="record_sealer_missing",
        summary=f"replay needs what others must not read: {enumerate_names(list(reasons))}. It would have to be "
        "sealed, and nothing provides IRecordSealer.",
        remedy=WAY_OUT,
        path=path,
        family=AgentPersistenceConfigurationError,
    )
