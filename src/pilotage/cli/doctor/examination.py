"""All checks, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

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
from pilotage.cli.opening import chosen_application
from pilotage.cli.screen.screen import Screen
from pilotage.errors import PilotageError


async def examine(app: str | None, *, as_json: bool) -> int:
    """Look at everything, say what was found; 1 if something is off."""
    findings = [
        look_at_versions(),
        look_at_extras(),
        *look_at_variables(),
        *look_at_plugins(),
        look_at_database(),
        *look_at_key(),
        await look_at_model(),
        *look_at_application(app),
    ]
    screen = Screen.of_process()
    if as_json:
        screen.say_json([finding_json(each) for each in findings])
    else:
        screen.say(*finding_lines(findings))
    return code_of_findings(findings)


def look_at_application(option: str | None) -> Iterator[Finding]:
    """Everything that keeps the application from starting, without starting it."""
    try:
        chosen = chosen_application(option)
    except PilotageError as error:
        yield off("application", error)
        return
    if chosen is None:
        yield note("application", "none is named", f"Name it: --app MODULE:NAME, or {APP}.")
        return
    problems = chosen.app.problems()
    for each in problems:
        yield off("application", f"{chosen.app.name}: {each}")
    if not problems:
        yield well("application", f"{chosen.app.name}: no problems")
