"""Events that follow from rows: what a recorded reply or result shows is not stored a second time. Pure.

An item of a log is an event or names the rows that its events follow from. Events follow from the evidence view of a
row, never from its record, and only where they equal the events that readers got; all others are stored.

| item of a log | events |
|---|---|
| an object | the event with this record |
| a text | the start of the step with this name |
| `[row, from, count]` | of the reply in a row: reasoning, text, then start, arguments and end of each tool call |
| `[row, from, count, step]` | the same, the last one being the end of a step, with the figures of the reply |
| `[row, from, count, step, texts]` | the same, with arguments as the model wrote them; null for canonical text |
| `[row, [reply, call]]` | the result in a row, for a call of the reply in another row |

Only the last `HELD` replies and the last `HELD` results can be named, so a reader needs no older rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pilotage.agent.events import AgentEventKind
from pilotage.agent.model_stream import call_id_at, restarted_id
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.jsonvalue import (
    JsonObject,
    JsonValue,
    as_integer,
    as_list,
    as_object,
    as_string,
    canonical_json,
    object_or_empty,
)

HELD = 8
"""How many replies and how many results can be named: the last ones before the row that names them, and in it."""

REASONING_OF = ":reasoning"
"""What the id of a reply's reasoning adds to that of its message."""
FAILED: JsonObject = {"is_error": True}
"""The metadata of the result of a call that failed."""
TEXT, THOUGHT = AgentEventKind.MESSAGE_DELTA.value, AgentEventKind.REASONING_DELTA.value
CALL, CALL_END = AgentEventKind.TOOL_CALL_START.value, AgentEventKind.TOOL_CALL_END.value
ARGUMENTS = AgentEventKind.TOOL_CALL_ARGS_DELTA.value
"""The kinds of events of a reply."""

_AFTER = JournalStage.AFTER
_RESULT = AgentEventKind.TOOL_CALL_RESULT.value
_STEP, _STEP_END = AgentEventKind.STEP_STARTED.value, AgentEventKind.STEP_FINISHED.value
_FIELDS_OF_TEXTS = {
    TEXT: ("message_id", "delta"),
    THOUGHT: ("reasoning_id", "delta"),
    ARGUMENTS: ("call_id", "args_delta"),
}


def message_id_of(run_id: str, action_id: str, epoch: int) -> str:
    """Return the id of a model's message in one call; a repetition in another epoch has another id."""
    return f"{run_id}:{action_id.removeprefix('run/')}@{epoch}"


class OutcomeView(NamedTuple):
    """The fields of a row that events follow from."""

    seq: int
    action_id: str
    epoch: int
    view: JsonValue


class NamedRows:
    """The rows that the next row of a journal may name."""

    def __init__(self) -> None:
        self._held: dict[AgentActionKind, dict[int, JournalRow | OutcomeView]] = {
            AgentActionKind.MODEL_CALL: {},
            AgentActionKind.TOOL_CALL: {},
        }

    def add(self, row: JournalRow) -> None:
        """Add the next row, if it holds the reply of a model or the result of a tool."""
        if row.stage is not _AFTER or row.kind is None:
            return
        held = self._held.get(row.kind)
        if held is not None:
            held[row.seq] = row
            if len(held) > HELD:
                del held[next(iter(held))]

    def add_all(self, rows: Sequence[JournalRow]) -> None:
        """Add the next rows: only the last ones of them can be named."""
        last: list[JournalRow] = []
        counts = dict.fromkeys(self._held, 0)
        for row in reversed(rows):
            kind = row.kind
            if row.stage is _AFTER and kind is not None and counts.get(kind, HELD) < HELD:
                counts[kind] += 1
                last.append(row)
                if len(last) == HELD * len(counts):
                    break
        for row in reversed(last):
            self.add(row)

    def __getitem__(self, seq: int) -> JournalRow | OutcomeView:
        for held in self._held.values():
            if seq in held:
                return held[seq]
        raise LookupError(f"row {seq} is not one of the last outcomes")

    def detach(self) -> None:
        """Let go of the rows and what they were read from; the views stay."""
        for held in self._held.values():
            for seq, row in held.items():
                held[seq] = OutcomeView(seq, row.action_id, row.epoch, row.view)


ReplyPart: TypeAlias = tuple[str, str, str]
"""An event of a reply: its kind, the id of its text or call, its text; for the start of a call the name of the tool."""


