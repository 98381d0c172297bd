"""Records of model calls, spending, results, signals and the shared state: values from and to JSON. Pure.

Decoders raise `DamagedRecordError` where a record has another shape.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, cast

from pilotage.agent.events import AgentEvent, AgentEventAttribution, StateDeltaEvent, StateSnapshotEvent
from pilotage.agent.messages import ModelToolCall, calls_in, needs_order
from pilotage.agent.model_reply import (
    ModelFinishReason,
    ModelResponse,
    ModelStreamEvent,
    ModelStreamEventKind,
    ModelUsage,
    no_usage,
)
from pilotage.agent.model_request import ModelRequest, StructuredOutputSpec
from pilotage.agent.ports.budget import BudgetAmount, ModelCost
from pilotage.agent.ports.costs import amount_text
from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentState, AgentStateReason
from pilotage.agent.yields import State, StatePatch
from pilotage.errors import AgentDefinitionError, AgentStructuredOutputError, ModelCallError
from pilotage.filling import unchecked
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.events.projections import ITEM_FIELDS
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import (
    DamagedRecordError,
    count_field,
    decimal_field,
    decode_row,
    flag_field,
    nested,
    object_or_empty,
    optional_count,
    optional_object,
    optional_text,
    text_field,
    texts_field,
    value_field,
)
from pilotage.runtime.journal.reply_parts import decode_parts, encode_parts, has_own_parts
from pilotage.values import value

_UNREPORTED = no_usage()
_NO_USAGE = ModelUsage()
_NOTHING_SPENT = BudgetAmount()


def encode_amount(amount: BudgetAmount) -> JsonObject:
    """Return an amount as JSON; the cost is text, because a float would round it."""
    return {
        words.STEPS: amount.steps,
        words.TOOL_CALLS: amount.tool_calls,
        words.TOKENS: amount.tokens,
        words.COST: str(amount.cost),
    }


def decode_amount(record: JsonObject) -> BudgetAmount:
    """Return the amount that `encode_amount` wrote."""
    return BudgetAmount(
        count_field(record, words.STEPS),
        count_field(record, words.TOOL_CALLS),
        count_field(record, words.TOKENS),
        decimal_field(record, words.COST),
    )


def encode_costs(costs: Iterable[ModelCost | None]) -> list[JsonValue]:
    """Return prices as JSON; an amount is text, because a float would round it."""
    return [
        None if each is None else [amount_text(each.amount), each.currency, each.pricing_version]
        for each in costs
    ]


def decode_costs(record: JsonObject) -> tuple[ModelCost | None, ...] | None:
    """Return the prices that `encode_costs` wrote into a record; None where it has none."""
    stored = record.get(words.COSTS)
    if stored is None:
        return None
    try:
        return tuple(None if each is None else _cost(each) for each in cast("list[Any]", stored))
    except (TypeError, ValueError, ArithmeticError, AgentDefinitionError) as error:
        raise DamagedRecordError(words.COSTS, "a list of amounts with currency and version") from error


def _cost(stored: Any) -> ModelCost:
    amount, currency, version = stored
    return ModelCost(Decimal(amount), currency, version)


def encode_usage(usage: ModelUsage) -> JsonObject:
    """Return the tokens of a model call as JSON; counts that the model did not report are left out."""
    reported: dict[str, JsonValue] = {}
    if usage.input_tokens is not None:
        reported[words.INPUT_TOKENS] = usage.input_tokens
    if usage.output_tokens is not None:
        reported[words.OUTPUT_TOKENS] = usage.output_tokens
    if usage.total_tokens is not None:
        reported[words.TOTAL_TOKENS] = usage.total_tokens
    if usage.has_details:
        reported |= {name: each for name, each in _details(usage).items() if each is not None}
    return reported


def _details(usage: ModelUsage) -> dict[str, JsonValue]:
    return {
        words.CACHED_TOKENS: usage.cached_tokens,
        words.CACHE_WRITTEN_TOKENS: usage.cache_written_tokens,
        words.REASONING_TOKENS: usage.reasoning_tokens,
        words.OTHER_TOKENS: None if usage.other_tokens is None else dict(usage.other_tokens),
    }


def decode_usage(record: JsonObject | None) -> ModelUsage:
    """Return the usage that `encode_usage` wrote; without a record, one that reports nothing."""
    if not record:
        return _UNREPORTED
    read, written, total = (
        record.get(words.INPUT_TOKENS),
        record.get(words.OUTPUT_TOKENS),
        record.get(words.TOTAL_TOKENS),
    )
    if isinstance(read, _COUNT) and isinstance(written, _COUNT) and isinstance(total, _COUNT):
        # Most replies have these three: a long run has thousands of them.
        is_plain = len(record) == (read is not None) + (written is not None) + (total is not None)
        return ModelUsage(read, written, total) if is_plain else _detailed(record, read, written, total)
    raise DamagedRecordError(words.USAGE, "an object of whole numbers")


def _detailed(record: JsonObject, read: int | None, written: int | None, total: int | None) -> ModelUsage:
    others = optional_object(record, words.OTHER_TOKENS)
    return ModelUsage(
        read,
        written,
        total,
        cached_tokens=optional_count(record, words.CACHED_TOKENS),
        cache_written_tokens=optional_count(record, words.CACHE_WRITTEN_TOKENS),
        reasoning_tokens=optional_count(record, words.REASONING_TOKENS),
        other_tokens=None if others is None else {name: count_field(others, name) for name in others},
    )


_COUNT = (int, type(None))


@value
class Answer:
    """The result of a program. With an `interruption`, the reason why it stopped early, `output` is partial."""

    output: object = None
    interruption: str | None = None
    usage: ModelUsage = _NO_USAGE
    turns: int = 0
    learned: JsonObject | None = None


def encode_result(answer: Answer, spent: BudgetAmount, error: JsonObject | None = None) -> JsonObject:
    """Return the record of an answer, whole or partial; fields with their default are left out.

    Raises:
        TypeError: the output has no JSON form.
    """
    record: dict[str, JsonValue] = {words.RESULT: to_json_value(answer.output), words.TURNS: answer.turns}
    if spent != _NOTHING_SPENT:
        record[words.SPENT] = encode_amount(spent)
    if answer.usage != _NO_USAGE:
        record[words.USAGE] = encode_usage(answer.usage)
    if answer.interruption is not None:
        record[words.INTERRUPTION] = answer.interruption
    if error is not None:
        record[words.ERROR] = error
    if answer.learned:
        record[words.LEARNED] = answer.learned
    return record


def decode_result(state: AgentState, row: JournalRow | None) -> RunResult:
    """Return the recorded result of a run in a state, its output as JSON; without a row only the state.

    A run at a limit has its result so far in its state.
    """
    if row is None and state.reason is not AgentStateReason.LIMIT_REACHED:
        return RunResult(state)

    def decode(record: JsonObject) -> RunResult:
        return RunResult(
            state,
            output=value_field(record, words.RESULT),
            usage=decode_usage(optional_object(record, words.USAGE)),
            turns=optional_count(record, words.TURNS) or 0,
            interruption_reason=optional_text(record, words.INTERRUPTION),
            error=optional_object(record, words.ERROR),
            artifacts=optional_object(record, words.LEARNED) or {},
            spent=optional_amount(record) or _NOTHING_SPENT,
        )

    return (
        decode(object_or_empty(state.metadata.get(words.LIMIT))) if row is None else decode_row(row, decode)
    )


def optional_amount(record: JsonObject) -> BudgetAmount | None:
    """Return the spending in a record, None where it has none."""
    return nested(record, words.SPENT, decode_amount) if words.SPENT in record else None


def taken_ids(row: JournalRow) -> Iterator[str]:
    """Return the ids of the signals that were taken in, from the view of a row."""
    taken = object_or_empty(row.view).get(words.RESULT) if row.kind is AgentActionKind.SIGNAL else None
    for signal in taken if isinstance(taken, (list, tuple)) else ():
        signal_id = signal.get(words.ID) if isinstance(signal, dict) else None
        if isinstance(signal_id, str):
            yield signal_id


_response = unchecked(ModelResponse)

_REASONING, _TOKEN, _CALL, _STRUCTURED, _DONE = (
    ModelStreamEventKind.REASONING_DELTA,
    ModelStreamEventKind.TOKEN_DELTA,
    ModelStreamEventKind.TOOL_CALL_CANDIDATE,
    ModelStreamEventKind.STRUCTURED_OUTPUT,
    ModelStreamEventKind.DONE,
)
_EMPTY: tuple[JsonValue, ...] = (None, "", [], {})
_REASONS = {each.value: each for each in ModelFinishReason}
# Made once: a tuple of classes in a call of `isinstance` is built anew every time.
_OBJECT, _OBJECT_OR_NONE = (dict, Mapping), (dict, type(None), Mapping)
_LIST, _TEXT_OR_NONE = (list, tuple), (str, type(None))


def encode_response(response: ModelResponse, reasoning: str = "") -> JsonObject:
    """Return a reply as JSON without its empty fields; its decoded output is not stored, replay decodes it again.

    `reasoning` is what the record has of it beside the reply.
    """
    reply: dict[str, JsonValue] = {}
    if response.content:
        reply[words.CONTENT] = response.content
    if response.structured_output not in _EMPTY:
        reply[words.STRUCTURED_OUTPUT] = response.structured_output
    if response.tool_calls:
        reply[words.TOOL_CALLS] = [_encode_call(call) for call in response.tool_calls]
    if usage := encode_usage(response.usage):
        reply[words.USAGE] = usage
    if response.metadata:
        reply[words.METADATA] = response.metadata
    if response.finish_reason is not None:
        reply[words.FINISH_REASON] = response.finish_reason.value
    if has_own_parts(response):
        reply[words.PARTS] = encode_parts(response.parts, reasoning)
    return reply


def decode_response(
    reply: JsonObject, spec: StructuredOutputSpec | None, reasoning: str = ""
) -> ModelResponse:
    """Return the recorded reply to a request for text, or for an answer of a type.

    `reasoning` is what the record has of it beside the reply.
    """
    # Checked in place instead of by the functions of `record_fields`: a long run has thousands of replies.
    content, calls = reply.get(words.CONTENT, ""), reply.get(words.TOOL_CALLS, ())
    usage, metadata = reply.get(words.USAGE), reply.get(words.METADATA, {})
    structured = reply.get(words.STRUCTURED_OUTPUT)
    if not isinstance(content, str):
        raise DamagedRecordError(words.CONTENT, "a text")
    if not isinstance(calls, _LIST):
        raise DamagedRecordError(words.TOOL_CALLS, "a list")
    if not isinstance(usage, _OBJECT_OR_NONE):
        raise DamagedRecordError(words.USAGE, "an object")
    if not isinstance(metadata, _OBJECT):
        raise DamagedRecordError(words.METADATA, "an object")
    asked, ordered = tuple(map(_decode_call, calls)) if calls else (), None
    if words.PARTS in reply:
        parts = decode_parts(reply[words.PARTS], content, asked, reasoning)
        asked, ordered = calls_in(parts), parts if needs_order(parts) else None
    return _response(
        content,
        structured,
        tool_calls=asked,
        usage=decode_usage(usage),
        metadata=metadata,
        finish_reason=_decode_reason(reply),
        output=spec.decode(structured) if spec and structured is not None else None,
        ordered=ordered,
    )


def call_failure(error: ModelCallError) -> ModelCallError:
    """Return the error that a program gets for a failed call: never an adapter's class, which replay cannot restore."""
    return ModelCallError(str(error), retryable=error.retryable, failure=error.failure)


