"""`@CliController` and `@command`: what an application does for whoever types, as pods."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import getattr_static, isfunction
from typing import Any, TypeVar, overload

from pilotage.container.pod import Controller
from pilotage.errors import PodDefinitionError
from pilotage.values import value

_MARK = "__pilotage_command__"

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@value
class Command:
    """A method that is a command: what it is called, which method it is."""

    name: str
    method: str
    is_hidden: bool = False


@dataclass(kw_only=True, eq=False)
class CliController(Controller):
    """Marks a class whose methods with `@command` are commands: `@CliController(group="orders")`.

    It is a pod like any other, with constructor injection. `command_line(app)` makes a command line of all of them.

    `group`   the word before its commands; without one they stand at the top
    """

    group: str = ""

    def define(self) -> None:
        if not commands_of(self.target):
            raise PodDefinitionError(
                f"{self.target.__name__} is a CliController without commands. Write @command above a method."
            )


@overload
def command(function: FunctionT, /) -> FunctionT: ...
@overload
def command(*, name: str = ..., hidden: bool = ...) -> Callable[[FunctionT], FunctionT]: ...
def command(function: Any = None, /, *, name: str = "", hidden: bool = False) -> Any:
    """Make a method a command: its parameters are the arguments and options, its docstring is the help.

    The method may be async. What it returns is the exit code; None is 0. Types and `typing.Annotated` are Typer's own.
    """

    def mark(method: Any) -> Any:
        if not isfunction(method):
            raise PodDefinitionError(
                f"@command decorates a method, not {method!r}. Options are keywords: @command(name=...)."
            )
        setattr(method, _MARK, Command(name or method.__name__.replace("_", "-"), method.__name__, hidden))
        return method

    return mark if function is None else mark(function)


def commands_of(controller: type[object]) -> list[Command]:
    """The commands of a class in the order they are written, those of base classes first."""
    names = dict.fromkeys(name for base in reversed(controller.__mro__) for name in vars(base))
    members = (getattr_static(controller, name) for name in names)
    marks = (getattr(member, "__dict__", {}).get(_MARK) for member in members)
    return [mark for mark in marks if isinstance(mark, Command)]
