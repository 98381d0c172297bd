"""`pilotage agui-stdio`: an agent for a client that speaks AG-UI over a pair of pipes."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from pilotage.cli.choosing import application_to_run
from pilotage.cli.exit_codes import ExitCode
from pilotage.cli.opening import acting
from pilotage.cli.work.asked import Asked
from pilotage.errors import CallerError


async def talk(asked: Asked, agent: str) -> int:
    """Serve inputs line by line until there are no more.

    Raises:
        CallerError: the extra is not installed.
    """
    if find_spec("ag_ui") is None:
        raise CallerError('this command needs an extra: pip install "pilotage[agui]".')
    from pilotage.adapters.agui import AgUiStdioCommand, driver_for  # noqa: PLC0415 - needs the extra

    chosen, definition = application_to_run(agent, asked.app)
    async with acting(chosen.app):
        factory = driver_for(chosen.app, definition.target, principal=asked.principal)
        await AgUiStdioCommand(factory, sys.stdin, sys.stdout)()
    return ExitCode.DONE