def encode_failure(failure: ModelCallError) -> JsonObject:
    """Return the error of a failed call as JSON."""
    record: JsonObject = {words.ERROR: str(failure), words.RETRYABLE: failure.retryable}
    return {**record, words.FAILURE: str(failure.failure)} if failure.failure else record


def decode_failure(record: JsonObject) -> ModelCallError:
    """Return the recorded error of a failed call."""
    return ModelCallError(
        text_field(record, words.ERROR),
        retryable=flag_field(record, words.RETRYABLE),
        failure=optional_text(record, words.FAILURE),
    )


def replayed_events(
    response: ModelResponse, request: ModelRequest, reasoning: str = ""
) -> list[ModelStreamEvent]:
    """Return a stream that adds up to the reply: reasoning and text in one piece each, the calls, the end."""
    events: list[ModelStreamEvent] = []
    if reasoning:
        events.append(ModelStreamEvent(_REASONING, reasoning_delta=reasoning))
    if response.content:
        events.append(ModelStreamEvent(_TOKEN, token_delta=response.content))
    tools = request.tool_calling
    events += [ModelStreamEvent(_CALL, tool_call=call, tools=tools) for call in response.tool_calls]
    if response.structured_output is not None:
        events.append(ModelStreamEvent(_STRUCTURED, structured_output=response.structured_output))
    events.append(ModelStreamEvent(_DONE, usage=response.usage, response=response))
    return events


