"""The command `pilotage`. What there is, stands in here; what it does, is imported when it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from io import TextIOWrapper

from pilotage.cli.exit_codes import ExitCode, code_of
from pilotage.cli.words import cleaned
from pilotage.errors import PilotageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; `ExitCode` says what the exit codes mean."""
    if find_spec("typer") is None or find_spec("rich") is None:
        sys.stderr.write('the command line needs an extra: pip install "pilotage[cli]"\n')
        return ExitCode.MISUSE
    from pilotage.cli.commands.root import command  # noqa: PLC0415 - needs the extra

    for stream in (sys.stdout, sys.stderr):
        # What a model says may hold letters that this terminal cannot show; that must not end the command.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        command()(arguments, prog_name="pilotage")
    except PilotageError as error:
        sys.stderr.write(f"{cleaned(str(error))}\n")
        return code_of(error)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else ExitCode.WRONG
    return ExitCode.DONE


def own_version() -> str:
    """The version of Pilotage that is installed."""
    from importlib.metadata import version  # noqa: PLC0415 - slow to load

    return version("pilotage")


if __name__ == "__main__":
    sys.exit(main())
