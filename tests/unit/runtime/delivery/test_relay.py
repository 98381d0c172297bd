"""How often a fact is tried, and how long it waits in between."""

from __future__ import annotations

import pytest

from pilotage.errors import AgentDefinitionError
from pilotage.runtime import RelaySettings

SETTINGS = RelaySettings(tries=6, first_wait=2.0, longest_wait=10.0)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 2.0), (2, 4.0), (3, 8.0), (4, 10.0), (5, 10.0), (6, None), (7, None)]
)
def test_waits_double_up_to_the_longest_and_end_after_the_last_try(
    failures: int, seconds: float | None
) -> None:
    assert SETTINGS.retry_in(failures) == seconds


def test_many_tries_make_no_number_too_large() -> None:
    assert RelaySettings(tries=10_000).retry_in(9_999) == 300.0


def test_a_claim_outlasts_a_delivery() -> None:
    assert SETTINGS.claim_seconds > SETTINGS.delivery_seconds


@pytest.mark.parametrize(
    "name", ["tries", "first_wait", "longest_wait", "delivery_seconds", "concurrent", "poll_seconds"]
)
def test_settings_that_make_no_sense_are_refused(name: str) -> None:
    with pytest.raises(AgentDefinitionError, match=f"RelaySettings.{name} is 0"):
        RelaySettings(**{name: 0})  # type: ignore[arg-type]
