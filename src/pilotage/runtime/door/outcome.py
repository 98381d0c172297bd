"""Recording the outcome of an effect: the program gets the same, live and in replay.

The one module that appends the rows of actions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from pilotage.agent.facts import action_completed
from pilotage.agent.ports.persistence import JournalRow, JournalStage
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.safety_checks import withheld_by
from pilotage.errors import AgentStructuredOutputError, RunError
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json, in_record_order
from pilotage.runtime.budget.charges import costs_of
from pilotage.runtime.effect import QUESTION, Effect, Outcome, naming_secrets, new_outcome
from pilotage.runtime.exposure.redactor import (
    Failure,
    Redactor,
    is_foreign,
    log_failure,
    passed_on,
    secretless,
)
from pilotage.runtime.exposure.trust import labelled
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.interruptions import RunOwnershipLost
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.record_fields import object_or_empty, optional_object
from pilotage.runtime.journal.recording import RecordedAction, recorded_action
from pilotage.runtime.journal.recovery import LateOutcomes
from pilotage.runtime.journal.replay import Replay
from pilotage.runtime.journal.result_codec import (
    Scalars,
    decode_error,
    encode_error,
    encode_failure,
    record_of_result,
    without_changed,
)
from pilotage.runtime.journal.scope import Action
from pilotage.safety.fields import SECRET_VALUE, SecretField, SensitiveFieldDescriptor
from pilotage.safety.guard import EvidenceExposurePolicy, guard_json_value
from pilotage.safety.trust import TrustLabel

UNKNOWN_OUTCOME = "the outcome is unknown: the run ended while the call was under way"
UNKNOWN_INSIDE = "the outcome is unknown: the call around it was found to be done"

# Looking a member up costs as much as a call.
_BEFORE, _AFTER = JournalStage.BEFORE, JournalStage.AFTER
_SECRET = SecretField()
_TOOL_CALL = AgentActionKind.TOOL_CALL
_TOOLS_AND_STEPS = frozenset({_TOOL_CALL, AgentActionKind.STEP})


_WITHDRAWN: JsonObject = {words.WITHDRAWN: True}
WITHDRAWN = new_outcome(_WITHDRAWN, _WITHDRAWN, None)
"""The outcome of a question that the program does not wait for any more."""


class Outcomes:
    """Writes the rows of the actions of one attempt. `under_way` has the actions that were begun and have no outcome.

    `has_readers` is True if the views have a reader: the results of an ephemeral run without hooks have none.
    """

    late: LateOutcomes | None = None
    agent_version = 1
    """The version of the agent, for the costs of its calls."""
    _entered_again: frozenset[str] = frozenset()
    _unknown: frozenset[str] = frozenset()

    def __init__(
        self, ledger: Ledger, redactor: Redactor, replay: Replay, *, has_readers: bool = True
    ) -> None:
        self.under_way: dict[str, tuple[Action, int]] = {}
        self.begun: dict[str, Effect] = {}
        """Those of them that began in this attempt."""
        self.has_readers = has_readers
        self._closed: set[str] = set()
        self._ledger = ledger
        self._redactor = redactor
        self._replay = replay
        self._cuts: list[tuple[Effect, Sequence[Effect]]] = []

    def write_before(self, effect: Effect) -> None:
        """Write the row of an effect that begins, with the fact that follows from it."""
        record, view = effect.asked()
        if not self._redactor.is_idle and effect.kind is not QUESTION:
            # A repetition after a crash gets them from the program, which makes the same call again.
            record = secretless(record, self._redactor)
            view = self._redactor.json(view)
        if self._cuts:
            self.write_cuts()
        self._ledger.append(
            effect.action,
            _BEFORE,
            effect.attempt,
            record,
            view,
            tool=effect.descriptor,
            number=effect.number,
        )
        if effect.begins is not None:
            self._ledger.add_fact(effect.begins)

    def begin(self, effect: Effect, *, is_entered_again: bool = False) -> None:
        """Count an action as under way: from now on its outcome is unknown until it is recorded."""
        self.under_way[effect.action.id] = (effect.action, effect.attempt)
        self.begun[effect.action.id] = effect
        if is_entered_again:
            self._entered_again |= {effect.action.id}

    def leave_unknown(self, effect: Effect) -> None:
        """Leave the outcome of an action under way unknown: the end of the attempt does not suspend it."""
        self._unknown |= {effect.action.id}

    def suspend(self, asked_about: Collection[str] = (), *, only_entered_again: bool = False) -> None:
        """Record with the next commit which actions the end of the attempt interrupts between two calls inside.

        No call is under way: what has begun and has no outcome was left by the interruption of a call inside of it, or
        is `asked_about`. `only_entered_again` leaves the record as it was.
        """
        suspended = {
            action.id: attempt
            for action, attempt in self.under_way.values()
            if not action.may_be_repeated
            and action.id not in asked_about
            and action.id not in self._unknown
            and (not only_entered_again or action.id in self._entered_again)
        }
        if suspended:
            self._ledger.suspend(suspended)

    def still_open(self, replay: Replay) -> list[tuple[Action, int]]:
        """Return everything that was begun, in this attempt or in an earlier one, and has no outcome."""
        if not self.under_way and not replay.has_record:
            return []
        begun = {action.id: (action, attempt) for action, attempt in replay.under_way()}
        begun |= self.under_way
        return [each for action_id, each in begun.items() if action_id not in self._closed]

    def done(self, effect: Effect, result: object) -> Outcome:
        """Record the result of an effect, and return its record, its view and the program's value.

        Raises:
            UnfitResultError: the result cannot be recorded, and nothing is.
        """
        outcome = result if isinstance(result, Outcome) else self.outcome_of(effect, result)
        if self._ledger.is_durable:
            self.record(effect, outcome)
            self._report(effect, has_failed=False)
        elif self.under_way:
            self.under_way.pop(effect.action.id, None)
        return outcome

    def unread(self, effect: Effect, result: object) -> object:
        """Return a result as the program gets it, where it has no readers: nothing is recorded, and no view is made.

        Raises:
            UnfitResultError: the result could not be recorded.
        """
        if self.under_way:
            self.under_way.pop(effect.action.id, None)
        if type(result) in effect.codec.same and not self._may_hold_secrets(effect):
            return result
        return result.result if isinstance(result, Outcome) else self.outcome_of(effect, result).result

    def failed(self, effect: Effect, error: BaseException) -> RunError:
        """Record that an effect failed for certain, and return the error the program gets, now and in replay."""
        if self._ledger.is_durable:
            self._report(effect, has_failed=True)
        return self.ended(effect, error)

    def ended(self, effect: Effect, error: BaseException) -> RunError:
        """Record an error as the outcome, and return it as the program gets it, now and in replay."""
        failure = self.failure_of(effect, error)
        if failure is None:
            record = without_secrets(encode_error(error, effect.errors), self._redactor)
            view = _shown_error(effect, record)
        else:
            record = encode_failure(failure)
            view = encode_failure(replace(failure, words=None))
        self.record(effect, new_outcome(record, self._redactor.json(view), None))
        return decode_error(record, effect.errors)

    def failure_of(self, effect: Effect, error: BaseException) -> Failure | None:
        """Return a failure with a foreign exception, which is logged; None for an error whose words travel.

        Without a key the words are only in the log.
        """
        if is_foreign(error):
            place = f"{effect.action.id} attempt {effect.attempt}"
            failure = log_failure(error, self._redactor, run_id=self._ledger.run.run_id, place=place)
        else:
            passed = passed_on(error)
            if passed is None:
                return None
            failure = passed
        return failure if self._ledger.has_key else replace(failure, words=None)

    def record(self, effect: Effect, outcome: Outcome) -> None:
        """Write the row of an outcome, with the label of what was learned by it."""
        if effect.has_row:
            return
        if effect.action.is_read_only and effect.action.kind is _TOOL_CALL:
            outcome = self._with_arguments(effect, outcome)
        if self._redactor.revision:
            outcome = self._without_secrets_in(outcome)
        if self._cuts:
            self.write_cuts()
        if effect.learned is not None:
            outcome = _labelled(outcome, effect.learned)
        if effect.descriptor is not None and effect.descriptor.secrets:
            outcome = naming_secrets(outcome, effect.got_secrets)
        call = effect.call
        turn = None if call is None else self._replay.recorded(call)
        try:
            self._ledger.append(
                effect.action,
                _AFTER,
                effect.attempt,
                outcome.record,
                outcome.view,
                tool=effect.descriptor,
                added=outcome.added,
                number=effect.number,
                turn=turn,
                costs=self._costs_of(effect, outcome.record),
            )
        except RunOwnershipLost:
            if self.late is not None:
                self.late.report(effect.action, effect.attempt, outcome.view)
            raise
        if self.under_way and self.under_way.pop(effect.action.id, None) is not None:
            self.begun.pop(effect.action.id, None)
            self._closed.add(effect.action.id)

    def _costs_of(self, effect: Effect, record: JsonObject) -> str:
        """Return what the row says about costs; that of an ephemeral run is not stored."""
        if not self._ledger.is_durable:
            return ""
        return costs_of(effect.kind, effect.action.id, record, self.agent_version)

    def _with_arguments(self, effect: Effect, outcome: Outcome) -> Outcome:
        """Return the outcome of a call that only reads with the call's arguments in its view: it has no row before."""
        if not self.has_readers:
            return outcome
        _, asked = effect.asked()
        if not asked.get(words.ASKED):
            return outcome
        shown = asked if self._redactor.is_idle else self._redactor.json(asked)
        return new_outcome(outcome.record, outcome.view, outcome.result, {**shown, **(outcome.added or {})})

    def fold(self, action: Action, record: JsonObject) -> None:
        """Write the row that stands for a finished branch or turn."""
        if self._cuts:
            self.write_cuts()
        record = secretless(record, self._redactor)
        self._ledger.append(action, JournalStage.FOLDED, 1, record, self._redactor.json(record))

    def cut(self, effect: Effect, withdrawn: Sequence[Effect] = ()) -> None:
        """Record that the program cut a call short, with the next row: an attempt that is stopped has cut nothing.

        `withdrawn` are the questions that it waited for.
        """
        if effect.call is not None and effect.call.cut_at is not None:
            self._cuts.append((effect, withdrawn))
            self.under_way.pop(effect.action.id, None)
            self._closed.add(effect.action.id)

    def write_cuts(self) -> None:
        """Write the rows of the calls that the program has cut short since the last row."""
        cuts, self._cuts = self._cuts, []
        for effect, withdrawn in cuts:
            for question in withdrawn:
                self.record(question, WITHDRAWN)
            record = effect.cut_record()
            if effect.learned is not None:
                record = labelled(record, effect.learned)
            turn = None if effect.call is None else effect.call.cut_at
            self._ledger.append(
                effect.action,
                _AFTER,
                effect.attempt,
                record,
                record,
                number=effect.number,
                turn=turn,
                costs=self._costs_of(effect, record),
            )

    def decide(self, effect: Effect, outcome: Outcome, added: JsonObject) -> None:
        """Write the row of an outcome that a person decided; `added` has the person and the reason.

        It has a turn: the program gets the outcome of a call that was open after everything it got before.
        """
        self._ledger.append(
            effect.action,
            _AFTER,
            effect.attempt,
            outcome.record,
            outcome.view,
            tool=effect.descriptor,
            added=added,
            number=effect.number,
            turn=0,
        )

    def withdraw(self, question: JournalRow) -> None:
        """Write the row that a question is not asked any more."""
        self._ledger.append(
            recorded_action(question),
            _AFTER,
            question.attempt,
            _WITHDRAWN,
            _WITHDRAWN,
            number=question.number,
        )

    def close_as_unknown(self, open_actions: Sequence[tuple[Action, int]]) -> None:
        """Record for calls that were under way when the run ended that their outcome is unknown."""
        record: JsonObject = {words.ERROR: UNKNOWN_OUTCOME}
        for action, number in open_actions:
            self._ledger.append(action, _AFTER, number, record, record)

    def close_inside(self, action_id: str) -> None:
        """Record that the outcomes of open actions stay unknown, because the action around them has its outcome now."""
        self._closed.add(action_id)
        record: JsonObject = {words.ERROR: UNKNOWN_INSIDE}
        for each in self._replay.open_inside(action_id):
            row = each.row
            self._ledger.append(recorded_action(row), _AFTER, each.attempt, record, record, number=row.number)
            self._closed.add(row.action_id)

    def outcome_of(self, effect: Effect, result: object) -> Outcome:
        """Return the outcome that a result makes: its record, and what the program gets of it, now as in replay.

        Raises:
            UnfitResultError: the result cannot be recorded, or not be read back.
        """
        codec = effect.codec
        if type(result) in codec.same and not self._may_hold_secrets(effect):
            plain: Any = result
            own: JsonObject = {words.RESULT: plain}
            view = effect.view_of(plain) if self.has_readers else own
            return new_outcome(own, view if self._redactor.is_idle else self._redactor.json(view), result)
        try:
            return self._encoded(effect, *codec.encode(result))
        except (TypeError, ValueError, RecursionError, AgentStructuredOutputError) as error:
            reason = f"{effect.action.name!r} was done, but its result cannot be recorded: {error}"
            raise UnfitResultError(reason) from error

    def _encoded(self, effect: Effect, whole: JsonValue, scalars: Scalars) -> Outcome:
        recorded = whole
        if self._may_hold_secrets(effect):
            recorded = self._without_secrets(effect, whole)
            scalars = without_changed(scalars, whole, recorded)
        record = record_of_result(in_record_order(recorded), scalars)
        view = record
        if self.has_readers:
            view = effect.view_of(whole)
            if not self._redactor.is_idle:
                view = self._redactor.json(view)
            if scalars and view.get(words.RESULT) == recorded:
                view = {**view, words.SCALARS: record[words.SCALARS]}
        return new_outcome(record, view, effect.codec.read(record))

    def _without_secrets_in(self, outcome: Outcome) -> Outcome:
        """Return an outcome without secrets in its record and its view."""
        record = secretless(outcome.record, self._redactor)
        added = None if outcome.added is None else secretless(outcome.added, self._redactor)
        return new_outcome(record, secretless(outcome.view, self._redactor), outcome.result, added)

    def _report(self, effect: Effect, *, has_failed: bool) -> None:
        """Publish the fact of an effect that is not read-only; a child reports its own outcome."""
        action = effect.action
        if not action.is_read_only and action.kind in _TOOLS_AND_STEPS:
            state = self._ledger.state
            fact = action_completed(state, action.id, action.kind, action.name, has_failed=has_failed)
            self._ledger.add_fact(fact)

    def _may_hold_secrets(self, effect: Effect) -> bool:
        tool = effect.descriptor
        return self._redactor.revision > 0 or (tool is not None and bool(tool.secret_results))

    def _without_secrets(self, effect: Effect, result: JsonValue) -> JsonValue:
        """Remove secrets from a record: not even a sealed one holds them."""
        if secrets := _secrets_of(effect):
            result = guard_json_value(result, secrets, EvidenceExposurePolicy())
        return secretless(result, self._redactor) if self._redactor.revision else result


