"""Records of actions: BEFORE and AFTER of any action, child runs, folds, context changes. Pure.

A record may carry a trust label beside its own fields; where it has none, it adds nothing to what the run knows.
"""

from __future__ import annotations

from typing import TypeAlias

from pilotage.agent.ports.budget import BudgetAmount
from pilotage.errors import AgentDefinitionError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.exposure.trust import with_label
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.record_fields import (
    DamagedRecordError,
    count_field,
    counts_field,
    nested,
    nested_list,
    optional_object,
    optional_text,
    text_field,
    value_field,
)
from pilotage.runtime.journal.records import decode_amount, encode_amount, optional_amount
from pilotage.safety.trust import TrustLabel
from pilotage.values import value


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


@value
class BeginRecord:
    """The BEFORE record of an action: the arguments as asked, and those it runs with where a person changed them."""

    asked: JsonValue
    executed: JsonObject | None = None

    def encode(self) -> JsonObject:
        """Return the record as JSON."""
        if self.executed is None:
            return {words.ASKED: self.asked}
        return {words.ASKED: self.asked, words.EXECUTED: self.executed}

    @classmethod
    def decode(cls, record: JsonObject) -> BeginRecord:
        """Return what `encode` wrote."""
        return cls(value_field(record, words.ASKED), optional_object(record, words.EXECUTED))


@value
class RecordedResult:
    """The AFTER record of an action that has a result, or the fold of a branch or turn that has one."""

    result: JsonValue

    def encode(self) -> JsonObject:
        """Return the record as JSON."""
        return {words.RESULT: self.result}


@value
class RecordedError:
    """The AFTER record of an action that failed for certain, or the fold of a branch that did."""

    error: str

    def encode(self) -> JsonObject:
        """Return the record as JSON."""
        return {words.ERROR: self.error}


OutcomeRecord: TypeAlias = RecordedResult | RecordedError


def decode_outcome(record: JsonObject) -> OutcomeRecord:
    """Return the outcome of an action, a folded branch or a folded turn."""
    if words.ERROR in record:
        return RecordedError(text_field(record, words.ERROR))
    return RecordedResult(value_field(record, words.RESULT))


@value
class ChildRecord:
    """The result of a delegation: the output of the child run or the words of its failure, and what it spent.

    `trust` is the label of what the child knew; that of run input is not written.
    """

    spent: BudgetAmount
    output: JsonValue = None
    error: str | None = None
    trust: TrustLabel | None = None

    def encode(self) -> JsonObject:
        """Return the record as JSON."""
        record: dict[str, JsonValue] = {words.SPENT: encode_amount(self.spent)}
        if self.error is not None:
            record[words.ERROR] = self.error
        else:
            record[words.OUTPUT] = self.output
        return record if self.trust is None else with_label(record, self.trust)

    @classmethod
    def decode(cls, record: JsonObject) -> ChildRecord:
        """Return what `encode` wrote."""
        spent, trust = nested(record, words.SPENT, decode_amount), trust_in(record)
        if words.ERROR in record:
            return cls(spent, error=text_field(record, words.ERROR), trust=trust)
        return cls(spent, value_field(record, words.OUTPUT), trust=trust)


@value
class TakenBranches:
    """The fold of a `gather` that succeeded: the numbers of the branches whose results count, in order."""

    branches: tuple[int, ...]

    def encode(self) -> JsonObject:
        """Return the record as JSON."""
        return {words.TAKEN: list(self.branches)}


GatherRecord: TypeAlias = TakenBranches | RecordedError


def decode_gather(record: JsonObject) -> GatherRecord:
    """Return the decision of a folded `gather`."""
    if words.ERROR in record:
        return RecordedError(text_field(record, words.ERROR))
    return TakenBranches(counts_field(record, words.TAKEN))


@value
class ContextStep:
    """One step of a context change: the number of its strategy, and the summary where the step needed one."""

    strategy: int
    summary: str | None = None

    def encode(self) -> JsonObject:
        """Return the step as JSON."""
        return {words.STRATEGY: self.strategy, words.SUMMARY: self.summary}

    @classmethod
    def decode(cls, record: JsonObject) -> ContextStep:
        """Return what `encode` wrote."""
        return cls(count_field(record, words.STRATEGY), optional_text(record, words.SUMMARY))


@value
class ContextChange:
    """The record of a condensed context: its steps in order, and what their summaries spent."""

    steps: tuple[ContextStep, ...]
    spent: BudgetAmount = BudgetAmount()

    def encode(self) -> JsonObject:
        """Return the record as JSON; an amount of nothing is left out."""
        steps: list[JsonValue] = [step.encode() for step in self.steps]
        if self.spent == _NOTHING:
            return {words.STEPS: steps}
        return {words.STEPS: steps, words.SPENT: encode_amount(self.spent)}

    @classmethod
    def decode(cls, record: JsonObject) -> ContextChange:
        """Return what `encode` wrote."""
        steps = nested_list(record, words.STEPS, ContextStep.decode)
        return cls(steps, optional_amount(record) or _NOTHING)


_NOTHING = BudgetAmount()
