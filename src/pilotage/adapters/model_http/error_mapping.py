"""Maps responses without success to our errors, and errors to the pause before a retry. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import isfinite

from pilotage.adapters.model_http.decoding import read_json
from pilotage.adapters.model_http.errors import ModelServerError, failed
from pilotage.adapters.model_http.server import ModelRetries
from pilotage.agent.model_failure import ModelFailure
from pilotage.jsonvalue import JsonValue
from pilotage.values import value

# Servers agree on no code for these, only roughly on the words. The words are those of the servers that are named in
# `docs/reference/model-server.md`.
_TOO_LONG = re.compile(
    r"context.?(length|window|size|limit)|max_model_len|max_input_len|input_tokens"
    r"|prompt (is |was )?too long|(input|prompt|request) is too long|longer than the (maximum )?(model|context)"
    r"|too many (input )?tokens|maximum prompt length|prompt length .*exceed"
    r"|token (count|limit|length).*(exceed|limit)|exceed\w* .*(token (count|limit)|tokens allowed)"
    r"|(inputs?|prompt).*tokens.* (exceed|must be <=|too large|limit of)|tokens .*than max tokens allowed"
    r"|reduce the length of the (messages|prompt|input)",
    re.IGNORECASE | re.DOTALL,
)
_QUOTA = re.compile(
    r"insufficient[_ ]?(quota|balance|credits?|funds)|billing|credit balance|out of credits?|no credits"
    r"|exceeded your current quota|quota[_ ]exceeded|budget.{0,20}exceeded|payment required"
    r"|account.{0,20}(overdue|arrears)",
    re.IGNORECASE,
)
_LATER = re.compile(r"try again in|retry in|retrydelay|per (minute|second|day)|rate limit", re.IGNORECASE)
_FILTERED = re.compile(
    r"content[_ ]?filter|content management policy|content_policy|responsible_?ai|content exists risk|inspection_failed"
    r"|moderation|flagged|usage policy|safety (system|polic)",
    re.IGNORECASE,
)

_BY_STATUS: Mapping[int, ModelFailure] = {
    401: ModelFailure.UNAUTHORIZED,
    402: ModelFailure.QUOTA,
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
    failure = _failure_of(status, message, is_later=retry_after is not None)
    return failed(failure, message.text, status=status, retry_after=retry_after)


def error_in_stream(error: JsonValue) -> ModelServerError:
    """Return the error that a server reports in the middle of a response."""
    message = _message_of(error)
    status = message.status or _STATUS_OF_WORDS.get(_word_in(message), 500)
    return failed(_failure_of(status, message, is_later=False), message.text, status=message.status)


_STATUS_OF_WORDS: Mapping[str, int] = {
    "overloaded_error": 529,
    "server_is_overloaded": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "authentication_error": 401,
    "permission_error": 403,
    "invalid_request_error": 400,
    "not_found_error": 404,
    "request_too_large": 413,
    "timeout_error": 504,
    "billing_error": 402,
    "insufficient_quota": 402,
    "context_length_exceeded": 400,
    "invalid_prompt": 400,
}
"""The statuses that errors in the middle of a stream would have had before it."""


def _word_in(message: ServerMessage) -> str:
    return next((hint for hint in sorted(message.hints) if hint in _STATUS_OF_WORDS), "")


def read_message(body: bytes) -> ServerMessage:
    """Return the message of an error body: nested, flat, a bare string, another framework's, or no JSON at all."""
    try:
        parsed = read_json(body)
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


def _failure_of(status: int, message: ServerMessage, *, is_later: bool) -> ModelFailure:
    words = (message.text, *message.hints)
    if status in (400, 422):
        if any(map(_TOO_LONG.search, words)):
            return ModelFailure.CONTEXT_EXCEEDED
        if any(map(_QUOTA.search, words)):
            return ModelFailure.QUOTA
        is_filtered = any(map(_FILTERED.search, words))
        return ModelFailure.CONTENT_FILTERED if is_filtered else ModelFailure.REFUSED_REQUEST
    if status in (403, 429) and any(map(_QUOTA.search, words)):
        # Some servers call both a quota: one that is over for a minute says when to come back.
        is_passing = "insufficient_quota" not in message.hints and (is_later or _LATER.search(message.text))
        return ModelFailure.RATE_LIMITED if is_passing else ModelFailure.QUOTA
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
