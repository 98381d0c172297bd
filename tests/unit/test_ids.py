"""The clock and ids of the running system."""

from __future__ import annotations

from datetime import timedelta

from pilotage.ids import SystemClock, SystemIds


def test_the_system_clock_is_aware_and_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.now().utcoffset() == timedelta(0)
    assert clock.monotonic() <= clock.monotonic()


def test_ids_are_unguessable_hex_and_never_the_same() -> None:
    ids = [SystemIds().uid() for _ in range(100)]
    assert len(set(ids)) == 100
    assert all(len(uid) == 32 and int(uid, 16) >= 0 for uid in ids)


def test_random_numbers_lie_in_the_unit_interval() -> None:
    numbers = [SystemIds().random() for _ in range(100)]
    assert all(0 <= number < 1 for number in numbers)
    assert len(set(numbers)) > 1
