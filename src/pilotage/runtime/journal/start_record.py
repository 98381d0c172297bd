"""The start of a run and the other CLAIMED rows: take-overs, proofs of ownership, state changes, traces. Pure.

Decoders raise `DamagedRecordError` where a record has another shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from datetime import UTC, datetime
from functools import cache, lru_cache

from pilotage.agent.definition import AgentDefinition
from pilotage.agent.delegation import DelegationPacket
from pilotage.agent.events import AgentEventAttribution
from pilotage.agent.model_request import ModelToolSpec
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.principal import Principal, RunContext
from pilotage.agent.signals import RejectionPolicy
from pilotage.agent.spec import AgentExecutionLimits
from pilotage.errors import RunConflictError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, empty_object, text_digest, to_json_value
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import (
    contract_value,
    count_field,
    decode_row,
    object_field,
    object_or_empty,
    objects_field,
    optional_text,
    text_field,
    time_field,
)
from pilotage.values import value

MOST_GENERATIONS = 8

RULES = 2
"""The version of the rules by which runs that begin now are replayed: 2 names tasks by what they were given."""
_new_attribution, _new_context = unchecked(AgentEventAttribution), unchecked(RunContext)


@value
class RunStart:
    """Agent, input, principal and limits of a run: the same in every attempt.

    `parent` is the run that delegated, `generation` the number of runs above it. `capabilities` are the tools the run
    may use, None for all of its agent's. `history` is the number of turns of the conversation before it. `salt` goes
    into fingerprints: the run's own id, for a fork that of its original run. `trust` is the label of what the parent
    knew when it delegated, or of the given context. `model` is the one its caller selected, `resolved_model` the one
    that the application chose, `deferred` the tools that the caller performs. `session` is the conversation of a
    parent, which a worker reads and does not hold. `branch` is the step of its parent that it stands for, `exits` are
    the control calls that end it, `delegation` is the packet it came in, without its task. With
    `steering_input_required` the run waits for a steering instruction first.
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
    owner: str | None = None
    """The process that began the run, by the name of its leases."""
    delegation: JsonObject = field(default_factory=empty_object)
    steering_input_required: bool = False
    resolved_model: str | None = None
    on_rejection: RejectionPolicy | None = None
    """The caller's choice; None where that of the agent's spec counts."""
    rules: int = 1
    """The version of the rules by which the run is replayed."""
    salt_key: str = ""
    """The key that the salt of its fingerprints is made with, by its tag; empty without one."""

    @property
    def names_tasks(self) -> bool:
        """Whether tasks are named by what they were given."""
        return self.rules > 1

    @property
    def chosen_model(self) -> str | None:
        """The model of the run and its children; None where the one that is declared counts."""
        return self.resolved_model or self.model

    def context(self, run_id: str) -> RunContext:
        """Return the context that tools and hooks of the run get."""
        conversation = self.conversation or self.session or run_id
        return _new_context(
            self.principal.tenant,
            self.principal.id,
            conversation,
            run_id,
            metadata=self.metadata,
            delegation=self.packet if self.delegation else None,
        )

    @property
    def packet(self) -> DelegationPacket | None:
        """The packet that the run came in; None for a run that was not delegated in one."""
        if not self.delegation:
            return None
        return contract_value(DelegationPacket, {**self.delegation, "task": self.input})

    def attribution(self, run_id: str) -> AgentEventAttribution:
        """Return the attribution of the run's events."""
        # The id of a run is never blank, so it is not checked.
        make = _new_attribution if self.conversation is None else AgentEventAttribution
        return make(self.agent, run_id, self.conversation or run_id, self.parent, self.branch)


def encode_start(start: RunStart) -> JsonObject:
    """Return the start as JSON; fields with their default are left out."""
    record: dict[str, JsonValue] = {
        words.AGENT: start.agent,
        words.INPUT: to_json_value(start.input),
        words.PRINCIPAL: _encode_principal(start.principal),
    }
    for name, default in _defaults():
        found = getattr(start, name)
        if found is not default and found != default:
            record[name] = to_json_value(found)
    return record


@lru_cache(maxsize=256)
def _encode_principal(principal: Principal) -> JsonValue:
    """Return the record of a principal, cached: few principals start many runs."""
    return to_json_value(principal)


@cache
def _defaults() -> tuple[tuple[str, object], ...]:
    """Return the optional fields and their defaults."""
    plain = RunStart("-", {}, Principal("-"))
    return tuple(
        (each.name, getattr(plain, each.name))
        for each in fields(plain)
        if each.name not in {words.AGENT, words.INPUT, words.PRINCIPAL}
    )


def require_known_rules(first: JournalRow, run_id: str) -> None:
    """Check that this version can replay a run by the rules that its first row names.

    Raises:
        RunConflictError: a later version began it; the run is left as it is for a process of that version.
    """
    rules = object_or_empty(first.record).get(words.RULES)
    if isinstance(rules, int) and rules > RULES:
        raise RunConflictError(
            f"run {run_id!r} was begun by a later version of Pilotage, whose rules of replay this one does not know. "
            "A process of that version resumes it."
        )


