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


def unsealable(
    definition: AgentDefinition,
    tools: Iterable[AgentToolDescriptor],
    inner: Iterable[AgentToolDescriptor] = (),
    *,
    has_durable_parent: bool = False,
) -> Iterator[Problem]:
    """Yield what an application without a sealer cannot record of an agent: a problem for each tool, input or output.

    `inner` are the tools that its own tools or its program may call and that no model is offered. The runs of an agent
    with a durable parent are durable, whatever its spec says.
    """
    if not definition.spec.is_durable and not has_durable_parent:
        return
    agent = definition.target.__name__
    offered = [(tool, definition.is_declarative) for tool in tools]
    for tool, is_offered in (*offered, *((tool, False) for tool in inner)):
        reasons = _recorded_of(tool, is_offered=is_offered)
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


def _recorded_of(tool: AgentToolDescriptor, *, is_offered: bool) -> tuple[str, ...]:
    """Return what replay needs of a tool and others must not read.

    What was only read is read again. But the replies of a model that is offered the tool hold the arguments too, and so
    do the answers of people who change them; neither is given a second time. Nor is the result of a deferred call.
    """
    if not tool.metadata.is_read_only or tool.metadata.deferred:
        return withheld_by(tool)
    arguments = _named("sensitive arguments", tool.interface.input_sensitive_fields)
    is_recorded = is_offered or tool.metadata.requires_approval_candidate
    return (arguments,) if arguments and is_recorded else ()


def withheld_by(tool: AgentToolDescriptor) -> tuple[str, ...]:
    """What a tool's declaration keeps from the readers of the record; nothing for most tools."""
    arguments = _named("sensitive arguments", tool.interface.input_sensitive_fields)
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
def hidden_input(definition: AgentDefinition) -> tuple[SensitiveFieldDescriptor, ...]:
    """Where readers do not get to see the input of an agent, as far as its types can be read."""
    try:
        return tuple(_hidden(input_fields(definition)))
    except AgentDefinitionError:
        return ()


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


def _hidden(fields: Sequence[SensitiveFieldDescriptor]) -> list[SensitiveFieldDescriptor]:
    """Return the fields that a reader does not get to see, without secrets."""
    policy = EvidenceExposurePolicy()
    return [
        each
        for each in fields
        if not isinstance(each.field, SecretField) and not policy.can_expose_value(each.field)
    ]


def _named(what: str, fields: Sequence[SensitiveFieldDescriptor]) -> str:
    """Return the fields that a reader does not get to see, in words."""
    hidden = _hidden(fields)
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
