"""The back-off of runs that make no progress doubles each time."""

from __future__ import annotations

from pilotage.agent.ports.journal import RunKey
from pilotage.runtime.delivery.worker import BackOff

RUN, OTHER = RunKey("default", "run-1"), RunKey("default", "run-2")


def test_a_run_rests_for_a_while_and_longer_each_time() -> None:
    back_off = BackOff()
    rests: list[float] = []
    now = 0.0
    for _ in range(12):
        back_off.delay(RUN, now)
        began = now
        while RUN in back_off.delayed(now):
            now += 0.5
        rests.append(now - began)
    assert rests[:5] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert rests[-1] == 300.0


def test_a_run_that_did_not_come_again_for_long_starts_afresh() -> None:
    back_off = BackOff()
    for _ in range(5):
        back_off.delay(RUN, 0.0)
    assert back_off.delayed(1000.0) == frozenset()
    back_off.delay(RUN, 1000.0)
    assert back_off.delayed(1001.5) == frozenset()


def test_each_run_rests_by_itself_and_one_that_gets_further_starts_afresh() -> None:
    back_off = BackOff()
    back_off.delay(RUN, 0.0)
    back_off.delay(RUN, 0.0)
    back_off.delay(OTHER, 0.0)
    assert back_off.delayed(0.5) == {RUN, OTHER}
    assert back_off.delayed(1.5) == {RUN}
    back_off.reset(RUN)
    assert back_off.delayed(1.5) == frozenset()
    back_off.delay(RUN, 10.0)
    assert back_off.delayed(11.0) == frozenset()
