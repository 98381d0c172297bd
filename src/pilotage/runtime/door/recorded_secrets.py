"""The names of the secrets that calls got, in the records of their outcomes. Pure: no I/O; no value of a secret.

Replay passes over calls inside of folded branches and recorded tools. By these names the attempt asks for their secrets
again before it shows anything new, so that it masks them as the attempt before did.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.catalog import AgentToolDescriptor
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.effect import Outcome
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import object_or_empty, texts_field
from pilotage.safety.fields import SecretRef


def secret_refs(tool: AgentToolDescriptor) -> dict[str, SecretRef]:
    """Return the references of a tool's secrets, by the names of its parameters."""
    return {name: SecretRef(field.label or name) for name, field in tool.secrets.items()}


def naming_secrets(outcome: Outcome, ids: Sequence[str]) -> Outcome:
    """Return the outcome of a tool with the names of the secrets that it got, in the record and in the view."""
    named: JsonObject = {words.SECRETS: list(ids)}
    return replace(outcome, record={**outcome.record, **named}, view={**outcome.view, **named})


def recorded_secrets(rows: Iterable[JournalRow]) -> Iterator[SecretRef]:
    """Yield the references of the secrets that recorded calls got."""
    for row in rows:
        if row.kind is AgentActionKind.TOOL_CALL:
            yield from _in_record(object_or_empty(row.record)) or ()


def secrets_of_outcome(row: JournalRow, tool: AgentToolDescriptor) -> Iterable[SecretRef]:
    """Return the references of the secrets that a call got; earlier versions did not name them."""
    named = _in_record(object_or_empty(row.record))
    return secret_refs(tool).values() if named is None else named


def _in_record(record: JsonObject) -> list[SecretRef] | None:
    return [*map(SecretRef, texts_field(record, words.SECRETS))] if words.SECRETS in record else None
