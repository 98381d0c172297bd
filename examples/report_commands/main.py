"""A command line of an application's own: a controller is a pod, and its command streams what an agent says.

Run it: python examples/report_commands/main.py reports write rain --copies 2
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from typing import Annotated

import typer
from typer.testing import CliRunner

from pilotage import Agent, AgentYield, Application, Final, Progress, Token
from pilotage.adapters.typer import CliController, command, command_line
from pilotage.runtime.plugin import initialize


@Agent
class Reporter:
    """Report on something in three words."""

    async def execute(self, topic: str) -> AsyncGenerator[AgentYield[str], None]:
        """A report, word by word."""
        yield Progress(f"Reading about {topic}")
        for word in ("All", "is", "well."):
            yield Token(f"{word} ")
        yield Final("All is well.")


@CliController(group="reports")
class Reports:
    """Reports about this and that."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter

    @command
    async def write(
        self, topic: str, copies: Annotated[int, typer.Option(min=1, help="How many.")] = 1
    ) -> None:
        """Write a report, and show it as it comes."""
        for _ in range(copies):
            async for item in self.reporter.execute(topic):
                match item:
                    case Progress(message=words):
                        typer.echo(words, err=True)
                    case Token(text):
                        typer.echo(text, nl=False)
                    case Final():
                        typer.echo()
                    case _:
                        pass


def newsroom() -> Application:
    """The application; it starts with a command and stops when that has ended."""
    app = Application("newsroom").add(Reporter, Reports)
    initialize(app)
    return app


def check() -> None:
    """Call the command as a test calls it."""
    cli = command_line(newsroom(), help="The newsroom.")
    done = CliRunner().invoke(cli, ["reports", "write", "rain", "--copies", "2"])
    assert (done.exit_code, done.stdout) == (0, "All is well. \n" * 2), done.output
    assert done.stderr == "Reading about rain\n" * 2
    print("demo: ok")


if __name__ == "__main__":
    if "--check" in sys.argv:
        check()
    else:
        command_line(newsroom(), help="The newsroom.")()
