"""Errors of inbound adapters, and every error as problem details (RFC 9457). Pure.

CallerError
├── OriginRefusedError
├── RequestRefusedError
├── BodyTooLargeError
├── TooManyStreamsError
├── TooManyOwnStreamsError
├── ServerStoppingError
└── RunStoreUnreachableError

An error that the caller can fix is sent with its message; of any other error only the code leaves the process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, ClassVar

from pydantic import BaseModel, Field

from pilotage import errors
from pilotage.agent.ports.sealing import RecordSealError
from pilotage.jsonvalue import to_json_value
from pilotage.runtime.journal.record_fields import DamagedRecordError


class OriginRefusedError(errors.CallerError):
    """A page of an origin that is not allowed sends the request."""

    message: ClassVar[str] = "Pages of this origin may not connect."
    code: ClassVar[str] = "origin_refused"


class RequestRefusedError(errors.CallerError):
    """The request can be read but is invalid: an unknown name, an input that does not fit."""

    message: ClassVar[str] = "The request does not fit."
    code: ClassVar[str] = "request_refused"


class BodyTooLargeError(errors.CallerError):
    """The body is longer than this server accepts."""

    message: ClassVar[str] = "The body is too long."
    code: ClassVar[str] = "body_too_large"


class TooManyStreamsError(errors.CallerError):
    """The application has as many open streams as it may have."""

    message: ClassVar[str] = "Too many streams are open. Come back in a moment."
    code: ClassVar[str] = "too_many_streams"


class TooManyOwnStreamsError(errors.CallerError):
    """The principal has as many open streams as one principal may have."""

    message: ClassVar[str] = "Too many streams of yours are open."
    code: ClassVar[str] = "too_many_own_streams"


class ServerStoppingError(errors.CallerError):
    """The server shuts down and opens no streams."""

    message: ClassVar[str] = "The server stops. Come back in a moment."
    code: ClassVar[str] = "server_stopping"


class RunStoreUnreachableError(errors.CallerError):
    """The store of runs does not answer; whether something was written is unknown."""

    message: ClassVar[str] = "The store of runs does not answer. Try again in a moment."
    code: ClassVar[str] = "store_unreachable"


_TYPE = "urn:pilotage:error:"

# The first row that fits counts, so errors of adapters that derive from these have their status. An error of no row
# is a fault of the server.
_STATUSES: Sequence[tuple[type[errors.PilotageError], HTTPStatus]] = (
    (errors.NotAuthenticatedError, HTTPStatus.UNAUTHORIZED),
    (errors.PermissionDeniedError, HTTPStatus.FORBIDDEN),
    (errors.RunNotFoundError, HTTPStatus.NOT_FOUND),
    (errors.SignalNotFoundError, HTTPStatus.NOT_FOUND),
    (errors.EvidenceNotFoundError, HTTPStatus.NOT_FOUND),
    (errors.MediaNotFoundError, HTTPStatus.NOT_FOUND),
    (errors.RunErasedError, HTTPStatus.GONE),
    (DamagedRecordError, HTTPStatus.CONFLICT),
    (RecordSealError, HTTPStatus.CONFLICT),
    (BodyTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (errors.MediaTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (errors.MediaRefusedError, HTTPStatus.UNSUPPORTED_MEDIA_TYPE),
    (RequestRefusedError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (OriginRefusedError, HTTPStatus.FORBIDDEN),
    (TooManyOwnStreamsError, HTTPStatus.TOO_MANY_REQUESTS),
    (TooManyStreamsError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ServerStoppingError, HTTPStatus.SERVICE_UNAVAILABLE),
    (RunStoreUnreachableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.ApplicationStateError, HTTPStatus.SERVICE_UNAVAILABLE),
    (errors.PodNotFoundError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (errors.ContextNotActiveError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (errors.CallerError, HTTPStatus.CONFLICT),
)


class FieldProblem(BaseModel):
    """An error in one part of a request."""

    where: str
    what: str


class ProblemView(BaseModel):
    """Problem of a request; `code` is stable and meant for programs, `detail` for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    problems: list[FieldProblem] = Field(default_factory=list[FieldProblem])


class AnswerConflictView(ProblemView):
    """The problem of an answer to a question that has another one: what was decided, by whom and when."""

    request_id: str
    decision: str
    decided_by: str | None
    decided_at: datetime | None


def problem_of(error: errors.PilotageError) -> ProblemView:
    """Return an error as the client sees it."""
    ours = HTTPStatus.INTERNAL_SERVER_ERROR
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), ours)
    problem = _problem(status, error.code, error.message if status >= ours else str(error))
    if not isinstance(error, errors.AnswerConflictError):
        return problem
    return AnswerConflictView(
        **problem.model_dump(),
        request_id=error.request_id,
        decision=error.decision,
        decided_by=error.decided_by,
        decided_at=error.decided_at,
    )


def problem_of_fields(faults: Sequence[Mapping[str, Any]]) -> ProblemView:
    """Return the errors that the validation of a request found, without the values that were sent."""
    found = [FieldProblem(where=".".join(map(str, each["loc"])), what=str(each["msg"])) for each in faults]
    text = "; ".join(f"{each.where}: {each.what}" for each in found[:3])
    refused = RequestRefusedError
    problem = _problem(HTTPStatus.UNPROCESSABLE_ENTITY, refused.code, f"{refused.message} {text}.")
    return problem.model_copy(update={"problems": found})


def problem_of_status(status: int, detail: str) -> ProblemView:
    """Return a refusal by the framework itself."""
    known = HTTPStatus(status)
    return _problem(known, known.name.lower(), detail)


def json_text(view: BaseModel) -> bytes:
    """Return the JSON text of a view; all of it ASCII, because lone surrogates have no other form on the wire."""
    return json.dumps(to_json_value(view.model_dump()), separators=(",", ":"), allow_nan=False).encode()


def _problem(status: HTTPStatus, code: str, detail: str) -> ProblemView:
    return ProblemView(type=_TYPE + code, title=status.phrase, status=status.value, code=code, detail=detail)


INTERNAL = problem_of(errors.PilotageError())
"""The problem of an unexpected error."""
