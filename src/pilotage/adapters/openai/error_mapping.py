"""From an answer that is none of success to one of our errors: by its status, and by its words. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from pilotage.adapters.openai.decoding import json_decoder
from pilotage.adapters.openai.errors import ModelFailure, ModelServerError, failed
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
class ServerWords:
    """What an error body says, whatever its shape."""

    text: str
    hints: frozenset[str] = frozenset()
    status: int | None = None


def server_error(status: int, body: bytes, retry_after: float | None = None) -> ModelServerError:
    """The error of an HTTP answer that is none of success."""
    words = read_words(body)
    failure = _failure_of(status, words)
    return failed(failure, words.text, status=status, retry_after=retry_after)


def error_in_stream(error: JsonValue) -> ModelServerError:
    """The error that a server reports in the middle of an answer it had begun with success."""
    words = _words_of(error)
    status = words.status or 500
    return failed(_failure_of(status, words), words.text, status=words.status)


def read_words(body: bytes) -> ServerWords:
    """The message of an error body: nested, flat, a bare string, another framework's, or no JSON at all."""
    try:
        parsed = json_decoder()(body)
    except ValueError:
        return ServerWords(body.decode(errors="replace"))
    if not isinstance(parsed, dict):
        return ServerWords(str(parsed))
    return _words_of(parsed.get("error") or parsed.get("detail") or parsed.get("message") or parsed)


def _words_of(error: JsonValue) -> ServerWords:
    if not isinstance(error, dict):
        return ServerWords(str(error))
    code = error.get("code")
    hints = {part for name in ("code", "param", "type") if isinstance(part := error.get(name), str)}
    status = code if isinstance(code, int) and 400 <= code <= 599 else None
    return ServerWords(str(error.get("message") or error), frozenset(hints), status)


def _failure_of(status: int, words: ServerWords) -> ModelFailure:
    if status in (400, 422):
        # Servers agree on no code for this, only on the words.
        is_too_long = any(map(_TOO_LONG.search, (words.text, *words.hints)))
        return ModelFailure.CONTEXT_EXCEEDED if is_too_long else ModelFailure.REFUSED_REQUEST
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ModelFailure.SERVER_ERROR if status >= 500 else ModelFailure.REFUSED_REQUEST
