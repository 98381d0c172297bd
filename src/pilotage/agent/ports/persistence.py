"""Values that the persistence ports share: the extra that provides them, the key of a run, the rows of a journal."""

from __future__ import annotations

from dataclasses import field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Protocol, TypeAlias, cast

from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.checks import reject_blank, reject_naive, reject_not_positive
from pilotage.container.pod import provided_by
from pilotage.errors import AgentPersistenceConfigurationError
from pilotage.filling import unchecked, unchecked_without
from pilotage.jsonvalue import JsonObject, JsonValue, canonical_json
from pilotage.values import value

persistence_port = provided_by("pilotage[sqlalchemy]", family=AgentPersistenceConfigurationError)


class JournalStage(StrEnum):
    """The stage of an action that a row records; `CLAIMED` and `TOLD` belong to no action.

    `CLAIMED` names the owner of the run from here on, `TOLD` the events that subscribers got.
    """

    CLAIMED = "claimed"
    BEFORE = "before"
    AFTER = "after"
    FOLDED = "folded"
    TOLD = "told"

    @property
    def has_action(self) -> bool:
        """Whether a row of this stage belongs to an action; an action has one of each stage per attempt."""
        return self is not JournalStage.CLAIMED and self is not JournalStage.TOLD


@value
class RunKey:
    """A run within its tenant; a foreign tenant's run is not found."""

    tenant_id: str
    run_id: str

    def __post_init__(self) -> None:
        reject_blank(self, tenant_id=self.tenant_id, run_id=self.run_id)


@value
class SealedRecord:
    """A record that only the application's key opens, where record and evidence view differ."""

    key_id: str
    ciphertext: str


@value
class ErasedRecord:
    """The record of a row whose payloads were erased: their digest, by which the chain still holds."""

    digest: str


@value
class UnreadableRecord:
    """Stands for a record that the store has and cannot decode; `reason` says why."""

    reason: str


StoredRecord: TypeAlias = "JsonValue | SealedRecord | ErasedRecord | UnreadableRecord"
"""The record of a row as a reader of the journal gets it."""


@value
class RowTexts:
    """A record and a view with their canonical texts, made once, when the row was chained.

    `added_json` is what the view says besides, where it is known to say all that the record says.
    """

    record: StoredRecord
    view: JsonValue
    record_json: str
    view_json: str
    added_json: str | None = None

    @classmethod
    def of(cls, record: StoredRecord, view: JsonValue, added: JsonObject | None = None) -> RowTexts:
        """Return the texts of a row's payloads; that of a sealed record is the object it is kept as.

        A view that is an object may say something besides.
        """
        if record is None:
            text = "null"
        elif isinstance(record, SealedRecord):
            text = canonical_json({"key": record.key_id, "ciphertext": record.ciphertext})
        elif isinstance(record, ErasedRecord):
            text = canonical_json({"erased": record.digest})
        elif isinstance(record, UnreadableRecord):
            text = canonical_json({"unreadable": record.reason})
        else:
            text = canonical_json(record)
        if added:
            return cls._with_added(record, cast("JsonObject", view), text, added)
        return _new_texts(record, view, text, text if view is record else canonical_json(view))

    @classmethod
    def _with_added(cls, record: StoredRecord, view: JsonObject, text: str, added: JsonObject) -> RowTexts:
        whole = {**view, **added}
        if view is not record:
            return cls(record, whole, text, canonical_json(whole))
        added_text = canonical_json(added)
        # Names are sorted: where those of the one come first, the texts follow one another.
        if view and max(added) < min(view):
            return _new_texts(record, whole, text, f"{added_text[:-1]},{text[1:]}", added_text)
        return cls(record, whole, text, canonical_json(whole), added_text)


_new_texts = unchecked(RowTexts)