def _labelled(outcome: Outcome, label: TrustLabel) -> Outcome:
    """Return an outcome with its label in the record and in the view: a view equal to the record is stored once."""
    return replace(outcome, record=labelled(outcome.record, label), view=labelled(outcome.view, label))


class UnfitResultError(Exception):
    """The result of an effect cannot be recorded, or not be read back; the effect has taken place."""


def executed_arguments(effect: Effect, recorded: RecordedAction) -> JsonObject | None:
    """Return the arguments that the last attempt ran with: those of a person, or those of a tool with its defaults.

    Where a secret is masked in a recorded one, that of the program counts, which makes the same call.
    """
    before = recorded.before
    if before is None:
        return None
    record = object_or_empty(before.record)
    executed = optional_object(record, words.EXECUTED)
    if executed is None and effect.descriptor is not None:
        executed, own = optional_object(record, words.ASKED), object_or_empty(effect.action.asked)
        for name in [name for name, each in (executed or {}).items() if _has_mark(each) and name in own]:
            executed = {**(executed or {}), name: own[name]}
    return executed


def _has_mark(argument: JsonValue) -> bool:
    """Return whether a recorded argument may have had a secret."""
    return SECRET_VALUE in canonical_json(argument)


def _shown_error(effect: Effect, record: JsonObject) -> JsonObject:
    """Return the record of an error for readers: without its data where the tool withholds arguments or results."""
    tool = effect.descriptor
    if words.DECLARED not in record or tool is None or not withheld_by(tool):
        return record
    return {words.ERROR: record[words.ERROR]}


def without_secrets(record: JsonObject, redactor: Redactor) -> JsonObject:
    """Return the record of an error with the run's secrets masked; data that holds one is left out."""
    masked = secretless(record, redactor)
    return masked if masked == record else {words.ERROR: masked[words.ERROR]}


def _secrets_of(effect: Effect) -> list[SensitiveFieldDescriptor]:
    """Return where a result holds secrets, each replaced by a mark: without the field it could not be read back."""
    if effect.descriptor is None or not effect.descriptor.secret_results:
        return []
    return [replace(each, field=_SECRET) for each in effect.descriptor.secret_results]
