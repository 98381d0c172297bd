"""`pilotage mcp serve`."""

from __future__ import annotations

import asyncio
import logging
from importlib.util import find_spec

from pilotage.agent.principal import Principal
from pilotage.cli.application import acting
from pilotage.cli.exit_codes import ExitCode
from pilotage.container.application import Application
from pilotage.errors import CallerError

_GRACE_SECONDS = 10.0


def serve_mcp(app: Application, principal: Principal) -> int:
    """Serve an application over standard input and output until the client closes its end.

    Raises:
        CallerError: the extra is not installed, or the application has no runs.
        ApplicationStartError: it cannot start.
    """
    if find_spec("mcp") is None:
        raise CallerError('this command needs an extra: pip install "pilotage[mcp]".')
    logging.basicConfig()  # on standard error: standard output belongs to the protocol
    asyncio.run(_served(app, principal))
    return ExitCode.DONE


async def _served(app: Application, principal: Principal) -> None:
    from pilotage.adapters.mcp_server import serve_stdio  # noqa: PLC0415 - needs the extra

    async with acting(app) as runs:
        await serve_stdio(app, principal=principal)
        # Runs outlive their client: what is under way ends its action, and the next process goes on from there.
        await runs.hand_over(_GRACE_SECONDS)
