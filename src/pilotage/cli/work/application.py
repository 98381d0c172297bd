"""`pilotage check` and `pilotage describe`: looking at an application without starting it."""

from __future__ import annotations

import sys

from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.target import load_application
from pilotage.errors import start_error


def check(application: str) -> int:
    """Say everything that keeps the application from starting."""
    app = load_application(application)
    if problems := app.problems():
        sys.stderr.write(f"{start_error(app.name, problems)}\n")
        return ExitCode.WRONG
    sys.stdout.write(f"application {app.name!r}: no problems\n")
    return ExitCode.DONE


def describe(application: str, *, as_mermaid: bool) -> int:
    """Show the pods of the application and what each of them needs."""
    app = load_application(application)
    sys.stdout.write(f"{app.describe('mermaid' if as_mermaid else 'text')}\n")
    return ExitCode.DONE
