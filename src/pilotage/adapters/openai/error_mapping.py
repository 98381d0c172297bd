"""Maps responses without success to our errors, and errors to the pause before a retry. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

from pilotage.adapters.openai.decoding import json_decoder
from pilotage.adapters.openai.errors import ModelFailure, ModelServerError, failed
from pilotage.adapters.openai.settings import ModelRetries
from pilotage.jsonvalue import JsonValue
from pilotage.values import value

_TOO_LONG = re.compile(r"context.(length|window|size)|max_model_len|input_tokens", re.IGNORECASE)

_BY_STATUS: Mapping[int, ModelFailure] = {
    401: ModelFailure.UNAUTHORIZED,
    403: ModelFailure.UNAUTHORIZED,
    404: ModelFailure.NOT_FOUND,
    405: ModelFailure.NOT_FOUND,
    408: ModelFailure.TIMEOUT,
    409: ModelFailure.OVERLOADED,
    413: ModelFailure.CONTEXT_EXCEEDED,
    425: ModelFailure.OVERLOADED,
    429: ModelFailure.RATE_LIMITED,
    502: ModelFailure.OVERLOADED,
    503: ModelFailure.OVERLOADED,
    504: ModelFailure.TIMEOUT,
    529: ModelFailure.OVERLOADED,
}


@value
class ServerMessage:
    """The message of an error body, whatever its shape."""

    text: str
    hints: frozenset[str] = frozenset()
    status: int | None = None


def server_error(status: int, body: bytes, retry_after: float | None = None) -> ModelServerError:
    """Return the error of an HTTP response without success."""
    message = read_message(body)
    failure = _failure_of(status, message)
    return failed(failure, message.text, status=status, retry_after=retry_after)


def error_in_stream(error: JsonValue) -> ModelServerError:
    """Return the error that a server reports in the middle of a response."""
    message = _message_of(error)
    status = message.status or 500
    return failed(_failure_of(status, message), message.text, status=message.status)


def read_message(body: bytes) -> ServerMessage:
    """Return the message of an error body: nested, flat, a bare string, another framework's, or no JSON at all."""
    try:
        parsed = json_decoder()(body)
    except ValueError:
        return ServerMessage(body.decode(errors="replace"))
    if not isinstance(parsed, dict):
        return ServerMessage(str(parsed))
    return _message_of(parsed.get("error") or parsed.get("detail") or parsed.get("message") or parsed)


def _message_of(error: JsonValue) -> ServerMessage:
    if not isinstance(error, dict):
        return ServerMessage(str(error))
    code = error.get("code")
    hints = {part for name in ("code", "param", "type") if isinstance(part := error.get(name), str)}
    status = code if isinstance(code, int) and 400 <= code <= 599 else None
    return ServerMessage(str(error.get("message") or error), frozenset(hints), status)


def _failure_of(status: int, message: ServerMessage) -> ModelFailure:
    if status in (400, 422):
        # Servers agree on no code for this, only on the text.
        is_too_long = any(map(_TOO_LONG.search, (message.text, *message.hints)))
        return ModelFailure.CONTEXT_EXCEEDED if is_too_long else ModelFailure.REFUSED_REQUEST
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ModelFailure.SERVER_ERROR if status >= 500 else ModelFailure.REFUSED_REQUEST


def pause_before_retry(
    error: ModelServerError, tried: int, retries: ModelRetries, random: float
) -> float | None:
    """Return the pause in seconds after so many tries, or None if a retry would not help.

    `random` is from 0 to 1: without it, all clients that failed together would retry together.
    """
    if not error.retryable or tried > retries.most:
        return None
    if error.retry_after is not None:
        return error.retry_after if error.retry_after <= retries.longest_pause else None
    ceiling = min(retries.longest_pause, retries.first_pause * 2.0 ** (tried - 1))
    return ceiling * (1 + random) / 2


def retry_after_of(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the pause in seconds that a server asks for, from a number or a date."""
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
