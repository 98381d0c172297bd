"""Records of what a run spent, returned and took in: values from and to JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from pilotage.agent.model_reply import ModelUsage, no_usage
from pilotage.agent.ports.budget import BudgetAmount
from pilotage.agent.ports.journal import JournalRow
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.run_result import RunResult
from pilotage.agent.state import AgentState
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue, to_json_value
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import (
    DamagedRecordError,
    count_field,
    decimal_field,
    decode_row,
    nested,
    object_or_empty,
    optional_count,
    optional_object,
    optional_text,
    value_field,
)
from pilotage.safety.trust import TrustLabel
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
    """Return the amount that `encode_amount` wrote.

    Raises:
        DamagedRecordError: the record holds something else.
    """
    return BudgetAmount(
        count_field(record, words.STEPS),
        count_field(record, words.TOOL_CALLS),
        count_field(record, words.TOKENS),
        decimal_field(record, words.COST),
    )


def encode_usage(usage: ModelUsage) -> JsonObject:
    """Return the tokens of a model call as JSON; counts that the model did not report are left out."""
    reported: dict[str, JsonValue] = {}
    if usage.input_tokens is not None:
        reported[words.INPUT_TOKENS] = usage.input_tokens
    if usage.output_tokens is not None:
        reported[words.OUTPUT_TOKENS] = usage.output_tokens
    if usage.total_tokens is not None:
        reported[words.TOTAL_TOKENS] = usage.total_tokens
    return reported


def decode_usage(record: JsonObject | None) -> ModelUsage:
    """Return the usage that `encode_usage` wrote; without a record, one that reports nothing.

    Raises:
        DamagedRecordError: the record holds something else.
    """
    if not record:
        return _UNREPORTED
    read, written, total = (
        record.get(words.INPUT_TOKENS),
        record.get(words.OUTPUT_TOKENS),
        record.get(words.TOTAL_TOKENS),
    )
    if isinstance(read, _COUNT) and isinstance(written, _COUNT) and isinstance(total, _COUNT):
        return ModelUsage(read, written, total)
    raise DamagedRecordError(words.USAGE, "an object of whole numbers")


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
    """Return the record of an answer, whole or partial; what has its default is left out.

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

    Raises:
        DamagedRecordError: the record holds something else.
    """
    if row is None:
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

    return decode_row(row, decode)


def optional_amount(record: JsonObject) -> BudgetAmount | None:
    """Return what a record says was spent, None where it does not say.

    Raises:
        DamagedRecordError: the record holds something else.
    """
    return nested(record, words.SPENT, decode_amount) if words.SPENT in record else None


def trust_in(record: JsonObject) -> TrustLabel | None:
    """Return the trust label of a record, None where it has none.

    Raises:
        DamagedRecordError: the record holds something else.
    """
    return nested(record, words.TRUST, _label) if words.TRUST in record else None


def _label(payload: JsonObject) -> TrustLabel:
    try:
        return TrustLabel.from_payload(payload)
    except AgentDefinitionError as error:
        raise DamagedRecordError("label", "a trust label") from error


def taken_ids(row: JournalRow) -> Iterator[str]:
    """Return the ids of the signals that the view of a row says were taken in."""
    taken = object_or_empty(row.view).get(words.RESULT) if row.kind is AgentActionKind.SIGNAL else None
    for signal in taken if isinstance(taken, (list, tuple)) else ():
        signal_id = signal.get(words.ID) if isinstance(signal, dict) else None
        if isinstance(signal_id, str):
            yield signal_id
