"""Options that several commands share. Every command imports this module: it loads neither runtime nor database."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from pilotage.agent.principal import DEFAULT_TENANT, LOCAL, Principal
from pilotage.cli.text import Hints
from pilotage.values import value

TENANT = "PILOTAGE_TENANT"
AS = "PILOTAGE_AS"

_SHARED: Mapping[str, tuple[Any, Any]] = {
    "app": (
        str | None,
        typer.Option(
            "--app",
            metavar="MODULE:NAME",
            help="The application, or an agent to make one for. Default: PILOTAGE_APP, or tool.pilotage.app in "
            "pyproject.toml.",
        ),
    ),
    "tenant": (
        str | None,
        typer.Option("--tenant", metavar="NAME", help="The tenant. Default: PILOTAGE_TENANT, or 'default'."),
    ),
    "principal_id": (
        str | None,
        typer.Option(
            "--as", metavar="NAME", help="The principal that acts. Default: PILOTAGE_AS, or your login name."
        ),
    ),
    "as_json": (bool, typer.Option("--json", help="For programs: JSON, one value a line.")),
}
READS = ("app", "tenant", "as_json")
CHANGES = ("app", "tenant", "principal_id", "as_json")

AttachOption = Annotated[
    list[Path] | None,
    typer.Option("--attach", metavar="FILE", help="A picture, a sound or a file for the model; repeatable."),
]
ReasoningOption = Annotated[bool, typer.Option("--reasoning", help="Show the model's reasoning, too.")]


@value
class CommandOptions:
    """The shared options of one command."""

    app: str | None = None
    tenant: str | None = None
    principal_id: str | None = None
    as_json: bool = False

    @property
    def principal(self) -> Principal:
        """The principal that the command acts for."""
        return principal_of(self.principal_id, self.tenant)

    def hints(self, app_option: str) -> Hints:
        """Return hints whose commands mean the same application, by its option, and the same tenant."""
        tenant = f"--tenant {shlex.quote(self.tenant)}" if self.tenant else ""
        return Hints(" ".join(each for each in (app_option, tenant) if each))


def principal_of(name: str | None, tenant: str | None, environ: Mapping[str, str] = os.environ) -> Principal:
    """Return the principal that the options name, else the environment, else the login name."""
    return Principal(
        name or environ.get(AS, "").strip() or _login(),
        tenant or environ.get(TENANT, "").strip() or DEFAULT_TENANT,
    )


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        return LOCAL.id


def takes(names: Sequence[str]) -> Callable[[Callable[..., int | None]], Callable[..., None]]:
    """Add shared options to a command: it gets them as its first argument, and returns its exit code."""

    def decorate(command: Callable[..., int | None]) -> Callable[..., None]:
        hints = get_type_hints(command, include_extras=True)
        _, *own = signature(command).parameters.values()
        parameters = [each.replace(annotation=hints[each.name]) for each in own]
        parameters += map(_shared_parameter, names)

        def call(**given: Any) -> None:
            options = CommandOptions(**{name: given.pop(name) for name in names})
            finish(command(options, **given) or 0)

        call.__doc__, call.__name__ = command.__doc__, command.__name__
        call.__annotations__ = {each.name: each.annotation for each in parameters}
        setattr(call, "__signature__", Signature(parameters))  # noqa: B010 - functions have no such field
        return call

    return decorate


def _shared_parameter(name: str) -> Parameter:
    type_, option = _SHARED[name]
    default = False if type_ is bool else None
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[type_, option])


def finish(code: int) -> None:
    """End the command with an exit code."""
    if code:
        raise typer.Exit(code)
