"""What can go wrong with a server, as one table: each failure, whether trying again may help, and the words.

Pure. Whatever a server or the network does ends here as a `ModelServerError`; nothing of httpx leaves the adapter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar, cast

from pilotage.adapters.openai.decoding import json_decoder
from pilotage.errors import ModelCallError
from pilotage.values import value

_LONGEST_WORDS = 2_000
_TOO_LONG = re.compile(r"context.(length|window|size)|max_model_len|input_tokens", re.IGNORECASE)


class ModelFailure(StrEnum):
    """What went wrong, by what can be done about it."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    UNAUTHORIZED = "unauthorized"
    NOT_FOUND = "not_found"
    CONTEXT_EXCEEDED = "context_exceeded"
    REFUSED_REQUEST = "refused_request"
    BROKEN_STREAM = "broken_stream"
    ABORTED = "aborted"
    UNREADABLE = "unreadable"
    BROKEN_CALL = "broken_call"


@value
class _Row:
    retryable: bool
    words: str
    way_out: str


_TABLE: Mapping[ModelFailure, _Row] = {
    ModelFailure.UNREACHABLE: _Row(
        True, "cannot be reached", "Check that it runs and that PILOTAGE_MODEL_BASE_URL is its address."
    ),
    ModelFailure.TIMEOUT: _Row(
        True, "took too long", "Look at its load, or allow more time in the settings of the model."
    ),
    ModelFailure.RATE_LIMITED: _Row(True, "has had too many requests", "Send fewer, or wait."),
    ModelFailure.OVERLOADED: _Row(True, "is busy or not ready", "Wait, or use another server."),
    ModelFailure.SERVER_ERROR: _Row(True, "failed", "Its log says why."),
    ModelFailure.UNAUTHORIZED: _Row(
        False, "does not accept the key", "Put the right one into PILOTAGE_MODEL_API_KEY."
    ),
    ModelFailure.NOT_FOUND: _Row(
        False,
        "does not know the model or the path",
        "Check PILOTAGE_MODEL_NAME, and that the base URL ends where /chat/completions begins.",
    ),
    ModelFailure.CONTEXT_EXCEEDED: _Row(
        False,
        "got more tokens than its context has",
        "Shorten the conversation, for example with a compaction strategy, or ask for fewer tokens.",
    ),
    ModelFailure.REFUSED_REQUEST: _Row(
        False, "refused the request", "The request, the tools' schemas or the settings do not suit it."
    ),
    ModelFailure.BROKEN_STREAM: _Row(True, "broke off before the reply was complete", "Try again."),
    ModelFailure.ABORTED: _Row(True, "gave up before the reply was complete", "Try again."),
    ModelFailure.UNREADABLE: _Row(
        True, "sent what is no reply", "Check that the address is one of an OpenAI-compatible server."
    ),
    ModelFailure.BROKEN_CALL: _Row(
        True, "sent a tool call that cannot be read", "Try again, or use a server that enforces schemas."
    ),
}

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


class ModelServerError(ModelCallError):
    """A model's server failed, or cannot be reached; `failure` says how.

    `status` is the HTTP status where there is one, `retry_after` the seconds the server asks to wait.
    """

    message: ClassVar[str] = "The model's server failed."
    code: ClassVar[str] = "model_server_error"

    def __init__(
        self,
        failure: ModelFailure,
        detail: str = "",
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        row = _TABLE[failure]
        where = f" (HTTP {status})" if status else ""
        said = f": {_brief(detail)}" if detail.strip() else ""
        super().__init__(
            f"the model's server {row.words}{where}{said}. {row.way_out}", retryable=row.retryable
        )
        self.failure = failure
        self.status = status
        self.retry_after = retry_after


@value
class ServerWords:
    """What an error body says, whatever its shape."""

    text: str
    hints: frozenset[str] = frozenset()
    status: int | None = None


def server_error(status: int, body: bytes, retry_after: float | None = None) -> ModelServerError:
    """The error of an HTTP answer that is none of success."""
    words = read_words(body)
    failure = _failure_of(status, words)
    return ModelServerError(failure, words.text, status=status, retry_after=retry_after)


def error_in_stream(error: object) -> ModelServerError:
    """The error that a server reports in the middle of an answer it had begun with success."""
    words = _words_of(error)
    status = words.status or 500
    return ModelServerError(_failure_of(status, words), words.text, status=words.status)


def read_words(body: bytes) -> ServerWords:
    """The message of an error body: nested, flat, a bare string, another framework's, or no JSON at all."""
    try:
        parsed: object = json_decoder()(body)
    except ValueError:
        return ServerWords(body.decode(errors="replace"))
    if not isinstance(parsed, dict):
        return ServerWords(str(parsed))
    fields = cast("dict[str, object]", parsed)
    return _words_of(fields.get("error") or fields.get("detail") or fields.get("message") or fields)


def _words_of(error: object) -> ServerWords:
    if not isinstance(error, dict):
        return ServerWords(str(error))
    fields = cast("dict[str, object]", error)
    code = fields.get("code")
    hints = {part for name in ("code", "param", "type") if isinstance(part := fields.get(name), str)}
    status = code if isinstance(code, int) and 400 <= code <= 599 else None
    return ServerWords(str(fields.get("message") or fields), frozenset(hints), status)


def _failure_of(status: int, words: ServerWords) -> ModelFailure:
    if status in (400, 422):
        # Servers agree on no code for this, only on the words.
        is_too_long = any(map(_TOO_LONG.search, (words.text, *words.hints)))
        return ModelFailure.CONTEXT_EXCEEDED if is_too_long else ModelFailure.REFUSED_REQUEST
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ModelFailure.SERVER_ERROR if status >= 500 else ModelFailure.REFUSED_REQUEST


def _brief(detail: str) -> str:
    words = detail.strip().rstrip(".")
    return words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]} [...]"