def replayed_misfit(record: JsonObject) -> Iterator[ModelStreamEvent]:
    """Replay the stream of a reply of the wrong type.

    Raises:
        AgentStructuredOutputError: after the text.
        DamagedRecordError: the record has another shape.
    """
    yield ModelStreamEvent(_TOKEN, token_delta=optional_text(record, words.TEXT) or "")
    problems = list(texts_field(record, words.PROBLEMS))
    raise AgentStructuredOutputError(text_field(record, words.ERROR), problems=problems)


def _encode_call(call: ModelToolCall) -> JsonObject:
    record: dict[str, JsonValue] = {words.NAME: call.name, words.ARGUMENTS: to_json_value(call.arguments)}
    if call.call_id is not None:
        record[words.CALL_ID] = call.call_id
    if call.metadata:
        record[words.METADATA] = to_json_value(call.metadata)
    return record


def _decode_call(call: JsonValue) -> ModelToolCall:
    if not isinstance(call, _OBJECT):
        raise DamagedRecordError(words.TOOL_CALLS, "a list of objects")
    name, arguments = call.get(words.NAME), call.get(words.ARGUMENTS)
    call_id, metadata = call.get(words.CALL_ID), call.get(words.METADATA, {})
    if not (isinstance(name, str) and isinstance(call_id, _TEXT_OR_NONE)):
        raise DamagedRecordError(f"{words.TOOL_CALLS}.{words.NAME}", "a text")
    if not (isinstance(arguments, _OBJECT) and isinstance(metadata, _OBJECT)):
        raise DamagedRecordError(f"{words.TOOL_CALLS}.{words.ARGUMENTS}", "an object")
    return ModelToolCall(name, arguments, call_id, metadata)


