"""What type checkers infer about commands and their controllers; importing this module runs the right uses.

A wrong use carries an ignore comment. An ignore that is not needed is an error, so wrong uses stay wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, assert_type

import typer

from pilotage.adapters.typer import CliController, command, command_line
from pilotage.container import Application


@CliController
class Top:
    @command
    async def bare(self, text: str, times: int = 1) -> None: ...

    @command(name="other-name", hidden=True)
    def named(self, text: str) -> int:
        return len(text)


@CliController(group="more")
class More(Top): ...


async def methods_keep_their_types(top: Top) -> None:
    """A command is still the method it was."""
    await top.bare("x", times=2)
    assert_type(top.named("x"), int)
    kept: Callable[[str], int] = top.named
    waited: Coroutine[Any, Any, None] = top.bare("x")
    await waited
    kept("x")


def wrong_uses(top: Top) -> None:
    """What a type checker refuses."""
    top.named(3)  # pyright: ignore[reportArgumentType]
    command("name")  # pyright: ignore[reportArgumentType]


assert_type(command_line(Application("typed").add(Top)), typer.Typer)
