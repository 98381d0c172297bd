"""Events follow from rows: what is read back is what was emitted, and what does not follow is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pilotage.agent.events import (
    AgentEvent,
    AgentEventAttribution,
    MessageDeltaEvent,
    ReasoningDeltaEvent,
    RunStartedEvent,
    StepFinishedEvent,
    StepStartedEvent,
    ToolCallArgsDeltaEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)
from pilotage.agent.ports.persistence import JournalRow, JournalStage, RowTexts
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, parsed
from pilotage.runtime.events.event_log import LoggedEvent, LogRows, PendingEvents, logged_events
from pilotage.runtime.events.following import HELD, NamedRows, message_id_of, records_of

RUN = "run-1"
BY = AgentEventAttribution("clerk", RUN, "talk")
BRANCH = replace(BY, branch="run/left")
MODEL, TOOL = AgentActionKind.MODEL_CALL, AgentActionKind.TOOL_CALL
FIRST = message_id_of(RUN, "run/model#1", 1)
AGAIN = f"{FIRST}:try-2"


@dataclass
class Log:
    """A run that writes rows and events, and reads them back as a store gives them."""

    rows: list[JournalRow] = field(default_factory=list[JournalRow])
    emitted: list[AgentEvent] = field(default_factory=list[AgentEvent])
    log: PendingEvents = field(default_factory=PendingEvents)

    def outcome(self, action_id: str, kind: AgentActionKind, view: JsonValue) -> int:
        seq = len(self.rows) + 1
        # A record that differs: nothing may follow from it.
        texts = RowTexts.of({"sealed": True}, view)
        self.log.outcomes.add(RUN, kind, texts, seq=seq, action_id=action_id, epoch=1)
        self._add(seq, action_id, kind, JournalStage.AFTER, parsed(texts.view_json))
        return seq

    def emit(self, *events: AgentEvent) -> None:
        for event in events:
            self.log.add(event, BY)
            self.emitted.append(event)

    def commit(self) -> list[JsonValue]:
        seq = len(self.rows) + 1
        first, items = self.log.write(seq)
        text = canonical_json([first, *items])
        self._add(seq, f"run/now#{seq}", AgentActionKind.VALUE, JournalStage.BEFORE, None, text)
        return items

    def read(self) -> list[AgentEvent]:
        items = [*logged_events(self.rows, RUN)]
        assert [item.number for item in items] == [*range(1, len(items) + 1)]
        return [item.event(BY) for item in items]

    def _add(
        self,
        seq: int,
        action_id: str,
        kind: AgentActionKind,
        stage: JournalStage,
        view: JsonValue,
        events: str = "",
    ) -> None:
        row = JournalRow(
            *(seq, action_id, kind, stage, 1, 1, "", Idempotency.IDEMPOTENT, {"sealed": True}, view),
            *("digest", None),
            events=events,
        )
        self.rows.append(row)


def reply(**fields: JsonValue) -> JsonObject:
    return {"model": "m", "result": fields}


def call(name: str = "pay", call_id: str | None = "c-1", **arguments: JsonValue) -> JsonObject:
    made: JsonObject = {"name": name, "arguments": arguments}
    return made if call_id is None else {**made, "call_id": call_id}


def called(call_id: str, arguments: str, name: str = "pay", message: str = FIRST) -> list[AgentEvent]:
    return [
        ToolCallStartEvent(BY, call_id, name, message),
        ToolCallArgsDeltaEvent(BY, call_id, arguments),
        ToolCallEndEvent(BY, call_id),
    ]


FINISHED = StepFinishedEvent(BY, "model-1")
COUNTED: JsonObject = {"usage": {"input_tokens": 3, "output_tokens": 2}, "finish_reason": "stop"}
TEXT, THOUGHT = MessageDeltaEvent(BY, FIRST, "Hello"), ReasoningDeltaEvent(BY, f"{FIRST}:reasoning", "hm")

OF_REPLIES: Mapping[str, tuple[JsonObject, Sequence[AgentEvent], list[JsonValue]]] = {
    "text": (reply(content="Hello"), [TEXT], [[1, 0, 1]]),
    "text and the end of its step": (reply(content="Hello"), [TEXT, FINISHED], [[1, 0, 2, "model-1"]]),
    "a step with figures": (
        {"model": "m", "result": {"content": "Hello", **COUNTED}},
        [TEXT, replace(FINISHED, metadata=COUNTED)],
        [[1, 0, 2, "model-1"]],
    ),
    "reasoning": ({**reply(content="Hello"), "reasoning": "hm"}, [THOUGHT, TEXT], [[1, 0, 2]]),
    "a call": (reply(tool_calls=[call(to="ada")]), called("c-1", '{"to":"ada"}'), [[1, 0, 3]]),
    "a call as the model wrote it": (
        reply(tool_calls=[call(to="ada")]),
        [*called("c-1", '{"to": "ada"}'), FINISHED],
        [[1, 0, 4, "model-1", ['{"to": "ada"}']]],
    ),
    "a call with an empty text": (
        reply(tool_calls=[call()]),
        called("c-1", ""),
        [[1, 0, 3, None, [""]]],
    ),
    "two calls, one as it was written": (
        reply(content="Hello", tool_calls=[call(to="ada"), call("look", "c-2")]),
        [TEXT, *called("c-1", '{"to":"ada"}'), *called("c-2", "{ }", "look")],
        [[1, 0, 7, None, [None, "{ }"]]],
    ),
    "calls without ids and with the same id": (
        reply(tool_calls=[call(call_id=None), call(call_id="c"), call(call_id="c")]),
        [
            *called(f"{FIRST}:call-1", "{}"),
            *called("c", "{}"),
            *called(f"{FIRST}:call-3", "{}"),
        ],
        [[1, 0, 9]],
    ),
    "a reply that began anew": (
        {**reply(content="Hello"), "restarts": 1},
        [replace(TEXT, message_id=AGAIN)],
        [[1, 0, 1]],
    ),
    "the rest of a reply": (
        reply(content="Hello", tool_calls=[call()]),
        called("c-1", "{}"),
        [[1, 1, 3]],
    ),
}

STORED: Mapping[str, tuple[JsonObject, AgentEvent]] = {
    "half of a text": (reply(content="Hello"), replace(TEXT, delta="Hel")),
    "a text that was redacted in the view only": (reply(content="[REDACTED]"), TEXT),
    "a text with metadata": (reply(content="Hello"), replace(TEXT, metadata={"superseded": True})),
    "a text of another message": (reply(content="Hello"), replace(TEXT, message_id="run-1:model#1@2")),
    "a text of a branch": (reply(content="Hello"), replace(TEXT, attribution=BRANCH)),
    "a call of another tool": (reply(tool_calls=[call("look")]), called("c-1", "{}")[0]),
    "a reply whose view was withheld": ({"view": None}, TEXT),
    "a call whose view has another form": (reply(tool_calls=[None]), called("c-1", "{}")[0]),
    "a text whose view has another form": (reply(content=["Hello"]), TEXT),
    "a step that is not the reply's": (reply(content="Hello"), FINISHED),
    "a step with facts": (reply(content="Hello"), StepStartedEvent(BY, "look", {"current_step": 1})),
    "a result without a row": (
        reply(tool_calls=[call()]),
        ToolCallResultEvent(BY, "c-1", "pay", FIRST, "paid"),
    ),
}


@pytest.mark.parametrize("case", OF_REPLIES)
def test_the_events_of_a_reply_follow_from_its_row(case: str) -> None:
    view, events, items = OF_REPLIES[case]
    log = Log()
    log.outcome("run/model#1", MODEL, view)
    log.emit(*events)
    assert log.commit() == items
    assert log.read() == list(events)


@pytest.mark.parametrize("case", STORED)
def test_an_event_that_differs_from_its_row_is_stored(case: str) -> None:
    view, event = STORED[case]
    log = Log()
    log.outcome("run/model#1", MODEL, view)
    log.emit(event)
    assert all(isinstance(item, dict) for item in log.commit())
    assert log.read() == [event]


def test_the_figures_of_a_step_must_be_the_same_json() -> None:
    log = Log()
    log.outcome("run/model#1", MODEL, reply(content="Hello", usage={"input_tokens": 1}))
    log.emit(TEXT, replace(FINISHED, metadata={"usage": {"input_tokens": True}}))
    assert [type(item) for item in log.commit()] == [list, dict]


RESULTS: Mapping[str, tuple[JsonObject, JsonValue, JsonObject, bool]] = {
    "a text": ({"result": "paid"}, "paid", {}, True),
    "nothing": ({"result": None}, None, {}, True),
    "an object": ({"result": {"b": 1, "a": [None, 0.5]}}, {"a": [None, 0.5], "b": 1}, {}, True),
    "an object beside arguments": ({"asked": {"to": "ada"}, "result": [1]}, [1], {}, True),
    "an error": ({"error": "no money"}, {"error": "no money"}, {"is_error": True}, True),
    "another text": ({"result": "paid"}, "paid.", {}, False),
    "true for one": ({"result": [1]}, [True], {}, False),
    "one and a whole float": ({"result": 1}, 1.0, {}, False),
    "a text for a number": ({"result": 1}, "1", {}, False),
    "a view that was cut": ({"result": "pa", "capture": "summary"}, "paid", {}, False),
    "a view without a result": ({"capture": "none"}, "paid", {}, False),
    "a result with metadata": ({"result": "paid"}, "paid", {"took": 3}, False),
    "an error without its mark": ({"error": "no money"}, {"error": "no money"}, {}, False),
}


@pytest.mark.parametrize("case", RESULTS)
def test_a_result_follows_from_its_row_and_the_reply_that_asked_for_it(case: str) -> None:
    view, result, metadata, follows = RESULTS[case]
    log = Log()
    log.outcome("run/model#1", MODEL, reply(tool_calls=[call("look", "c-0"), call()]))
    log.outcome("run/tool:pay#1", TOOL, view)
    event = ToolCallResultEvent(BY, "c-1", "pay", FIRST, result, metadata)
    log.emit(event)
    (item,) = log.commit()
    assert (item == [2, [1, 1]]) == follows
    (found,) = log.read()
    assert found == event
    assert isinstance(found, ToolCallResultEvent)
    assert canonical_json(found.result) == canonical_json(result)


def test_a_result_that_the_program_has_changed_since_is_stored() -> None:
    log, result = Log(), ["paid"]
    log.outcome("run/model#1", MODEL, reply(tool_calls=[call()]))
    log.outcome("run/tool:pay#1", TOOL, {"asked": {}, "result": result})
    result.append("twice")
    log.emit(ToolCallResultEvent(BY, "c-1", "pay", FIRST, result))
    (item,) = log.commit()
    assert isinstance(item, dict)


def test_two_equal_results_follow_from_two_rows() -> None:
    log = Log()
    log.outcome("run/model#1", MODEL, reply(tool_calls=[call(), call(call_id="c-2")]))
    log.outcome("run/tool:pay#1", TOOL, {"result": "paid"})
    log.outcome("run/tool:pay#2", TOOL, {"result": "paid"})
    log.emit(*(ToolCallResultEvent(BY, each, "pay", FIRST, "paid") for each in ("c-2", "c-1")))
    assert log.commit() == [[2, [1, 1]], [3, [1, 0]]]
    assert log.read() == log.emitted


@pytest.mark.parametrize("later", [HELD - 1, HELD])
def test_only_the_last_replies_are_named(later: int) -> None:
    log = Log()
    log.outcome("run/model#1", MODEL, reply(content="Hello"))
    for number in range(later):
        log.outcome(f"run/model#{number + 2}", MODEL, reply(content="and on"))
    log.emit(TEXT)
    assert isinstance(log.commit()[0], list) == (later < HELD)
    assert log.read() == [TEXT]


@pytest.mark.parametrize("later", [HELD - 1, HELD])
def test_only_the_last_results_are_named_also_where_others_were(later: int) -> None:
    log = Log()
    log.outcome("run/model#1", MODEL, reply(tool_calls=[call("look"), call(call_id="c-2")]))
    log.outcome("run/tool:look#1", TOOL, {"result": "seen"})
    for number in range(later):
        log.outcome(f"run/tool:pay#{number}", TOOL, {"result": "paid"})
        log.emit(ToolCallResultEvent(BY, "c-2", "pay", FIRST, "paid"))
    log.commit()
    log.emit(ToolCallResultEvent(BY, "c-1", "look", FIRST, "seen"))
    assert isinstance(log.commit()[0], list) == (later < HELD)
    assert log.read() == log.emitted


def test_a_row_that_was_not_committed_is_not_named() -> None:
    log = Log()
    log.outcome("run/model#1", MODEL, reply(content="Hello"))
    log.emit(RunStartedEvent(BY))
    log.log.write(2)
    log.log.take_back(1, 0)
    log.emit(TEXT)
    assert all(isinstance(item, dict) for item in log.log.write(1)[1])


def test_large_texts_are_not_held_after_their_commit() -> None:
    log = Log()
    log.outcome("run/model#1", MODEL, reply(content="x" * 9000, tool_calls=[call()]))
    log.outcome("run/tool:pay#1", TOOL, {"result": "x" * 9000})
    log.emit(replace(TEXT, delta="x" * 9000))
    assert log.commit() == [[1, 0, 1]]
    log.emit(ToolCallResultEvent(BY, "c-1", "pay", FIRST, "x" * 9000))
    (item,) = log.commit()
    assert isinstance(item, dict)
    assert log.read() == log.emitted


@pytest.mark.parametrize(
    "item",
    [
        [],
        [1],
        [1, 0],
        [9, 0, 1],
        [1, 0, 5],
        [1, 5, 1],
        [1, [1, 4]],
        [2, [1, 0]],
        [1, 0, 1, 7],
        [1, 0, 4, "s", [7]],
        ["1", 0, 1],
        None,
        7,
        True,
    ],
    ids=str,
)
def test_an_item_that_names_no_such_events_is_refused(item: JsonValue) -> None:
    log = Log()
    log.outcome("run/model#1", MODEL, reply(tool_calls=[call()]))
    log.outcome("run/tool:pay#1", TOOL, {"capture": "none"})
    rows = NamedRows()
    for row in log.rows:
        rows.add(row)
    with pytest.raises((LookupError, TypeError)):
        records_of(item, rows, RUN)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"first":1}', '["a",{}]', "[1,[9,0,1]]", "7"])
def test_the_events_of_a_damaged_row_are_left_out(text: str) -> None:
    log = Log()
    log.emit(RunStartedEvent(BY))
    log.commit()
    log.commit()
    log.rows[1] = replace(log.rows[1], events=text)
    log.emit(FINISHED)
    log.commit()
    assert [item.number for item in logged_events(log.rows, RUN)] == [1, 2]
    if text:
        with pytest.raises((LookupError, TypeError, ValueError)):
            LogRows(RUN).events_in(log.rows[1])


PIECES = st.text(max_size=4)
CALLS = st.lists(
    st.tuples(st.sampled_from([None, "", "a", "b"]), st.dictionaries(PIECES, st.integers(0, 9), max_size=2)),
    max_size=3,
)


@dataclass
class Story:
    """Draws a run of several replies and results, with commits at any moment and other events anywhere."""

    draw: st.DrawFn
    log: Log = field(default_factory=Log)

    def emit(self, *events: AgentEvent) -> None:
        for event in events:
            self.log.emit(event)
            if self.draw(st.integers(0, 9)) == 0:
                self.log.emit(RunStartedEvent(BY, {"note": len(self.log.emitted)}))
            if self.draw(st.integers(0, 5)) == 0:
                self.log.commit()

    def turn(self, number: int) -> None:
        message = message_id_of(RUN, f"run/model#{number}", 1)
        text, made = self.draw(PIECES), self.draw(CALLS)
        calls: list[JsonValue] = [call("pay", ident, **arguments) for ident, arguments in made]
        view = self.draw(
            st.sampled_from([reply(content=text, tool_calls=calls), reply(content="[REDACTED]")])
        )
        self.emit(StepStartedEvent(BY, f"model-{number}"))
        if self.draw(st.booleans()):
            self.log.outcome(f"run/model#{number}", MODEL, view)
        if text:
            self.emit(MessageDeltaEvent(BY, message, text))
        ids: list[str] = []
        for position, (own, arguments) in enumerate(made, start=1):
            ids.append(own if own and own not in ids else f"{message}:call-{position}")
            written = canonical_json(arguments) if self.draw(st.booleans()) else self.draw(PIECES)
            self.emit(*called(ids[-1], written, message=message))
        self.emit(StepFinishedEvent(BY, f"model-{number}"))
        for ident in self.draw(st.permutations(ids)):
            result = self.draw(st.sampled_from(["paid", None, {"a": 1}, [True], 1, 1.5]))
            self.log.outcome(f"run/tool:pay#{len(self.log.rows)}", TOOL, {"result": result})
            self.emit(ToolCallResultEvent(BY, ident, "pay", message, result))


@st.composite
def stories(draw: st.DrawFn) -> Log:
    story = Story(draw)
    for number in range(draw(st.integers(1, 4))):
        story.turn(number + 1)
    story.log.commit()
    return story.log


@given(stories())
def test_the_log_read_back_is_what_was_emitted(log: Log) -> None:
    assert log.read() == log.emitted
    assert [canonical_json(_result(event)) for event in log.read()] == [
        canonical_json(_result(event)) for event in log.emitted
    ]


@given(stories(), st.data())
def test_a_reader_that_reads_row_by_row_gets_the_same(log: Log, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(log.rows)))
    reader, found = LogRows(RUN), list[LoggedEvent]()
    for rows in (log.rows[:cut], log.rows[cut:]):
        found += reader.read(rows)
        reader.detach()
    assert [item.event(BY) for item in found] == log.emitted


def _result(event: AgentEvent) -> JsonValue:
    return event.result if isinstance(event, ToolCallResultEvent) else None
