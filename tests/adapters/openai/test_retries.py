"""Whether and when to try again."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pilotage.adapters.model_http.error_mapping import pause_before_retry, retry_after_of
from pilotage.adapters.openai import ModelFailure, ModelRetries, ModelServerError

RETRIES = ModelRetries(most=5, first_pause=1, longest_pause=6)
NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)
BUSY = ModelServerError(ModelFailure.OVERLOADED)


@pytest.mark.parametrize(
    ("tried", "least", "most"), [(1, 0.5, 1), (2, 1, 2), (3, 2, 4), (4, 3, 6), (5, 3, 6)]
)
def test_pauses_double_up_to_the_longest_and_nobody_waits_exactly_as_long(
    tried: int, least: float, most: float
) -> None:
    assert pause_before_retry(BUSY, tried, RETRIES, 0.0) == least
    assert pause_before_retry(BUSY, tried, RETRIES, 1.0) == most


def test_after_the_last_try_comes_none() -> None:
    assert pause_before_retry(BUSY, 6, RETRIES, 0.5) is None
    assert pause_before_retry(BUSY, 1, ModelRetries(most=0), 0.5) is None


@pytest.mark.parametrize(("asked", "pause"), [(0, 0), (3, 3), (6, 6), (7, None)])
def test_the_servers_wish_is_kept_up_to_the_longest_pause(asked: float, pause: float | None) -> None:
    error = ModelServerError(ModelFailure.RATE_LIMITED, retry_after=asked)
    assert pause_before_retry(error, 1, RETRIES, 0.5) == pause


RETRYABLE = {
    ModelFailure.UNREACHABLE,
    ModelFailure.TIMEOUT,
    ModelFailure.RATE_LIMITED,
    ModelFailure.OVERLOADED,
    ModelFailure.SERVER_ERROR,
    ModelFailure.BROKEN_STREAM,
    ModelFailure.ABORTED,
    ModelFailure.UNREADABLE,
    ModelFailure.BROKEN_CALL,
}


@pytest.mark.parametrize("failure", ModelFailure)
def test_every_failure_says_whether_trying_again_may_help(failure: ModelFailure) -> None:
    error = ModelServerError(failure, "its words")
    assert error.retryable is (failure in RETRYABLE)
    assert (pause_before_retry(error, 1, RETRIES, 0.5) is None) is not error.retryable
    assert "its words" in str(error)
    assert str(error).count(". ") >= 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "Tue, 01 Jan 2030 12:00:30 GMT"}, 30),
        ({"retry-after": "Tue, 01 Jan 2030 11:00:00 GMT"}, 0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "250", "retry-after": "1"}, 0.25),
        ({"retry-after-ms": "x"}, None),
    ],
)
def test_a_servers_wish_is_a_number_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_of(headers, NOW) == seconds
