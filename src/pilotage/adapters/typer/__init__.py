"""Controllers whose methods are commands of an application's own command line: `pip install "pilotage[cli]"`."""

from importlib.util import find_spec

if find_spec("typer") is None:
    raise ImportError('this adapter needs an extra: pip install "pilotage[cli]"')

from pilotage.adapters.typer.command_line import CliController, command, command_line

__all__ = ["CliController", "command", "command_line"]
