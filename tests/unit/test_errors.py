"""The error families, and all problems of an application in one error."""

from __future__ import annotations

import pytest

from pilotage import errors
from pilotage.errors import (
    AgentBootstrapError,
    AgentDefinitionError,
    AgentModelConfigurationError,
    AgentPersistenceConfigurationError,
    ApplicationStartError,
    CallerError,
    PilotageError,
    Problem,
    error_words,
    start_error,
)

ALL = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, PilotageError)]


def test_every_error_has_a_code_of_its_own_and_a_message() -> None:
    assert len({error.code for error in ALL}) == len(ALL)
    assert all(error.message.endswith(".") for error in ALL)


def test_every_error_stands_in_the_tree_of_the_docstring() -> None:
    assert [error.__name__ for error in ALL if error.__name__ not in (errors.__doc__ or "")] == []


def test_an_error_says_its_argument_or_else_its_message() -> None:
    assert str(AgentDefinitionError("x is blank")) == "x is blank"
    assert AgentDefinitionError("x").args == ("x",)
    assert str(AgentDefinitionError()) == AgentDefinitionError.message


def problem(family: type[ApplicationStartError] = ApplicationStartError, detail: object = None) -> Problem:
    return Problem("c", "nothing provides B.", "Bind one.\nOr add one.", ("A", "B"), family, detail)


def test_all_problems_are_told_with_their_paths_and_ways_out() -> None:
    error = start_error("shop", [problem(), Problem("d", "It is wrong.", "")])
    assert str(error) == (
        "2 problems in application 'shop':\n"
        "  1. A -> B: nothing provides B.\n     Bind one.\n     Or add one.\n"
        "  2. It is wrong."
    )
    assert error.problems == (problem(), Problem("d", "It is wrong.", ""))


@pytest.mark.parametrize(
    ("families", "expected"),
    [
        ([AgentPersistenceConfigurationError], AgentPersistenceConfigurationError),
        ([AgentPersistenceConfigurationError, AgentModelConfigurationError], AgentBootstrapError),
        ([AgentBootstrapError, ApplicationStartError], ApplicationStartError),
        ([], ApplicationStartError),
    ],
)
def test_the_error_is_of_the_narrowest_family_that_covers_every_problem(
    families: list[type[ApplicationStartError]], expected: type[ApplicationStartError]
) -> None:
    assert type(start_error("shop", [problem(family) for family in families])) is expected


def test_the_first_exception_behind_a_problem_is_the_cause() -> None:
    cause = AgentDefinitionError("x")
    assert start_error("shop", [problem(), problem(detail=cause)]).__cause__ is cause


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError("the store does not answer"), "OSError: the store does not answer"),
        (TimeoutError(), "TimeoutError"),
        (CallerError("there is no run.\n  Start one."), "CallerError: there is no run. Start one."),
        (ValueError("1 error\nDETAIL: iban='DE00'"), "ValueError: 1 error"),
        (ValueError("x" * 2000), "ValueError: " + "x" * 988),
    ],
)
def test_a_log_has_the_words_of_an_error_and_no_values_from_other_libraries(
    error: Exception, words: str
) -> None:
    assert error_words(error) == words
