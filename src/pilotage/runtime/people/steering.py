"""The revisions of steering instructions in one attempt: which are usable, and which end without being taken in.

The processed revisions of each input are in the journal: texts that were taken in, in the records of their actions;
drafts and withdrawals, which reach no program, in CLAIMED rows. A revision ends in the commit of that row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pilotage.agent.ports.persistence import JournalRow
from pilotage.agent.signals import (
    AgentSignal,
    AgentSignalEnd,
    AgentSteeringUpdate,
    InputProgress,
    progress_after,
    settle_revisions,
    update_of,
)
from pilotage.errors import SteeringConflictError
from pilotage.jsonvalue import JsonObject, JsonValue
from pilotage.runtime.journal import stored_words as words
from pilotage.runtime.journal.ledger import Ledger
from pilotage.runtime.journal.record_fields import (
    contract_value,
    count_field,
    decode_row,
    list_field,
    object_or_empty,
    objects_field,
    text_field,
)

_TAKEN_BEFORE = "came too late: the run has taken in the instruction that it revises"
_REVISED = "is superseded: the instruction has a newer revision"


class SteeringInputs:
    """The inputs of steering instructions of one run, and what the run has processed of each."""

    def __init__(self, taken: Iterable[JournalRow] = (), claims: Iterable[JournalRow] = ()) -> None:
        self._known = {name: InputProgress(revision) for name, revision in noted_revisions(claims).items()}
        for row in taken:
            self.take_in(decode_row(row, signals_in))

    def take_in(self, signals: Sequence[AgentSignal]) -> None:
        """Remember that the run has taken these signals in."""
        self._known |= progress_after(signals, is_taken=True)

    def settle(self, waiting: Sequence[AgentSignal], ledger: Ledger) -> list[AgentSignal]:
        """Return the signals that may be taken in; end the others with the next commit."""
        settled = settle_revisions(waiting, self._known)
        for signal in settled.late:
            ledger.close_signal(signal, AgentSignalEnd.TOO_LATE, _TAKEN_BEFORE)
        for signal in settled.superseded:
            ledger.close_signal(signal, AgentSignalEnd.SUPERSEDED, _REVISED)
        if settled.noted:
            noted = progress_after(settled.noted, is_taken=False)
            self._known |= noted
            record = revision_note({name: each.revision for name, each in noted.items()})
            ledger.claim(record, record)
            for signal in settled.noted:
                ledger.consume_signal(signal.id)
        return settled.usable


def refuse_revision(update: AgentSteeringUpdate, sent: Sequence[AgentSignal]) -> None:
    """Refuse a revision that would change nothing, by the steering instructions that were sent to its run before.

    Raises:
        SteeringConflictError: the run has taken the input in, or a newer revision was sent.
    """
    for signal in sent:
        other = update_of(signal)
        if other is None or other.input_id != update.input_id:
            continue
        place: dict[str, Any] = {"input_id": update.input_id, "revision": other.revision}
        if other.is_used and signal.end is AgentSignalEnd.TAKEN:
            raise SteeringConflictError(
                f"revision {update.revision} of input {update.input_id!r} is too late: the run has taken revision "
                f"{other.revision} in. Send a new instruction, with another input id.",
                **place,
                is_taken=True,
            )
        if other.revision > update.revision:
            raise SteeringConflictError(
                f"revision {update.revision} of input {update.input_id!r} is superseded: revision {other.revision} "
                "was sent before it.",
                **place,
            )


def refuse_other_content(
    update: AgentSteeringUpdate, stored: AgentSteeringUpdate | None, masked: AgentSteeringUpdate | None
) -> None:
    """Refuse a revision that was sent before with another content; `masked` is the update without secrets.

    Raises:
        SteeringConflictError: the stored revision has another text.
    """
    if stored not in (update, masked):
        raise SteeringConflictError(
            f"revision {update.revision} of input {update.input_id!r} was sent before, with another content. "
            "Send a change as the next revision.",
            input_id=update.input_id,
            revision=update.revision,
        )


def signals_in(record: JsonObject) -> list[AgentSignal]:
    """Return the signals in the record of an action that took them in."""
    return [contract_value(AgentSignal, each) for each in list_field(record, words.RESULT)]


def revision_note(revisions: Mapping[str, int]) -> JsonObject:
    """Return the record that names drafts and withdrawals of steering instructions, by input and revision."""
    noted: list[JsonValue] = [{words.INPUT_ID: each, words.REVISION: revisions[each]} for each in revisions]
    return {words.NOTED_REVISIONS: noted}


def noted_revisions(claims: Iterable[JournalRow]) -> dict[str, int]:
    """Return the newest draft or withdrawal of each input that the run has noted."""
    found: dict[str, int] = {}
    for row in claims:
        if words.NOTED_REVISIONS in object_or_empty(row.record):
            for each in decode_row(row, lambda record: objects_field(record, words.NOTED_REVISIONS)):
                found[text_field(each, words.INPUT_ID)] = count_field(each, words.REVISION)
    return found
