"""Whether and when to try again. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

from pilotage.adapters.openai.errors import ModelServerError
from pilotage.adapters.openai.settings import ModelRetries


def pause_before_retry(
    error: ModelServerError, tried: int, retries: ModelRetries, random: float
) -> float | None:
    """How many seconds to wait after so many tries, or None where trying again is no use.

    `random` is from 0 to 1: without it, all who failed together would come back together.
    """
    if not error.retryable or tried > retries.most:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= retries.longest_pause else None
    ceiling = min(retries.longest_pause, retries.first_pause * 2.0 ** (tried - 1))
    return ceiling * (1 + random) / 2


def retry_after_of(headers: Mapping[str, str], now: datetime) -> float | None:
    """The seconds a server asks to wait: a number or a date."""
    if "retry-after-ms" in headers:
        milliseconds = _number(headers["retry-after-ms"])
        return None if milliseconds is None else milliseconds / 1000
    text = headers.get("retry-after", "")
    number = _number(text)
    return number if number is not None else _until(text, now)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return max(number, 0.0) if isfinite(number) else None


def _until(text: str, now: datetime) -> float | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max((aware - now).total_seconds(), 0.0)
