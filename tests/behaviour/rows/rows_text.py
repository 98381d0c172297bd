"""What is stored of a run as text: each row with its record, and its view where that differs; then the state."""

from __future__ import annotations

from collections.abc import Mapping

from tests.behaviour.bureau import Bureau

from pilotage.agent.ports.persistence import ErasedRecord, JournalRow, JournalStage, SealedRecord
from pilotage.jsonvalue import JsonValue, canonical_json, parsed, to_json_value

SENTENCES = frozenset({"prompt", "reason", "current_activity", "difference", "line"})
"""Keys whose values may be sentences for people: their words may change."""


OF_MACHINES = frozenset({"owner", "salt_key"})
"""Keys whose values are names of a process or of a key: another one in every test."""


async def text_of(bureau: Bureau, run_id: str, *, with_events: bool) -> list[str]:
    """The rows of a run, with or without its events for readers, and its state."""
    rows = await bureau.rows(run_id)
    shown = [row for row in rows if with_events or row.stage is not JournalStage.TOLD]
    state = await bureau.store.states.get(run_id)
    lines = [line for row in shown for line in _lines_of(row, with_events=with_events)]
    return [*lines, f"state {_json_of(to_json_value(state))}"]


def _lines_of(row: JournalRow, *, with_events: bool) -> list[str]:
    columns = (row.stage.value, row.kind.value if row.kind else "-", row.action_id, row.idempotency.value)
    record, view = _json_of(row.record), _json_of(row.view)
    lines = [" ".join(columns), f"    record {record}"]
    if view != record:
        lines.append(f"    view   {view}")
    if with_events and row.events:
        lines.append(f"    events {_json_of(parsed(row.events))}")
    return lines


def _json_of(payload: JsonValue | SealedRecord | ErasedRecord) -> str:
    if isinstance(payload, SealedRecord | ErasedRecord):
        return f"({type(payload).__name__})"
    return canonical_json(_without_sentences(payload))


def _without_sentences(payload: JsonValue) -> JsonValue:
    if isinstance(payload, Mapping):
        return {
            key: "..." if key in SENTENCES and _is_sentence(each) else _without_sentences(each)
            for key, each in payload.items()
            if key not in OF_MACHINES
        }
    if isinstance(payload, list | tuple):
        return [_without_sentences(each) for each in payload]
    return payload


def _is_sentence(payload: JsonValue) -> bool:
    return isinstance(payload, str) and " " in payload
