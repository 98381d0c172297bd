"""What a run was started with: its first row, as a value and as JSON. Pure."""

from __future__ import annotations

from dataclasses import field, fields
from datetime import datetime
from functools import cache, lru_cache
from typing import cast

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.limits import AgentExecutionLimits
from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.principal import Principal, RunContext
from pilotage.agent.structured_output import StructuredOutputSpec
from pilotage.agent.tool_calling import ModelToolSpec
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, empty_object, text_digest, to_json_value
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
        "agent": start.agent,
        "input": to_json_value(start.input),
        "principal": _encode_principal(start.principal),
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
        if each.name not in {"agent", "input", "principal"}
    )


def decode_start(first: JournalRow) -> RunStart:
    """The start that the first row of a run recorded."""
    return cast(RunStart, StructuredOutputSpec.from_type(RunStart).decode(cast(JsonValue, first.record)))


@lru_cache(maxsize=1024)
def definition_digest(definition: AgentDefinition) -> str:
    """Changes when prompt, output or tools of an agent change: drift that a resumed run writes down."""
    tools = [tool.schema.name for tool in definition.tool_catalog.descriptors]
    spec = definition.spec
    said: list[JsonValue] = [definition.instructions, spec.version, str(spec.output_type), sorted(tools)]
    return text_digest(canonical_json(said))[:16]
