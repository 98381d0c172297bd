"""The entry point of the command `pilotage`. Commands import what they do when they are carried out."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from io import TextIOWrapper

from pilotage.cli.exit_codes import TRACEBACK, ExitCode, code_of
from pilotage.cli.screen import print_error
from pilotage.errors import PilotageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code, an `ExitCode`."""
    if find_spec("typer") is None or find_spec("rich") is None:
        print_error('the command line needs an extra: pip install "pilotage[cli]"')
        return ExitCode.MISUSE
    from pilotage.cli.commands.root import command  # noqa: PLC0415 - needs the extra

    for stream in (sys.stdout, sys.stderr):
        # A character that this terminal cannot show must not end the command.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        command()(arguments, prog_name="pilotage")
    except PilotageError as error:
        print_error(str(error))
        return code_of(error)
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else ExitCode.WRONG
    except BrokenPipeError:  # the reader of the output has left, as `head` does
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123 - for the flush at exit
        return ExitCode.WRONG
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        print_error(unexpected(error))
        return ExitCode.WRONG
    return ExitCode.DONE


def unexpected(error: Exception) -> str:
    """Return the message of an error that no command expects: mostly of the application's own code."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        place, trace = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}", trace.tb_next
    return f"{type(error).__name__}: {error} (at {place}). To see the whole stack, set {TRACEBACK}=1."


if __name__ == "__main__":
    sys.exit(main())