def reply_parts(view: JsonValue, message_id: str) -> list[ReplyPart]:
    """Return the events of a reply, by the view of its row and the id of its message.

    Raises:
        LookupError, TypeError: the view is not that of a reply.
    """
    shown = object_or_empty(view)
    reply = object_or_empty(shown.get("result"))
    parts: list[ReplyPart] = []
    if reasoning := shown.get("reasoning"):
        parts.append((THOUGHT, message_id + REASONING_OF, as_string(reasoning)))
    if content := reply.get("content"):
        parts.append((TEXT, message_id, as_string(content)))
    if calls := reply.get("tool_calls"):
        ids: list[str] = []
        for call in map(as_object, as_list(calls)):
            own = call.get("call_id")
            # Missing and repeated ids are replaced as in the stream of the reply.
            is_own = isinstance(own, str) and own and own not in ids
            ids.append(as_string(own) if is_own else call_id_at(message_id, len(ids) + 1))
            parts.append((CALL, ids[-1], as_string(call["name"])))
            parts.append((ARGUMENTS, ids[-1], canonical_json(call["arguments"])))
            parts.append((CALL_END, ids[-1], ""))
    return parts


def _record_of(part: ReplyPart, message_id: str) -> JsonObject:
    kind, ident, text = part
    if kind == CALL:
        return {"kind": kind, "call_id": ident, "tool_name": text, "parent_message_id": message_id}
    if kind == CALL_END:
        return {"kind": kind, "call_id": ident}
    name, field = _FIELDS_OF_TEXTS[kind]
    return {"event": {"kind": kind, name: ident, field: ""}, "text": text}


def step_facts(view: JsonValue) -> JsonObject:
    """Return the figures of a reply that the end of its step has."""
    reply = object_or_empty(object_or_empty(view).get("result"))
    return {name: reply[name] for name in ("usage", "finish_reason") if name in reply}


def _result_record(view: JsonValue, call: ReplyPart, message_id: str) -> JsonObject:
    """Return the record of the event of a result: the view of its row, and the start of its call."""
    _, call_id, name = call
    record: JsonObject = {"kind": _RESULT, "call_id": call_id, "tool_name": name, "message_id": message_id}
    shown = as_object(view)
    if "error" in shown:
        return {**record, "result": {"error": shown["error"]}, "metadata": FAILED}
    return record if shown["result"] is None else {**record, "result": shown["result"]}


def records_of(item: JsonValue, rows: NamedRows, run_id: str) -> Sequence[JsonObject]:
    """Return the records of the events that an item of a log stands for.

    Raises:
        LookupError, TypeError: a row that it names is missing or has no such events.
    """
    if isinstance(item, Mapping):
        return (item,)
    if isinstance(item, str):
        return ({"kind": _STEP, "step_name": item},)
    match as_list(item):
        case [int(seq), [int(reply), int(position)]]:
            message_id, parts = _reply_in(rows[reply], run_id)
            calls = [part for part in parts if part[0] == CALL]
            return (_result_record(rows[seq].view, calls[position], message_id),)
        case [int(seq), int(start), int(count), *rest]:
            return _slice_of(rows[seq], run_id, start, count, rest)
        case _:
            raise TypeError(f"{item!r} is no item of a log")


def _slice_of(
    row: JournalRow | OutcomeView, run_id: str, start: int, count: int, rest: Sequence[JsonValue]
) -> Sequence[JsonObject]:
    step = rest[0] if rest else None
    size = count if step is None else count - 1
    message_id, parts = _reply_in(row, run_id)
    chosen = parts[start : start + size]
    if len(chosen) != size:
        raise LookupError(f"row {row.seq} has no {count} events from {start} on")
    if len(rest) > 1:
        chosen = [*_with_arguments(chosen, as_list(rest[1]))]
    found = [_record_of(part, message_id) for part in chosen]
    if step is None:
        return found
    facts = step_facts(row.view)
    end: JsonObject = {"kind": _STEP_END, "step_name": as_string(step)}
    return [*found, {**end, "metadata": facts} if facts else end]


def _with_arguments(parts: Sequence[ReplyPart], texts: Sequence[JsonValue]) -> Iterator[ReplyPart]:
    given = iter(texts)
    for kind, ident, canonical in parts:
        text = next(given, None) if kind == ARGUMENTS else None
        yield kind, ident, canonical if text is None else as_string(text)


def _reply_in(row: JournalRow | OutcomeView, run_id: str) -> tuple[str, list[ReplyPart]]:
    """Return the id of the message of a reply, and its events."""
    message_id = message_id_in(run_id, row.action_id, row.epoch, row.view)
    return message_id, reply_parts(row.view, message_id)


def message_id_in(run_id: str, action_id: str, epoch: int, view: JsonValue) -> str:
    """Return the id of the message in the row of a reply; a reply that began anew is another message."""
    message_id = message_id_of(run_id, action_id, epoch)
    restarts = object_or_empty(view).get("restarts")
    return restarted_id(message_id, as_integer(restarts)) if restarts else message_id
