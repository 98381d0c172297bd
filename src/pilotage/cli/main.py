"""The command `pilotage`: look at an application without starting it, let it work, look after its database."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import version

from pilotage.cli import database
from pilotage.cli.target import load_application
from pilotage.errors import PilotageError, start_error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 0, 1 for problems in the application, 2 for a wrong call."""
    options = _parser().parse_args(arguments)
    try:
        run = {"check": check, "describe": describe, "worker": worker, "db": database.run}[options.command]
        return run(options)
    except PilotageError as error:
        sys.stderr.write(f"{error}\n")
        return 2


def check(options: argparse.Namespace) -> int:
    """Say everything that keeps the application from starting."""
    app = load_application(options.application)
    if problems := app.problems():
        sys.stderr.write(f"{start_error(app.name, problems)}\n")
        return 1
    sys.stdout.write(f"application {app.name!r}: no problems\n")
    return 0


def describe(options: argparse.Namespace) -> int:
    """Show the pods of the application and what each of them needs."""
    app = load_application(options.application)
    sys.stdout.write(f"{app.describe('mermaid' if options.mermaid else 'text')}\n")
    return 0


def worker(options: argparse.Namespace) -> int:
    """Start the application and let it take up runs until it is told to stop."""
    from pilotage.cli.worker import work  # noqa: PLC0415 - the runtime is dear to import, and nobody else needs it

    return work(options)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pilotage", description="Agents as ordinary application components."
    )
    parser.add_argument("--version", action="version", version=f"pilotage {version('pilotage')}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, purpose in (
        ("check", "say everything that keeps an application from starting"),
        ("describe", "show the pods of an application and what each of them needs"),
        ("worker", "start an application and let it take up runs that nobody drives, until SIGTERM"),
    ):
        command = commands.add_parser(name, help=purpose, description=f"{purpose.capitalize()}.")
        command.add_argument("application", metavar="MODULE:NAME", help="for example shop.main:app")
        if name == "describe":
            command.add_argument("--mermaid", action="store_true", help="as a Mermaid flowchart")
        if name == "worker":
            _add_worker_options(command)
    database.add_parser(commands)
    return parser


def _add_worker_options(command: argparse.ArgumentParser) -> None:
    """What is left out is as the application has it."""
    command.add_argument("--concurrency", type=int, metavar="N", help="take up at most N runs at once")
    words = "let runs finish their current action for so long when it stops"
    command.add_argument("--grace", type=float, metavar="SECONDS", help=words)


if __name__ == "__main__":
    sys.exit(main())
