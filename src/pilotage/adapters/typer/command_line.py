"""`@CliController`, `@command`, and `command_line`: the controllers of an application as one Typer command line."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import Parameter, Signature, getattr_static, isfunction
from typing import Any, TypeVar, get_type_hints, overload

import typer

from pilotage.container.application import Application
from pilotage.container.pod import Controller
from pilotage.errors import CallerError, PilotageError, PodDefinitionError
from pilotage.values import value

_MARK = "__pilotage_command__"

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


@value
class Command:
    """A method that is a command, with the name of the command."""

    name: str
    method: str
    is_hidden: bool = False


@dataclass(kw_only=True, eq=False)
class CliController(Controller):
    """Marks a class whose methods with `@command` are commands: `@CliController(group="orders")`.

    It is a pod like any other, with constructor injection. `command_line(app)` makes a command line of all of them.

    `group`   the word before its commands; without one they are at the top
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

    The method may be async. It returns the exit code; None is 0. Types and `typing.Annotated` are Typer's own.
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
    """Return the commands of a class in the order they are written, those of base classes first."""
    names = dict.fromkeys(name for base in reversed(controller.__mro__) for name in vars(base))
    members = (getattr_static(controller, name) for name in names)
    marks = (getattr(member, "__dict__", {}).get(_MARK) for member in members)
    return [mark for mark in marks if isinstance(mark, Command)]


def command_line(app: Application, *, help: str | None = None) -> typer.Typer:  # noqa: A002 - Typer's word
    """Return a command line of all controllers of an application, which is started for each command.

    Call it, or name it in `[project.scripts]`: `shop = "shop.main:cli"` where `cli = command_line(app)`.

    Raises:
        PodDefinitionError: two commands have one name, or a parameter has no type that can be read.
    """
    root = typer.Typer(help=help, no_args_is_help=True, pretty_exceptions_enable=False)
    root.callback()(lambda: None)  # with it, a single command is called by its name too
    groups: dict[str, typer.Typer] = {"": root}
    taken: set[tuple[str, str]] = set()
    for controller, each in _declared(app):
        place = (controller.group, each.name)
        if place in taken:
            raise PodDefinitionError(
                f"{controller.target.__name__}.{each.method}: there are two commands "
                f"{' '.join(filter(None, place))!r}. Name one of them: @command(name=...)."
            )
        taken.add(place)
        if controller.group not in groups:
            groups[controller.group] = typer.Typer(help=_first_line(controller.target), no_args_is_help=True)
            root.add_typer(groups[controller.group], name=controller.group)
        groups[controller.group].command(each.name, hidden=each.is_hidden)(_callable(app, controller, each))
    return root


def _declared(app: Application) -> Iterator[tuple[CliController, Command]]:
    for node in app.graph.nodes:
        if isinstance(node.pod, CliController):
            for each in commands_of(node.pod.target):
                yield node.pod, each


def _callable(app: Application, controller: CliController, declared: Command) -> Callable[..., None]:
    """Return a function with the parameters of the method but `self`, which starts the application and calls it."""
    method: Callable[..., Any] = getattr(controller.target, declared.method)

    def call(**given: Any) -> None:
        code = _carried_out(app, controller, declared.method, given)
        if code:
            raise typer.Exit(code)

    call.__doc__ = method.__doc__
    signature = _signature(controller, method)
    call.__annotations__ = {name: each.annotation for name, each in signature.parameters.items()}
    setattr(call, "__signature__", signature)  # noqa: B010 - functions have no such field
    return call


def _signature(controller: CliController, method: Callable[..., Any]) -> Signature:
    where = f"{controller.target.__name__}.{method.__name__}"
    try:
        hints = get_type_hints(method, include_extras=True)
    except NameError as error:
        raise PodDefinitionError(f"{where}: {error}. Import the type at the top of the module.") from error
    _, *parameters = inspect.signature(method).parameters.values()
    untyped = [each.name for each in parameters if each.name not in hints]
    if untyped:
        raise PodDefinitionError(f"{where}: parameter {untyped[0]!r} is untyped. Write its type.")
    typed = [each.replace(annotation=hints[each.name], kind=Parameter.KEYWORD_ONLY) for each in parameters]
    return Signature(typed)


def _carried_out(app: Application, controller: CliController, method: str, given: dict[str, Any]) -> int:
    try:
        found = asyncio.run(_called(app, controller, method, given))
    except PilotageError as error:
        sys.stderr.write(f"{error}\n")
        return 2 if isinstance(error, CallerError) else 1
    return found if isinstance(found, int) else 0


async def _called(app: Application, controller: CliController, method: str, given: dict[str, Any]) -> object:
    async with app:
        pod = app.get(controller.target, controller.name)
        result: object = getattr(pod, method)(**given)
        return await result if inspect.isawaitable(result) else result


def _first_line(owner: type[object]) -> str | None:
    return (inspect.getdoc(owner) or "").partition("\n")[0] or None
