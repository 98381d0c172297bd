"""Problems as HTTP responses."""

from __future__ import annotations

from http import HTTPStatus

from starlette.responses import Response

from pilotage.errors import PilotageError
from pilotage.inbound.problems import ProblemView, json_text, problem_of

PROBLEM_JSON = "application/problem+json"
NOSNIFF = {"x-content-type-options": "nosniff"}
# What a run holds belongs to one tenant: no cache may keep it.
SECURITY_HEADERS = {"cache-control": "no-store", **NOSNIFF}
_RETRY_SECONDS = "1"


def problem_response(error: PilotageError | ProblemView) -> Response:
    """Return an error, or a problem, as a response."""
    problem = error if isinstance(error, ProblemView) else problem_of(error)
    headers = dict(SECURITY_HEADERS)
    if problem.status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    if problem.status in (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE):
        headers["retry-after"] = _RETRY_SECONDS
    return Response(json_text(problem), problem.status, headers=headers, media_type=PROBLEM_JSON)