def _decode_reason(reply: JsonObject) -> ModelFinishReason | None:
    reason = reply.get(words.FINISH_REASON)
    if reason is None:
        return None
    if isinstance(reason, str) and reason in _REASONS:
        return _REASONS[reason]
    raise DamagedRecordError(words.FINISH_REASON, "a finish reason")


SNAPSHOT, PATCH = "snapshot", "patch"
"""The keys of a change: the whole state, or operations of a JSON Patch."""
_LABEL = f"/{words.SHARED_STATE}{words.ORDINAL}"


def change_of(item: State | StatePatch) -> JsonObject:
    """Return a change as its row holds it."""
    return {SNAPSHOT: item.snapshot} if isinstance(item, State) else {PATCH: item.operations}


def event_of(change: JsonObject, action_id: str, by: AgentEventAttribution) -> AgentEvent:
    """Return the event of a change; with the id of its action it differs from all others of the run."""
    metadata: JsonObject = {ITEM_FIELDS: {"action": action_id}}
    if SNAPSHOT in change:
        return StateSnapshotEvent(by, change[SNAPSHOT], metadata)
    return StateDeltaEvent(by, change[PATCH], metadata)


def recorded_changes(rows: Iterable[JournalRow]) -> Iterator[tuple[JournalRow, JsonObject]]:
    """Return the changes in rows of outcomes, each with its row."""
    for row in rows:
        if _LABEL in row.action_id and isinstance(change := decode_row(row, _result), Mapping):
            yield row, cast("Mapping[str, Any]", change)


def _result(record: JsonObject) -> object:
    return record.get(words.RESULT)