def decode_start(first: JournalRow) -> RunStart:
    """Return the start that the first row of a run records."""
    return decode_row(first, lambda record: contract_value(RunStart, record))


@lru_cache(maxsize=1024)
def definition_digest(definition: AgentDefinition) -> str:
    """Return a digest that changes with prompt, version, output, tools or output guard of an agent.

    A resumed run records a change as drift.
    """
    tools = [tool.schema.name for tool in definition.tool_catalog.descriptors]
    spec = definition.spec
    parts: list[JsonValue] = [definition.instructions, spec.version, str(spec.output_type), sorted(tools)]
    if spec.output_guard is not None:
        # The digests of agents without a profile are those of earlier versions.
        parts.append({words.OUTPUT_GUARD: spec.output_guard})
    return text_digest(canonical_json(parts))[:16]


def ownership_proof(epoch: int, entered: str | None = None) -> JsonObject:
    """Return the record of a row that is written to prove ownership, before a suspended action is `entered` again."""
    proof: JsonObject = {words.STILL_CLAIMED: epoch}
    return proof if entered is None else {**proof, words.ENTERED: entered}


def suspension(actions: Mapping[str, int]) -> JsonObject:
    """Return the record that names actions which a pause interrupts between two calls inside, with their attempts."""
    named: list[JsonValue] = [{words.ACTION_ID: each, words.ATTEMPT: actions[each]} for each in actions]
    return {words.SUSPENDED: named}


def suspended_in(claims: Iterable[JournalRow]) -> dict[str, int]:
    """Return the actions that were interrupted by a pause and not entered since, with their attempts."""
    found: dict[str, int] = {}
    for row in claims:
        record = object_or_empty(row.record)
        if words.SUSPENDED in record:
            for each in objects_field(record, words.SUSPENDED):
                found[text_field(each, words.ACTION_ID)] = count_field(each, words.ATTEMPT)
        if words.ENTERED in record:
            found.pop(text_field(record, words.ENTERED), None)
    return found


def state_change(status: str) -> JsonObject:
    """Return the record of a row that moves the head together with a change of state."""
    return {words.STATE: status}


def trace_position(trace: str) -> JsonObject:
    """Return the record that names the trace of an attempt."""
    return {words.TRACE: trace}


def claimed_by(row: JournalRow) -> str | None:
    """Return the principal in a row of a claim; None for every other row."""
    if row.stage is not JournalStage.CLAIMED:
        return None
    found = object_or_empty(row.record).get(words.CLAIMED_BY)
    return found if isinstance(found, str) else None


def first_trace(claims: Sequence[JournalRow]) -> str | None:
    """Return the position in a trace of the first attempt that recorded one: all attempts go on from there."""
    for row in claims:
        if row.stage is JournalStage.CLAIMED and row.seq > 1:
            found = object_or_empty(row.record).get(words.TRACE)
            if isinstance(found, str):
                return found
    return None


def last_deadline(claims: Sequence[JournalRow]) -> datetime | None:
    """Return the deadline as it was last recorded, at the start of the run or by a take-over."""
    for row in reversed(claims):
        if words.DEADLINE in object_or_empty(row.record):
            return decode_row(row, decode_deadline)
    return None


def last_limits(claims: Sequence[JournalRow]) -> AgentExecutionLimits | None:
    """Return the limits as they were last recorded, at the start of the run or by a person who raised them."""
    for row in reversed(claims):
        if words.LIMITS in object_or_empty(row.record):
            return decode_row(
                row, lambda record: contract_value(AgentExecutionLimits, object_field(record, words.LIMITS))
            )
    return None


def raised(limits: AgentExecutionLimits, given: AgentExecutionLimits) -> AgentExecutionLimits:
    """Return the limits with those that are given in their place; the time of a run stays as it is."""
    named = {each.name: getattr(given, each.name) for each in fields(given)}
    changed = {
        name: limit for name, limit in named.items() if limit is not None and name != "timeout_seconds"
    }
    return replace(limits, **changed)


def waits_counted_until(claims: Sequence[JournalRow]) -> datetime | None:
    """Return up to when waiting for people has moved the deadline; None where it never has."""
    for row in reversed(claims):
        if words.WAITS_COUNTED_UNTIL in object_or_empty(row.record):
            return decode_row(row, lambda record: time_field(record, words.WAITS_COUNTED_UNTIL))
    return None


def recorded_definition(first: JournalRow) -> str | None:
    """Return the digest of the agent's definition that the first row of a run names."""
    return decode_row(first, lambda record: optional_text(record, words.DEFINITION))


def encode_deadline(deadline: datetime | None) -> str | None:
    """Return a deadline for a record: its ISO text in UTC."""
    return None if deadline is None else deadline.astimezone(UTC).isoformat()


def decode_deadline(record: JsonObject) -> datetime | None:
    """Return the deadline in a record, None for a run without one."""
    return None if record.get(words.DEADLINE) is None else time_field(record, words.DEADLINE)
