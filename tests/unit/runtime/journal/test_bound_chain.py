"""Links that are bound to their run and keyed: whose they are, when they were made, and that no version goes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from hashlib import blake2b

import pytest
from tests.unit.runtime.journal.test_chain import JOURNAL

from pilotage.agent.ports.journal import JournalHead
from pilotage.agent.ports.persistence import JournalRow, RunKey
from pilotage.jsonvalue import canonical_json
from pilotage.runtime.journal.chain import (
    NO_HEAD,
    UNBOUND,
    Chain,
    ChainKey,
    chained,
    damage_in,
    erased,
    first_broken,
    is_keyed,
    payload_digest,
    place_of,
)

RUN, NOW = RunKey("acme", "run-1"), datetime(2026, 11, 16, 12, tzinfo=UTC)
OLD, NEW = ChainKey.of(b"old"), ChainKey.of(b"new")
BOUND, KEYED = Chain.of(RUN, "clerk"), Chain.of(RUN, "clerk", (OLD,))
ROTATED = Chain.of(RUN, "clerk", (NEW, OLD))


def linked(*chains: Chain) -> list[JournalRow]:
    """A journal whose rows are linked by these chains in turn, the last one by all that is left."""
    rows: list[JournalRow] = []
    for place, row in enumerate(JOURNAL):
        chain = chains[min(place, len(chains) - 1)]
        previous = rows[-1].digest if rows else NO_HEAD.digest
        rows.append(chained(replace(row, created_at=NOW + timedelta(seconds=place)), previous, chain))
    return rows


def head_of(rows: Sequence[JournalRow]) -> JournalHead:
    return JournalHead(rows[-1].seq, rows[-1].epoch, rows[-1].digest)


@pytest.mark.parametrize("chain", [UNBOUND, BOUND, KEYED])
def test_every_version_is_read(chain: Chain) -> None:
    rows = linked(chain)
    assert first_broken(rows, ROTATED) is None
    assert {is_keyed(row.digest) for row in rows} == {chain is KEYED}


def test_a_run_of_an_earlier_version_goes_on_in_this_one() -> None:
    assert first_broken(linked(UNBOUND, BOUND, KEYED, ROTATED), ROTATED) is None


@pytest.mark.parametrize(
    "chains", [(BOUND, UNBOUND), (KEYED, BOUND), (KEYED, UNBOUND), (UNBOUND, KEYED, BOUND)]
)
def test_no_row_is_of_an_earlier_version_than_the_one_before(chains: tuple[Chain, ...]) -> None:
    rows = linked(*chains)
    assert first_broken(rows, ROTATED) is rows[len(chains) - 1]


@pytest.mark.parametrize(
    "other",
    [
        Chain.of(RunKey("other", "run-1"), "clerk", (OLD,)),
        Chain.of(RunKey("acme", "run-2"), "clerk", (OLD,)),
        Chain.of(RUN, "banker", (OLD,)),
        Chain.of(RUN, "clerk", (NEW,)),
        BOUND,
    ],
    ids=["tenant", "run", "definition", "key", "no key"],
)
def test_rows_of_another_run_or_key_do_not_fit(other: Chain) -> None:
    rows = linked(KEYED)
    assert first_broken(rows, other) is rows[0]


@pytest.mark.parametrize("chain", [BOUND, KEYED])
def test_the_time_of_a_row_is_covered(chain: Chain) -> None:
    rows = linked(chain)
    rows[2] = replace(rows[2], created_at=NOW)
    assert first_broken(rows, chain) is rows[2]


@pytest.mark.parametrize(
    "at",
    [
        NOW,
        NOW + timedelta(microseconds=7),
        NOW + timedelta(days=90, hours=8, minutes=7, seconds=6, microseconds=123_456),
        datetime(987, 1, 2, 3, 4, 5, 999_999, tzinfo=UTC),
        (NOW + timedelta(microseconds=7)).astimezone(timezone(timedelta(hours=2))),
    ],
)
@pytest.mark.parametrize("row", JOURNAL)
def test_the_digest_covers_the_canonical_text_of_place_and_time(row: JournalRow, at: datetime) -> None:
    place, payloads = place_of(row), payload_digest(row.texts, row.salt, row.events)
    position = [each for each in place[8:] if each is not None]
    written = canonical_json([*place[:8], *(position if any(position) else [])])
    binding = canonical_json([RUN.tenant_id, RUN.run_id, "clerk"])
    text = f"{NO_HEAD.digest}\n{binding}\n{written}\n{at.isoformat()}\n{payloads}"
    expected = blake2b(text.encode(), digest_size=28).hexdigest()
    assert BOUND.link(NO_HEAD.digest, place, at, payloads) == expected


def test_a_cut_tail_differs_from_the_head() -> None:
    rows = linked(KEYED)
    damage = damage_in(rows[:-1], head_of(rows), KEYED)
    assert damage is not None
    assert str(damage) == "row 4: it is missing"


def test_an_erased_row_still_fits() -> None:
    assert first_broken([erased(row) for row in linked(KEYED)], KEYED) is None


def test_a_missing_key_is_told_from_one_damaged_row() -> None:
    rows = linked(KEYED)
    assert Chain.of(RUN, "clerk", (NEW,)).lacks_key_of(rows)
    assert BOUND.lacks_key_of(rows)
    assert not KEYED.lacks_key_of(rows)
    assert not BOUND.lacks_key_of(linked(BOUND))
    damaged = [*rows[:2], replace(rows[2], digest="0" * 60), *rows[3:]]
    assert not KEYED.lacks_key_of(damaged)
    assert first_broken(damaged, KEYED) is damaged[2]
