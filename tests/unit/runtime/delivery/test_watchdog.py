"""The watchdog's decision: whether an event loop stands still. Tables."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pilotage import Application
from pilotage.errors import AgentBootstrapError, AgentDefinitionError
from pilotage.runtime import LeaseSettings, WatchdogSettings
from pilotage.runtime.delivery.watchdog import StallDetector, limit_of, stack_of
from pilotage.runtime.plugin import initialize

Look = tuple[float, int | None]


@pytest.mark.parametrize(
    ("looks", "stalled"),
    [
        ([(each, each) for each in range(20)], []),
        ([(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (8, 1), (9, 1)], [8, 9]),
        ([(0, 1), (3, 1), (6, 2), (9, 2), (12, 2), (15, 2), (18, 2)], [15, 18]),
        ([(0, 1), (5, None), (10, None), (20, None)], []),
        ([(0, 1), (1, 1), (1000, 1), (1001, 2)], []),
        ([(0, 1), (-50, 1), (0, 1), (1, 1)], []),
    ],
    ids=["it moves", "it stands", "it moved once", "nothing to renew", "suspended", "a clock set back"],
)
def test_a_loop_stands_still_that_misses_its_beats_while_the_watchdog_looks(
    looks: Sequence[Look], stalled: Sequence[float]
) -> None:
    detector = StallDetector(8.0)
    detector.every_seconds = 2.0
    assert [now for now, beats in looks if detector.is_stalled(now, beats)] == stalled


def test_the_limit_is_half_a_lease_unless_it_is_given() -> None:
    assert limit_of(WatchdogSettings(), LeaseSettings(30.0)) == 15.0
    assert limit_of(WatchdogSettings(5.0), LeaseSettings(30.0)) == 5.0


async def test_a_watchdog_that_would_be_too_late_is_refused_at_start_up() -> None:
    app = Application("late").add(WatchdogSettings(20.0), LeaseSettings(30.0))
    initialize(app)
    with pytest.raises(AgentBootstrapError, match=r"may take runs over after 20 seconds"):
        await app.start()


def test_a_limit_is_positive() -> None:
    with pytest.raises(AgentDefinitionError, match=r"WatchdogSettings\.seconds"):
        WatchdogSettings(0.0)


def test_the_stack_of_the_loop_is_found_among_all() -> None:
    one = 'Thread 0x0000000000000001 (most recent call first):\n  File "a", line 1 in rest'
    two = 'Current thread 0x0000000000000002 (most recent call first):\n  File "b", line 2 in hold'
    assert stack_of(2, f"{one}\n\n{two}") == two
    assert stack_of(3, f"{one}\n\n{two}") == f"{one}\n\n{two}"
