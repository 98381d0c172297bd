"""The kinds of failures of model calls: the `failure` of a `ModelCallError`, the same words for every adapter. Pure."""

from __future__ import annotations

from enum import StrEnum


class ModelFailure(StrEnum):
    """Kinds of failures, by their remedy."""

    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    RATE_LIMITED = "rate_limited"
    OVERLOADED = "overloaded"
    SERVER_ERROR = "server_error"
    UNAUTHORIZED = "unauthorized"
    QUOTA = "quota"
    NOT_FOUND = "not_found"
    CONTEXT_EXCEEDED = "context_exceeded"
    CONTENT_FILTERED = "content_filtered"
    REFUSED_REQUEST = "refused_request"
    BROKEN_STREAM = "broken_stream"
    ABORTED = "aborted"
    UNREADABLE = "unreadable"
    BROKEN_CALL = "broken_call"

    @property
    def is_unanswered(self) -> bool:
        """Whether no model wrote anything before the failure, so that nothing was paid for."""
        return self in _UNANSWERED


_UNANSWERED = frozenset(
    {
        ModelFailure.UNREACHABLE,
        ModelFailure.RATE_LIMITED,
        ModelFailure.OVERLOADED,
        ModelFailure.SERVER_ERROR,
        ModelFailure.UNAUTHORIZED,
        ModelFailure.QUOTA,
        ModelFailure.NOT_FOUND,
        ModelFailure.CONTEXT_EXCEEDED,
        ModelFailure.CONTENT_FILTERED,
        ModelFailure.REFUSED_REQUEST,
    }
)
