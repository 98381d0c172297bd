"""Ids that are the same in every run of a test."""

from __future__ import annotations

from pilotage.testing.ids import SeededIds


def drawn(ids: SeededIds) -> list[object]:
    return [ids.uid(), ids.random(), ids.uid(), ids.random()]


def test_the_same_seed_gives_the_same_sequence_and_another_seed_another_one() -> None:
    assert drawn(SeededIds(7)) == drawn(SeededIds(7))
    assert drawn(SeededIds(7)) != drawn(SeededIds(8))


def test_ids_look_like_real_ones() -> None:
    ids = SeededIds()
    uids = [ids.uid() for _ in range(200)]
    assert len(set(uids)) == 200
    assert all(len(uid) == 32 and uid == uid.lower() and int(uid, 16) >= 0 for uid in uids)
    assert all(0 <= ids.random() < 1 for _ in range(200))
