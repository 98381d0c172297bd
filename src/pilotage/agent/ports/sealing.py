"""The sealing port: records that only the application's key opens.

A seal is bound to its place in the journal. What was sealed in one place does not open in any other, so
a writer to the store cannot make a run replay another run's record.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Self

from pilotage.agent.ports.persistence import JournalStage, RunKey, SealedRecord
from pilotage.checks import reject_blank, reject_not_positive
from pilotage.container.pod import provided_by
from pilotage.errors import AgentPersistenceConfigurationError, RunError
from pilotage.jsonvalue import canonical_json, to_bytes
from pilotage.values import value


@value
class SealContext:
    """The place of a record: tenant, run, action, stage and attempt."""

    run: RunKey
    action_id: str
    stage: JournalStage
    attempt: int = 1

    def __post_init__(self) -> None:
        reject_blank(self, action_id=self.action_id)
        reject_not_positive(self, attempt=self.attempt)

    @property
    def binding(self) -> bytes:
        """The bytes a seal covers besides the text: equal for equal places, different for all others."""
        place = [self.run.tenant_id, self.run.run_id, self.action_id, self.stage.value, self.attempt]
        return to_bytes(canonical_json(place))

    def __str__(self) -> str:
        return f"the {self.stage.value} record of {self.action_id!r} in run {self.run.run_id!r}"


class RecordSealError(RunError):
    """A record cannot be sealed or opened. The run is unharmed and can go on where the key is.

    Unless `is_damaged`: then the key is there, and the record is not the one that was sealed.
    """

    message: ClassVar[str] = "A record of the run cannot be sealed or opened."
    code: ClassVar[str] = "record_seal_error"

    def __init__(self, *args: object, key_id: str | None = None, is_damaged: bool = False) -> None:
        super().__init__(*args)
        self.key_id = key_id
        self.is_damaged = is_damaged

    @classmethod
    def unknown_key(cls, context: SealContext, key_id: str, way_out: str) -> Self:
        """Return the error of a record that was sealed with a key which is not at hand."""
        words = (
            f"{context} is sealed with the key {key_id!r}, which this application does not have. {way_out}"
        )
        return cls(words, key_id=key_id)

    @classmethod
    def does_not_open(cls, context: SealContext, key_id: str) -> Self:
        """Return the error of a seal that the key, which is at hand, has not made for this place."""
        return cls(
            f"{context} does not open with the key {key_id!r}: the record was changed, or comes from another "
            "place. Verify the run's journal, and restore the row from a backup.",
            key_id=key_id,
            is_damaged=True,
        )


@provided_by("pilotage[sealing]", family=AgentPersistenceConfigurationError)
class IRecordSealer(ABC):
    """Seals and opens records with the application's key.

    Every adapter guarantees: what it sealed it opens again, character for character, lone surrogates included,
    and so does every other instance that has the key. Two seals of one text differ. A changed ciphertext, key id
    or context does not open. No error holds anything of the text. `key_id` says which key made a seal and
    nothing about the key itself.

    The methods are not async: a record is sealed where it is appended, and appending must not let anything else
    of the run happen in between. An adapter that gets its key from far away does so when the application
    starts.
    """

    def record_keys(self) -> Mapping[str, bytes]:
        """Return the keys that authenticate rows, by the ids of the keys they are derived from, the current one first.

        Instances with the same key give the same. They are no keys that seal. Without any, rows are chained plainly:
        damage is found, but not a change by a party that can write to the database.
        """
        return {}

    @abstractmethod
    def seal(self, context: SealContext, plaintext: str) -> SealedRecord:
        """Seal a text for its place.

        Raises:
            RecordSealError: the key cannot be used.
        """

    @abstractmethod
    def open(self, context: SealContext, sealed: SealedRecord) -> str:
        """Return the text that was sealed for this place.

        Raises:
            RecordSealError: its key is not at hand, or the seal is not one of this key for this place.
        """
