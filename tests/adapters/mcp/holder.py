"""A process that a test kills: it holds a server that has a child of its own and does not end when it is asked to.

`python -m tests.adapters.mcp.holder FOLDER`: the ids of server and child are in `FOLDER/pids`.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from pilotage.adapters.mcp import McpServer
from tests.adapters.mcp.bank import QUICK, SCRIPT

STUBBORN = """
import os, runpy, signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"], preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN))
with open(sys.argv[1] + "/pids", "w") as file:
    file.write(f"{os.getpid()} {child.pid}")
sys.argv[0] = sys.argv[2]
del sys.argv[2]
runpy.run_path(sys.argv[0], run_name="__main__")
signal.pause()
"""


def stubborn(folder: Path) -> list[str]:
    """Return the command of a server that does not end when it is asked to, and has a child."""
    return [sys.executable, "-S", "-c", STUBBORN, str(folder), str(SCRIPT)]


async def main(folder: Path) -> None:
    """Hold the server until the process is killed."""
    server = McpServer("bank", command=stubborn(folder), limits=QUICK, accept="first use")
    await server.start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
