"""The hash chain of a journal: each row carries the digest of the one before. Pure.

The chain covers the digest of a row's payloads, not the payloads themselves, so it stays valid when they are erased.
Each digest is bound to the tenant, the run, its definition and the time of its row, and is keyed in an application with
a key. The length of a digest gives the version of its link; rows of earlier versions stay readable, and a later row is
never of an earlier version than the one before it:

| digits | link |
|---|---|
| 64 | the first version: neither bound nor keyed |
| 56 | bound |
| 60 | bound and keyed; the first eight say which key |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import field, replace
from datetime import UTC, datetime
from functools import cache, lru_cache
from json.encoder import encode_basestring
from operator import attrgetter
from typing import Any, TypeAlias

from pilotage.agent.ports.journal import JournalHead
from pilotage.agent.ports.persistence import (
    ErasedRecord,
    JournalRow,
    JournalStage,
    RowTexts,
    RunKey,
    SealedRecord,
    UnreadableRecord,
)
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.agent.recovery import AgentActionKind
from pilotage.agent.tools.metadata import Idempotency
from pilotage.jsonvalue import JsonObject, canonical_json, text_digest
from pilotage.runtime.journal import stored_words as words
from pilotage.values import value

Place: TypeAlias = (
    "tuple[int, str, AgentActionKind | None, JournalStage, int, int, str, Idempotency, int, int | None, str]"
)
"""The fields of a row that the chain covers besides its payloads, in their order."""

_MISSING = "it is missing"
_BEFORE, _EVENTS = JournalStage.BEFORE, JournalStage.TOLD
_READ_LATER = (_BEFORE, _EVENTS)
"""Rows whose record is not needed, or not at once: it is not decoded to check them."""
_quoted: Callable[[str], str] = encode_basestring
NO_HEAD = JournalHead(seq=0, epoch=0, digest=words.FIRST_DIGEST)


_QUOTED: dict[str | None, str] = {
    None: "null",
    **{word: _quoted(word) for kind in (AgentActionKind, JournalStage, Idempotency) for word in kind},
}
"""The canonical texts of the words in a row's place."""
_BOUND_DIGITS, _KEYED_DIGITS, _TAG_DIGITS = 56, 60, 8
_SALT_DIGITS = 32
_BOUND, _KEYED = 2, 3
_VERSIONS = {_BOUND_DIGITS: _BOUND, _KEYED_DIGITS: _KEYED}


@value
class ChainKey:
    """A key that authenticates rows, and the digits by which their digests name it."""

    secret: bytes = field(repr=False)
    tag: str

    @classmethod
    def of(cls, secret: bytes) -> ChainKey:
        """Return the key with its tag, which betrays nothing about it."""
        return cls(secret, _hashed(words.KEY_TAG, secret, _TAG_DIGITS))


@value
class Chain:
    """The links of one run's rows: the run they are bound to, and the keys that authenticate them, the current first.

    Without a binding, links are those of the first version.
    """

    binding: str = ""
    keys: tuple[ChainKey, ...] = ()

    @classmethod
    def of(cls, run: RunKey, definition: str, keys: tuple[ChainKey, ...] = ()) -> Chain:
        """Return the chain of a run of this definition."""
        return cls(canonical_json([run.tenant_id, run.run_id, definition]), keys)

    def link(self, previous: str, place: Place, at: datetime | None, payloads: str) -> str:
        """Return the digest of a new row after the row with the digest `previous`."""
        if not self.binding:
            return text_digest(f"{previous}\n{_place_text(place)}\n{payloads}")
        moment = "" if at is None else _moment(at)
        return self._bound(previous, place, moment, payloads, self.keys[0] if self.keys else None)

    def links(self, row: JournalRow, previous: str, payloads: str) -> bool:
        """Return whether the digest of a stored row is that of a row after the row with the digest `previous`."""
        digest, key = row.digest, None
        digits = len(digest)
        if digits != len(previous) and _VERSIONS.get(digits, 1) < _VERSIONS.get(len(previous), 1):
            return False
        if digits not in _VERSIONS:
            return digest == text_digest(f"{previous}\n{_place_text(place_of(row))}\n{payloads}")
        if digits == _KEYED_DIGITS:
            key = next((each for each in self.keys if digest.startswith(each.tag)), None)
            if key is None:
                return False
        return digest == self._bound(previous, place_of(row), (row.source or row).moment, payloads, key)

    def salt(self, text: str, tag: str) -> str:
        """Return a salt for which the key of this tag is necessary; the text itself where the tag is empty.

        Raises:
            RecordSealError: the key is not among these.
        """
        if not tag:
            return text
        key = next((each for each in self.keys if each.tag == tag), None)
        if key is None:
            raise RecordSealError("the key that the fingerprints of the run are made with is not there.")
        return _hashed(f"{words.FINGERPRINTS_OF}{text}", key.secret, _SALT_DIGITS)

    def lacks_key_of(self, rows: Iterable[JournalRow]) -> bool:
        """Return whether rows were written with a key that is not among these; one row alone may be damaged."""
        known = {key.tag for key in self.keys}
        tags = Counter(digest[:_TAG_DIGITS] for row in rows if is_keyed(digest := row.digest))
        unknown = [count for tag, count in tags.items() if tag not in known]
        return bool(unknown) and (len(unknown) == len(tags) or max(unknown) > 1)

    def _bound(self, previous: str, place: Place, moment: str, payloads: str, key: ChainKey | None) -> str:
        text = f"{previous}\n{self.binding}\n{_place_text(place)}\n{moment}\n{payloads}"
        if key is None:
            return _hashed(text, b"", _BOUND_DIGITS)
        return key.tag + _hashed(text, key.secret, _KEYED_DIGITS - _TAG_DIGITS)


