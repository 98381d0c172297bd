"""Errors as problem details (RFC 9457), for what fails before an answer begins. Pure.

What the caller can mend is told in the words of the error; of everything else only its code leaves the process.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from http import HTTPStatus
from typing import TypeAlias

from starlette.responses import Response

from pilotage.adapters.asgi.admission import OriginRefusedError
from pilotage.adapters.asgi.bodies import BodyTooLargeError
from pilotage.adapters.asgi.common_end import ServerStoppingError
from pilotage.adapters.asgi.lasting_answer import TooManyStreamsError
from pilotage.errors import (
    ApplicationStateError,
    CallerError,
    ContextNotActiveError,
    NotAuthenticatedError,
    PermissionDeniedError,
    PilotageError,
    PodNotFoundError,
    RunNotFoundError,
)

Statuses: TypeAlias = Sequence[tuple[type[PilotageError], HTTPStatus]]

PROBLEM_JSON = "application/problem+json"
_STATUSES: Statuses = (
    (NotAuthenticatedError, HTTPStatus.UNAUTHORIZED),
    (OriginRefusedError, HTTPStatus.FORBIDDEN),
    (PermissionDeniedError, HTTPStatus.FORBIDDEN),
    (RunNotFoundError, HTTPStatus.NOT_FOUND),
    (BodyTooLargeError, HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (TooManyStreamsError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ServerStoppingError, HTTPStatus.SERVICE_UNAVAILABLE),
    (ApplicationStateError, HTTPStatus.SERVICE_UNAVAILABLE),
    (PodNotFoundError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (ContextNotActiveError, HTTPStatus.INTERNAL_SERVER_ERROR),
    (CallerError, HTTPStatus.CONFLICT),
)


def problem_answer(error: PilotageError, statuses: Statuses = ()) -> Response:
    """An error as an answer: by the first row that fits, those of the adapter before the usual ones."""
    ours = HTTPStatus.INTERNAL_SERVER_ERROR
    found = next((status for kind, status in (*statuses, *_STATUSES) if isinstance(error, kind)), ours)
    problem = {
        "type": f"urn:pilotage:error:{error.code}",
        "title": found.phrase,
        "status": found.value,
        "code": error.code,
        "detail": error.message if found == ours else str(error),
    }
    headers = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
    if found == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    return Response(json.dumps(problem), found.value, headers, media_type=PROBLEM_JSON)
