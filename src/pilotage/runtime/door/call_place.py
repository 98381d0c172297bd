"""The place and fingerprint of a tool call, as its own record has them.

A fingerprint covers the arguments that were given. Calls that an earlier release recorded are found under the former
names of their tool, and under the digest of all arguments, defaults included, that rows of earlier versions have.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TypeAlias

from pilotage.agent.recovery import AgentActionKind
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.door.arguments import part_given
from pilotage.runtime.door.run import Run
from pilotage.runtime.door.tool_binding import Invocation
from pilotage.runtime.journal.action import fingerprint_of
from pilotage.runtime.journal.scope import NameOf, StepScope, scope_for

_TOOL_CALL = AgentActionKind.TOOL_CALL

CallPlace: TypeAlias = tuple[StepScope, str, str]
"""The place of a call: its scope, its id and its fingerprint. A plain tuple, because every call makes one."""


def place_of(run: Run, invocation: Invocation, asked: JsonObject) -> CallPlace:
    """Take the next id of a call in its scope, and return it with the fingerprint; an ephemeral run needs none."""
    tool, given = invocation.tool, part_given(asked, invocation.given)
    if run.replay.has_record:
        return _recorded_place(run, invocation, given)
    scope = scope_for(tool.label, given)
    action_id = scope.next_id(tool.label)
    return scope, action_id, _fingerprint(run, action_id, tool.name, given) if run.ledger.is_durable else ""


def _recorded_place(run: Run, invocation: Invocation, given: JsonObject) -> CallPlace:
    """Return the place of a call that may be recorded: under a former name, or by the rules of an earlier version."""
    tool = invocation.tool
    scope = scope_for(tool.label, given, partial(_recorded_branch, run, invocation, given))
    name, label = tool.name, tool.label
    if tool.former:
        name, label = _recorded_name(run, invocation, given, scope)
    action_id = scope.next_id(label)
    recorded = run.replay.fingerprint_of(action_id)
    if recorded is not None and _fits(run, (action_id, name, recorded), invocation, given):
        return scope, action_id, recorded
    return scope, action_id, _fingerprint(run, action_id, name, given)


def _recorded_branch(
    run: Run, invocation: Invocation, given: JsonObject, scope: StepScope, name_of: NameOf
) -> str | None:
    """Return the name under which the branch is recorded that a call begins; None if it is not."""
    labels = [label for _, label in _names(invocation)]
    names = (name_of(label, form) for form in _forms(given, invocation) for label in labels)
    return next((each for each in names if run.replay.has_scope(scope.coming_id(each))), None)


def _recorded_name(run: Run, invocation: Invocation, given: JsonObject, scope: StepScope) -> tuple[str, str]:
    """Return the name and label under which the next call in a scope is recorded; the present ones if it is not."""
    known: list[tuple[str, str]] = []
    for name, label in _names(invocation):
        action_id = scope.coming_id(label)
        recorded = run.replay.fingerprint_of(action_id)
        if recorded is not None:
            if _fits(run, (action_id, name, recorded), invocation, given):
                return name, label
            known.append((name, label))
    return known[0] if known else (invocation.tool.name, invocation.tool.label)


def _names(invocation: Invocation) -> tuple[tuple[str, str], ...]:
    """Return the names of a tool with their labels, former ones first: in a record they come before the present one."""
    tool = invocation.tool
    return (*tool.former, (tool.name, tool.label))


def _fits(run: Run, recorded: tuple[str, str, str], invocation: Invocation, given: JsonObject) -> bool:
    """Return whether the recorded call, of an id, name and fingerprint, is this one."""
    action_id, name, fingerprint = recorded
    return any(_fingerprint(run, action_id, name, form) == fingerprint for form in _forms(given, invocation))


def _forms(given: JsonObject, invocation: Invocation) -> Iterator[JsonValue]:
    """Return the arguments as fingerprints have them: those that were given, and all of them as in earlier versions."""
    yield given
    whole = to_json_value(invocation.arguments)
    if whole != given:
        yield whole


def _fingerprint(run: Run, action_id: str, name: str, given: JsonValue) -> str:
    return fingerprint_of(run.salt, action_id, _TOOL_CALL, name, given)
