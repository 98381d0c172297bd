"""Errors as problem details (RFC 9457), by one table. Pure.

What the caller can mend is told in the words of the error; of everything else only its code leaves the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, cast

from pydantic import BaseModel, Field

from pilotage.adapters.asgi.admission import OriginRefusedError
from pilotage.adapters.asgi.bodies import BodyTooLargeError
from pilotage.adapters.asgi.common_end import ServerStoppingError
from pilotage.adapters.asgi.lasting_answer import TooManyStreamsError
from pilotage.adapters.fastapi.errors import (
    RequestRefusedError,
    StoreUnreachableError,
    TooManyOwnStreamsError,
)
from pilotage.errors import (
    ApplicationStateError,
    CallerError,
    ContextNotActiveError,
    EvidenceNotFoundError,
    NotAuthenticatedError,
    PermissionDeniedError,
    PilotageError,
    PodNotFoundError,
    RunErasedError,
    RunNotFoundError,
    SignalNotFoundError,
)

_TYPE = "urn:pilotage:error:"

# The first row that fits; an error of no row is ours.
_STATUSES: Sequence[tuple[type[PilotageError], HTTPStatus]] = (
    (NotAuthenticatedError, HTTPStatus.UNAUTHORIZED),
    (PermissionDeniedError, HTTPStatus.FORBIDDEN),
    (RunNotFoundError, HTTPStatus.NOT_FOUND),
    (SignalNotFoundError, HTTPStatus.NOT_FOUND),
    (EvidenceNotFoundError, HTTPStatus.NOT_FOUND),
    (RunErasedError, HTTPStatus.GONE),
    (BodyTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (RequestRefusedError, HTTPStatus.UNPROCESSABLE_ENTITY),
    (OriginRefusedError, HTTPStatus.FORBIDDEN),
    (TooManyOwnStreamsError, HTTPStatus.TOO_MANY_REQUESTS),
    (TooManyStreamsError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ServerStoppingError, HTTPStatus.SERVICE_UNAVAILABLE),
    (StoreUnreachableError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ApplicationStateError, HTTPStatus.SERVICE_UNAVAILABLE),
    (PodNotFoundError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (ContextNotActiveError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (CallerError, HTTPStatus.CONFLICT),
)


class FieldProblem(BaseModel):
    """What is wrong with one part of a request."""

    where: str
    what: str


class ProblemView(BaseModel):
    """Why a request failed; `code` is stable and meant for programs, `detail` for people."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    problems: list[FieldProblem] = Field(default_factory=list[FieldProblem])


def problem_of(error: PilotageError) -> ProblemView:
    """An error as the client sees it."""
    ours = HTTPStatus.INTERNAL_SERVER_ERROR
    status = next((status for kind, status in _STATUSES if isinstance(error, kind)), ours)
    return _problem(status, error.code, error.message if status >= ours else str(error))


def problem_of_fields(errors: Sequence[Mapping[str, Any]]) -> ProblemView:
    """What the validation of a request found, without the values that were sent."""
    found = [
        FieldProblem(where=".".join(map(str, cast("Sequence[object]", each["loc"]))), what=str(each["msg"]))
        for each in errors
    ]
    words = "; ".join(f"{each.where}: {each.what}" for each in found[:3])
    refused = RequestRefusedError
    problem = _problem(HTTPStatus.UNPROCESSABLE_ENTITY, refused.code, f"{refused.message} {words}.")
    return problem.model_copy(update={"problems": found})


def problem_of_status(status: int, detail: str) -> ProblemView:
    """A refusal of the framework's own."""
    known = HTTPStatus(status)
    return _problem(known, known.name.lower(), detail)


def _problem(status: HTTPStatus, code: str, detail: str) -> ProblemView:
    return ProblemView(type=_TYPE + code, title=status.phrase, status=status.value, code=code, detail=detail)


INTERNAL = problem_of(PilotageError())
"""What is told of a failure that is nobody's but ours."""
