"""All checks, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from pilotage.cli.choosing import Chosen, chosen_application
from pilotage.cli.configured import APP
from pilotage.cli.doctor.finding import (
    Finding,
    code_of_findings,
    finding_json,
    finding_lines,
    note,
    off,
    well,
)
from pilotage.cli.doctor.servers import look_at_database, look_at_key, look_at_model
from pilotage.cli.doctor.surroundings import (
    look_at_extras,
    look_at_plugins,
    look_at_variables,
    look_at_versions,
)
from pilotage.cli.screen.screen import Screen
from pilotage.container.application import Application
from pilotage.errors import PilotageError


async def examine(option: str | None, *, as_json: bool) -> int:
    """Look at everything, say what was found; 1 if something is off."""
    chosen, why_not = _chosen(option)
    app = chosen.app if chosen is not None else None
    findings = [
        look_at_versions(),
        look_at_extras(),
        *look_at_variables(),
        *look_at_plugins(),
        look_at_database(app),
        *look_at_key(),
        await look_at_model(app),
        *([why_not] if why_not is not None else look_at_application(app)),
    ]
    screen = Screen.of_process()
    if as_json:
        screen.say_json([finding_json(each) for each in findings])
    else:
        screen.say(*finding_lines(findings))
    return code_of_findings(findings)


def look_at_application(app: Application | None) -> Iterator[Finding]:
    """Everything that keeps the application from starting, without starting it."""
    if app is None:
        yield note("application", "none is named", f"Name it: --app MODULE:NAME, or {APP}.")
        return
    problems = app.problems()
    for each in problems:
        yield off("application", f"{app.name}: {each}")
    if not problems:
        yield well("application", f"{app.name}: no problems")


def _chosen(option: str | None) -> tuple[Chosen | None, Finding | None]:
    """The application, or why it cannot be looked at."""
    try:
        return chosen_application(option), None
    except PilotageError as error:
        return None, off("application", error)
