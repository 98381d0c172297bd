"""How long a run waits for its model after so many tries. A table."""

from __future__ import annotations

import pytest

from pilotage.adapters.model_http.errors import failed
from pilotage.agent.model_failure import ModelFailure
from pilotage.errors import ModelCallError
from pilotage.runtime.door.model_retry import ModelRetrySettings, retry_pause

SETTINGS = ModelRetrySettings(first_seconds=2.0, longest_seconds=100.0)


@pytest.mark.parametrize(
    ("tries", "asked", "seconds"),
    [
        (1, None, 2),
        (2, None, 8),
        (3, None, 32),
        (4, None, 100),
        (10_000, None, 100),
        (1, 1.0, 2),
        (1, 60.0, 60),
        (4, 600.0, 600),
        (1, 1e9, 3600),
    ],
)
def test_the_pause_grows_and_a_server_that_asks_for_more_gets_it(
    tries: int, asked: float | None, seconds: float
) -> None:
    error = failed(ModelFailure.RATE_LIMITED, retry_after=asked)
    assert retry_pause(tries, error, SETTINGS).total_seconds() == seconds


def test_an_error_of_any_model_will_do() -> None:
    assert retry_pause(1, ModelCallError("busy", retryable=True), SETTINGS).total_seconds() == 2
