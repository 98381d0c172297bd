"""Small decisions of the command line: exit codes, choices, tokens, principals, times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import typer

from pilotage.agent.principal import Principal
from pilotage.agent.run_values import RunResult
from pilotage.agent.state import AgentSituation, AgentState
from pilotage.cli.commands.runs import moment
from pilotage.cli.exit_codes import ExitCode, code_of
from pilotage.cli.follow import ending_code
from pilotage.cli.handlers.serve import known_token
from pilotage.cli.options import principal_of
from pilotage.cli.prompt import chosen_in
from pilotage.cli.target import configured_application
from pilotage.errors import (
    AgentDefinitionError,
    CallerError,
    NotAuthenticatedError,
    PilotageError,
    PodNotFoundError,
    RunConflictError,
    RunNotFoundError,
    ToolError,
)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (RunNotFoundError(), ExitCode.NOT_FOUND),
        (RunConflictError(), ExitCode.CONFLICT),
        (CallerError(), ExitCode.MISUSE),
        (PodNotFoundError(), ExitCode.MISUSE),
        (AgentDefinitionError(), ExitCode.WRONG),
        (ToolError(), ExitCode.WRONG),
        (NotAuthenticatedError(), ExitCode.WRONG),
    ],
)
def test_an_error_leads_to_a_code(error: PilotageError, code: ExitCode) -> None:
    assert code_of(error) is code


@pytest.mark.parametrize(
    ("situation", "was_interrupted", "code"),
    [
        (AgentSituation.COMPLETED, False, ExitCode.DONE),
        (AgentSituation.COMPLETED, True, ExitCode.DONE),  # it was faster than Ctrl-C
        (AgentSituation.FAILED, False, ExitCode.WRONG),
        (AgentSituation.WAITING_FOR_APPROVAL, False, ExitCode.WAITING),
        (AgentSituation.CANCELLED, False, ExitCode.CANCELLED),
        (AgentSituation.CANCELLED, True, ExitCode.INTERRUPTED),
        (AgentSituation.RUNNING, False, ExitCode.CONFLICT),
        (None, True, ExitCode.INTERRUPTED),
    ],
)
def test_a_run_that_was_followed_leads_to_a_code(
    situation: AgentSituation | None, was_interrupted: bool, code: ExitCode
) -> None:
    result = RunResult(AgentState("r", "a", situation.status)) if situation else None
    assert ending_code(result, was_interrupted=was_interrupted) is code


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [
        ("approve", "approve"),
        ("A", "approve"),
        ("y", "approve"),
        ("Yes", "approve"),
        ("n", "reject"),
        ("no", "reject"),
        (" rej ", "reject"),
        ("re", None),
        ("", None),
        ("x", None),
        ("retry", "retry"),
    ],
)
def test_a_choice_may_be_abbreviated(typed: str, chosen: str | None) -> None:
    assert chosen_in(typed, ["approve", "reject", "retry"]) == chosen


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("90s", timedelta(seconds=90)),
        ("2h", timedelta(hours=2)),
        ("7d", timedelta(days=7)),
        ("2026-11-15", datetime(2026, 11, 15, tzinfo=UTC)),
        ("2026-11-15T08:00+02:00", datetime.fromisoformat("2026-11-15T08:00+02:00")),
    ],
)
def test_a_moment_is_read(text: str, read: datetime | timedelta) -> None:
    assert moment(text) == read


@pytest.mark.parametrize("text", ["", "h", "-1h", "1.5h", "soon"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is no time"):
        moment(text)


def test_who_asks_is_said_by_options_then_by_the_environment() -> None:
    environ = {"PILOTAGE_AS": "ada", "PILOTAGE_TENANT": "acme"}
    assert principal_of(None, None, environ) == Principal("ada", "acme")
    assert principal_of("grace", "navy", environ) == Principal("grace", "navy")
    assert principal_of(None, None, {}).tenant == "default"
    assert principal_of(None, None, {}).id


def test_the_environment_counts_more_than_the_project(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.pilotage]\napp = "shop:app"\n')
    assert configured_application({}, tmp_path) == "shop:app"
    assert configured_application({"PILOTAGE_APP": "other:app"}, tmp_path) == "other:app"
    (tmp_path / "pyproject.toml").write_text('[tool]\npilotage = "shop:app"\n')
    with pytest.raises(CallerError, match=r"tool.pilotage is 'shop:app'. Write a table: \[tool.pilotage\]."):
        configured_application({}, tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool")
    with pytest.raises(CallerError, match="pyproject.toml cannot be read"):
        configured_application({}, tmp_path)
    (tmp_path / "pyproject.toml").unlink()
    assert configured_application({}, tmp_path) is None


def test_a_token_is_taken_from_the_environment() -> None:
    environ = {"ADA": "secret-of-ada"}
    assert known_token("ada=ADA", environ) == ("secret-of-ada", Principal("ada"))
    assert known_token("ada@acme=ADA", environ) == ("secret-of-ada", Principal("ada", "acme"))