class IStoredRow(Protocol):
    """The payloads and the time of a row as a store has read them, decoded on first use.

    A record that cannot be decoded is an `UnreadableRecord`, such a view is None: readers see the other rows all the
    same, and a run with such a row is not resumed.
    """

    @property
    def is_plain(self) -> bool:
        """Whether the record is neither sealed nor erased."""
        ...

    @property
    def record(self) -> StoredRecord: ...
    @property
    def view(self) -> JsonValue: ...
    @property
    def payloads(self) -> tuple[str, str]:
        """The canonical texts of record and view, not decoded; that of a sealed record is the one of `RowTexts`.

        Raises:
            LookupError, TypeError, ValueError: a part of them is missing or is no text of a row.
        """
        ...

    @property
    def created_at(self) -> datetime | None: ...
    @property
    def moment(self) -> str:
        """The text of the time, see `JournalRow.moment`."""
        ...


@value
class JournalRow:
    """One row: `record` is what replay returns, `view` what readers of the run may see.

    A row whose stage has no action has no `kind` either, and any name for an `action_id`. `digest` chains the row
    to the one before; `created_at` is the time that its writer gives, else that of the store. `salt` goes into the
    digest of the payloads, so that an erased row cannot be guessed. `texts` are what a store writes. A row that a store
    has read takes its payloads from its `source`, decoded on first use.

    `number` is the position of the row's call among the calls of its scope; 0 for rows of no call, and for rows of
    versions that did not number calls. `turn` is the place of an outcome among those that the program got in turn; None
    for one that took no turn. `events` is a text about the events that readers got by now; the runtime makes and reads
    it, and it is erased with the payloads. `costs` is one about the tokens and money that the row was paid for
    (`pilotage.agent.ports.costs`): names, counts and amounts only, so it stays when payloads are erased.
    """

    seq: int
    action_id: str
    kind: AgentActionKind | None
    stage: JournalStage
    attempt: int
    epoch: int
    fingerprint: str
    idempotency: Idempotency
    record: StoredRecord
    view: JsonValue
    digest: str
    created_at: datetime | None = None
    salt: str = ""
    number: int = 0
    turn: int | None = None
    events: str = ""
    costs: str = ""
    encoded: RowTexts | None = field(default=None, repr=False, compare=False)
    source: IStoredRow | None = field(default=None, repr=False, compare=False)

    def _make_later(self, name: str) -> object:
        return getattr(self.source, name)

    @property
    def is_plain(self) -> bool:
        """Whether the record is neither sealed nor erased; it is not decoded to find out."""
        if self.source is not None:
            return self.source.is_plain
        return not isinstance(self.record, (SealedRecord, ErasedRecord, UnreadableRecord))

    @property
    def moment(self) -> str:
        """The text of the time that the row was given; empty where it has none."""
        if self.source is not None:
            return self.source.moment
        return "" if self.created_at is None else self.created_at.isoformat()

    @property
    def texts(self) -> RowTexts:
        """The canonical texts of record and view; made now where the row was changed since it was chained."""
        known = self.encoded
        if known is not None and known.record is self.record and known.view is self.view:
            return known
        return RowTexts.of(self.record, self.view)

    def __post_init__(self) -> None:
        if self.source is not None:
            # A changed copy of a row that was read: all of it is known, and what it was read from says something else.
            object.__setattr__(self, "source", None)
        # Runs have thousands of rows, and hardly one is wrong: what exactly, is looked for then.
        is_named = self.action_id.strip() and self.digest.strip()
        is_counted = type(self.seq) is type(self.attempt) is type(self.epoch) is int
        is_dated = self.created_at is None or self.created_at.tzinfo is UTC
        if is_named and is_counted and is_dated and self.seq > 0 < self.attempt and self.epoch > 0:
            return
        reject_blank(self, action_id=self.action_id, digest=self.digest)
        reject_not_positive(self, seq=self.seq, attempt=self.attempt, epoch=self.epoch)
        reject_naive(self, created_at=self.created_at)


stored_row = unchecked_without(JournalRow, "record", "view", "created_at")
"""A row as a store has kept it, which was checked when it was written; what it says is still in its source."""

recorded_row = unchecked_without(JournalRow, "view", "created_at")
"""The same with its record, which was decoded at once."""

shown_row = unchecked_without(JournalRow, "record", "created_at")
"""The same with its view."""
