"""Failures of a server as one table: kind, whether a retry may help, and the message.

Pure. All errors of servers and networks are mapped here; no exception of httpx leaves the adapter.

ModelCallError
└── ModelServerError                    `failure` is the kind
    ├── ModelUnavailableError           the operator: later, or another server
    ├── ModelRequestError               the developer: the same request again is refused again
    │   └── ModelContextExceededError   ... because it is too long
    └── ModelReplyError                 the server sent no usable reply
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pilotage.agent.model_failure import ModelFailure
from pilotage.errors import ModelCallError
from pilotage.values import value

_LONGEST_DETAIL = 2_000
_KEY = "[SECRET]"


class ModelServerError(ModelCallError):
    """A model's server failed, or cannot be reached; `failure` is one of `ModelFailure`.

    `status` is the HTTP status, if there is one, `retry_after` the pause in seconds that the server asks for.
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
        shown = f": {_brief(detail)}" if detail.strip() else ""
        super().__init__(
            f"the model's server {row.text}{where}{shown}. {row.way_out}",
            retryable=row.retryable,
            failure=failure,
        )
        self.status = status
        self.retry_after = retry_after

    def hide(self, key: str | None) -> None:
        """Take the application's key out of the words of the server."""
        if key:
            self.args = (str(self).replace(key, _KEY), *self.args[1:])


class ModelUnavailableError(ModelServerError):
    """The server cannot answer now: it is unreachable, slow, busy or failing."""

    message: ClassVar[str] = "The model's server is not available."
    code: ClassVar[str] = "model_unavailable"


class ModelRequestError(ModelServerError):
    """The server refuses the request, and would refuse it again."""

    message: ClassVar[str] = "The model's server refused the request."
    code: ClassVar[str] = "model_request_refused"


class ModelContextExceededError(ModelRequestError):
    """The request has more tokens than the model's context; a model with a longer one may take it."""

    message: ClassVar[str] = "The request is longer than the model's context."
    code: ClassVar[str] = "model_context_exceeded"


class ModelReplyError(ModelServerError):
    """The reply broke off, or cannot be decoded."""

    message: ClassVar[str] = "The model's reply cannot be used."
    code: ClassVar[str] = "model_reply_unusable"


@value
class _Row:
    kind: type[ModelServerError]
    retryable: bool
    text: str
    way_out: str


_TABLE: Mapping[ModelFailure, _Row] = {
    ModelFailure.UNREACHABLE: _Row(
        ModelUnavailableError,
        True,
        "cannot be reached",
        "Check that it runs and that the model has its address: in its settings, PILOTAGE_MODEL_BASE_URL, "
        "OPENAI_BASE_URL or ANTHROPIC_BASE_URL.",
    ),
    ModelFailure.TIMEOUT: _Row(
        ModelUnavailableError,
        True,
        "took too long",
        "Look at its load, or allow more time in the settings of the model.",
    ),
    ModelFailure.RATE_LIMITED: _Row(
        ModelUnavailableError, True, "has had too many requests", "Send fewer, or wait."
    ),
    ModelFailure.OVERLOADED: _Row(
        ModelUnavailableError, True, "is busy or not ready", "Wait, or use another server."
    ),
    ModelFailure.SERVER_ERROR: _Row(ModelUnavailableError, True, "failed", "Its log says why."),
    ModelFailure.UNAUTHORIZED: _Row(
        ModelRequestError,
        False,
        "does not accept the key",
        "Put the right one where the model gets it from: its settings, PILOTAGE_MODEL_API_KEY, OPENAI_API_KEY or "
        "ANTHROPIC_API_KEY.",
    ),
    ModelFailure.QUOTA: _Row(
        ModelRequestError,
        False,
        "has no more quota for this key",
        "Raise the quota or the budget of the account, or use another key or model.",
    ),
    ModelFailure.NOT_FOUND: _Row(
        ModelRequestError,
        False,
        "does not know the model or the path",
        "Check the name of the model, and that the base URL ends where /chat/completions, /responses or "
        "/messages begins.",
    ),
    ModelFailure.CONTEXT_EXCEEDED: _Row(
        ModelContextExceededError,
        False,
        "got more tokens than its context has",
        "Shorten the conversation, for example with a compaction strategy, or ask for fewer tokens.",
    ),
    ModelFailure.CONTENT_FILTERED: _Row(
        ModelRequestError,
        False,
        "does not take the content of the request",
        "Change what its filter refuses, or use another model.",
    ),
    ModelFailure.REFUSED_REQUEST: _Row(
        ModelRequestError,
        False,
        "refused the request",
        "The request, the tools' schemas or the settings do not suit it.",
    ),
    ModelFailure.BROKEN_STREAM: _Row(
        ModelReplyError, True, "broke off before the reply was complete", "Try again."
    ),
    ModelFailure.ABORTED: _Row(ModelReplyError, True, "gave up before the reply was complete", "Try again."),
    ModelFailure.UNREADABLE: _Row(
        ModelReplyError,
        True,
        "sent what is no reply",
        "Check that the address is one of a server that speaks the wire of the model.",
    ),
    ModelFailure.BROKEN_CALL: _Row(
        ModelReplyError,
        True,
        "sent a tool call that cannot be read",
        "Try again, or use a server that enforces schemas.",
    ),
}


def failed(
    failure: ModelFailure, detail: str = "", *, status: int | None = None, retry_after: float | None = None
) -> ModelServerError:
    """Return the error of a failure, of the class for the party that must act."""
    return _TABLE[failure].kind(failure, detail, status=status, retry_after=retry_after)


def _brief(detail: str) -> str:
    text = detail.strip().rstrip(".")
    return text if len(text) <= _LONGEST_DETAIL else f"{text[:_LONGEST_DETAIL]} [...]"
