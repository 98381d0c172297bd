"""Which error has which status, and what of it the client is told."""

from __future__ import annotations

import pytest

from pilotage.adapters.asgi import ServerStoppingError
from pilotage.errors import (
    AgentDefinitionError,
    ApplicationStateError,
    CallerError,
    EvidenceNotFoundError,
    ModelCallError,
    NotAuthenticatedError,
    PermissionDeniedError,
    PilotageError,
    PodNotFoundError,
    RunConflictError,
    RunErasedError,
    RunNotFoundError,
    SignalNotFoundError,
)
from pilotage.inbound.problems import (
    BodyTooLargeError,
    OriginRefusedError,
    RequestRefusedError,
    RunStoreUnreachableError,
    TooManyOwnStreamsError,
    TooManyStreamsError,
    problem_of,
    problem_of_fields,
    problem_of_status,
)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotAuthenticatedError, 401),
        (PermissionDeniedError, 403),
        (RunNotFoundError, 404),
        (SignalNotFoundError, 404),
        (EvidenceNotFoundError, 404),
        (RunConflictError, 409),
        (CallerError, 409),
        (RunErasedError, 410),
        (BodyTooLargeError, 413),
        (RequestRefusedError, 422),
        (OriginRefusedError, 403),
        (TooManyOwnStreamsError, 429),
    ],
)
def test_what_the_caller_can_mend_is_told_in_the_words_of_the_error(
    error: type[PilotageError], status: int
) -> None:
    problem = problem_of(error("the words"))
    assert (problem.status, problem.code, problem.detail) == (status, error.code, "the words")
    assert problem.type == f"urn:pilotage:error:{error.code}"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (AgentDefinitionError, 500),
        (ModelCallError, 500),
        (PodNotFoundError, 500),
        (ApplicationStateError, 503),
        (TooManyStreamsError, 503),
        (ServerStoppingError, 503),
        (RunStoreUnreachableError, 503),
    ],
)
def test_of_what_is_ours_only_the_code_leaves(error: type[PilotageError], status: int) -> None:
    problem = problem_of(error("secrets of the inside"))
    assert (problem.status, problem.code, problem.detail) == (status, error.code, error.message)


def test_fields_are_named_without_the_values_that_were_sent() -> None:
    problem = problem_of_fields(
        [{"loc": ("body", "agent"), "msg": "Field required", "input": {"password": "x"}}]
    )
    assert (problem.status, problem.code) == (422, "request_refused")
    assert [(each.where, each.what) for each in problem.problems] == [("body.agent", "Field required")]
    assert "body.agent: Field required" in problem.detail
    assert "password" not in problem.model_dump_json()


def test_a_refusal_of_the_framework_has_the_same_shape() -> None:
    problem = problem_of_status(400, "There was an error parsing the body")
    assert (problem.code, problem.title) == ("bad_request", "Bad Request")