UNBOUND = Chain()
"""Links of the first version."""


def is_keyed(digest: str) -> bool:
    """Return whether the digest of a row was made with a key."""
    return len(digest) == _KEYED_DIGITS


def _hashed(text: str, key: bytes, digits: int) -> str:
    content = text.encode("utf-8", "surrogatepass")
    digest: str = _blake2b()(content, digest_size=digits // 2, key=key).hexdigest()
    return digest


@cache
def _blake2b() -> Callable[..., Any]:
    from hashlib import blake2b  # noqa: PLC0415 - loading OpenSSL costs more than all our values

    return blake2b


def _place_text(place: Place) -> str:
    """Return the canonical text of a row's place, in a third of the time of `canonical_json`."""
    seq, action_id, kind, stage, attempt, epoch, fingerprint, idempotency, number, turn, costs = place
    words = f"{_quoted(action_id)},{_QUOTED[kind]},{_QUOTED[stage]},{attempt},{epoch},{_quoted(fingerprint)}"
    # Rows of versions that did not number calls have the text they always had.
    position = f",{number},{turn}" if turn is not None else f",{number}" if number else ""
    if costs:
        # A list, which no number is.
        position = f"{position},{costs}"
    return f"[{seq},{words},{_QUOTED[idempotency]}{position}]"


def _moment(at: datetime) -> str:
    """Return `at.isoformat()`, in half of its time: the rows of a second share the text of that second."""
    if at.tzinfo is not UTC or not at.microsecond:
        return at.isoformat()
    second = _second((at.year, at.month, at.day, at.hour, at.minute, at.second))
    return f"{second}.{at.microsecond:06}+00:00"


@lru_cache(maxsize=8)
def _second(parts: tuple[int, int, int, int, int, int]) -> str:
    year, month, day, hour, minute, second = parts
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"


def payload_digest(texts: RowTexts, salt: str, events: str) -> str:
    """Return the digest of a row's payloads; sealed and open records with equal texts have different digests."""
    record = texts.record
    if isinstance(record, ErasedRecord):
        # What was erased has no events either.
        return "" if events else record.digest
    kind = words.SEALED_PAYLOAD if isinstance(record, SealedRecord) else words.OPEN_PAYLOAD
    return _digest_of(salt, kind, texts.record_json, texts.view_json, events)


def _digest_of(salt: str, kind: str, record: str, view: str, events: str) -> str:
    # Rows that say nothing of events have the digest they always had. No text has a line break.
    text = f"{salt}\n{kind}\n{record}\n{view}"
    return text_digest(f"{text}\n{events}" if events else text)


def chained(row: JournalRow, previous: str, chain: Chain = UNBOUND) -> JournalRow:
    """Return the row with its digest."""
    texts = row.texts
    digest = chain.link(previous, place_of(row), row.created_at, payload_digest(texts, row.salt, row.events))
    return replace(row, digest=digest, encoded=texts)


def erased(row: JournalRow) -> JournalRow:
    """Return the row without its payloads; the chain stays valid."""
    digest = payload_digest(row.texts, row.salt, row.events)
    return replace(row, record=ErasedRecord(digest), view=None, salt="", events="", encoded=None)


place_of: Callable[[JournalRow], Place] = attrgetter(
    *(
        "seq",
        "action_id",
        "kind",
        "stage",
        "attempt",
        "epoch",
        "fingerprint",
        "idempotency",
        "number",
        "turn",
    ),
    "costs",
)
"""Returns the fields of a row that the chain covers besides its payloads, in their order."""


def first_broken(rows: Iterable[JournalRow], chain: Chain = UNBOUND) -> JournalRow | None:
    """Return the first row that does not follow from the one before it; None for an unbroken chain."""
    digest = NO_HEAD.digest
    for seq, row in enumerate(rows, start=1):
        if row.seq != seq or _misfit(row, digest, chain) is not None:
            return row
        digest = row.digest
    return None


@value
class Damage:
    """The first row of a journal that does not fit: its number, its action where it is known, and the reason."""

    seq: int
    action_id: str | None
    reason: str

    def __str__(self) -> str:
        action = f" ({self.action_id})" if self.action_id else ""
        return f"row {self.seq}{action}: {self.reason}"

    @property
    def facts(self) -> JsonObject:
        """The damage as the state of a run has it."""
        return {words.ROW: self.seq, words.ACTION: self.action_id, words.REASON: self.reason}


def damage_in(rows: Iterable[JournalRow], head: JournalHead, chain: Chain = UNBOUND) -> Damage | None:
    """Return the first damage of a journal as it is stored: rows 1 to `head` must be there, chained and decodable."""
    digest, last = NO_HEAD.digest, None
    for seq, row in enumerate(rows, start=1):
        if row.seq != seq:
            return Damage(seq, None, _MISSING)
        if not _follows(row, digest, chain) and (reason := _misfit(row, digest, chain)) is not None:
            return Damage(seq, row.action_id, reason)
        digest, last = row.digest, row
    return _end_damage(last, head)


def _follows(row: JournalRow, previous: str, chain: Chain) -> bool:
    """Return whether a row certainly follows from the one before it: nearly all do. False where `_misfit` must look.

    `_misfit` in one function, for plain rows of the present version: a run has thousands of rows.
    """
    source, digest, digits, key, tag = row.source, row.digest, len(row.digest), b"", ""
    if source is None or not source.is_plain or digits != len(previous):
        return False
    if row.stage not in _READ_LATER and type(row.record) is UnreadableRecord:
        return False
    if digits == _KEYED_DIGITS and chain.keys:
        key, tag = chain.keys[0].secret, chain.keys[0].tag
    elif digits != _BOUND_DIGITS:
        return False
    try:
        record, view = source.payloads
        events = f"\n{row.events}" if row.events else ""
        payloads = text_digest(f"{row.salt}\n{words.OPEN_PAYLOAD}\n{record}\n{view}{events}")
        text = f"{previous}\n{chain.binding}\n{_place_text(place_of(row))}\n{source.moment}\n{payloads}"
        content = text.encode("utf-8", "surrogatepass")
        made = _blake2b()(content, digest_size=(digits - len(tag)) // 2, key=key).hexdigest()
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError):
        return False
    return bool(tag + made == digest)


def _end_damage(last: JournalRow | None, head: JournalHead) -> Damage | None:
    """Return how the last row differs from the stored head of its journal; None where it does not."""
    seq, action_id = (last.seq, last.action_id) if last is not None else (0, None)
    if seq < head.seq:
        # In the same words as a gap: the row that interrupts the run makes it one.
        return Damage(seq + 1, None, _MISSING)
    if seq > head.seq:
        return Damage(seq, action_id, f"by its head the journal ends in row {head.seq}")
    if last is not None and last.digest != head.digest:
        return Damage(seq, action_id, "its digest is not that of the journal's head")
    return None


def _misfit(row: JournalRow, previous: str, chain: Chain) -> str | None:
    """Return why a row cannot be the one that was written after the row with the digest `previous`; None if it can."""
    try:
        fits = chain.links(row, previous, _payload_digest_of(row))
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        return f"it cannot be decoded: {error}"
    stage = row.stage
    if fits and stage is _EVENTS:
        # The record of such a row is not needed.
        return None
    if stage is not _BEFORE and isinstance(row.record, UnreadableRecord):
        # The store has decoded it already.
        return f"it cannot be decoded: {row.record.reason}"
    return None if fits else "it was changed, or does not follow from the row before it"


def _payload_digest_of(row: JournalRow) -> str:
    """Return the digest of a row's payloads; texts that were read from a store are not decoded for it."""
    source = row.source
    if source is None:
        return payload_digest(row.texts, row.salt, row.events)
    if source.is_plain:
        kind = words.OPEN_PAYLOAD
    elif isinstance(row.record, SealedRecord):
        kind = words.SEALED_PAYLOAD
    else:
        return payload_digest(row.texts, row.salt, row.events)
    record, view = source.payloads
    return _digest_of(row.salt, kind, record, view, row.events)
