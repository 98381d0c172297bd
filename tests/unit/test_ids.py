"""The clock and ids of the running system."""

from __future__ import annotations

from datetime import timedelta

from pilotage.ids import SystemClock, SystemIds, boot_clock, seconds_since_boot


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


def test_durations_are_read_from_the_clock_that_counts_suspension() -> None:
    suspended = {"boot": 100.0}
    clock = boot_clock(7, lambda clock_id: suspended["boot"] + clock_id, lambda: 1.0)
    assert clock() == 107.0
    suspended["boot"] += 3600
    assert clock() == 3707.0


def test_a_system_without_that_clock_has_the_monotonic_one() -> None:
    def refused(_: int) -> float:
        raise OSError("Invalid argument")

    assert boot_clock(None, lambda _: 5.0, lambda: 1.0)() == 1.0
    assert boot_clock(7, None, lambda: 1.0)() == 1.0
    assert boot_clock(7, refused, lambda: 1.0)() == 1.0


def test_the_system_clock_is_the_one_that_all_processes_of_the_machine_share() -> None:
    before, now, after = seconds_since_boot(), SystemClock().monotonic(), seconds_since_boot()
    assert before <= now <= after
