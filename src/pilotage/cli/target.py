"""The applications and agents that a command line, or its project, names as `MODULE:NAME`."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from pilotage.agent.definition import AgentDefinition
from pilotage.container.application import Application
from pilotage.errors import CallerError
from pilotage.jsonvalue import is_object

APP = "PILOTAGE_APP"
_PROJECT = "pyproject.toml"


class TargetNotFoundError(CallerError):
    """`MODULE:NAME` does not lead to what was asked for."""

    message = "There is no such application."
    code = "target_not_found"


def load(target: str) -> object:
    """What `shop.main:app` names; the working directory is on the path, as with `python -m`.

    Raises:
        TargetNotFoundError: the text has another form, or leads nowhere.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise TargetNotFoundError(
            f"{target!r} names no application. Write MODULE:NAME, for example shop.main:app."
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(module_name)
    except ImportError as error:
        raise TargetNotFoundError(
            f"{target!r}: {error}. Run this where {module_name!r} can be imported."
        ) from error
    found: object = getattr(module, name, None)
    if found is None:
        raise TargetNotFoundError(f"{target!r}: module {module_name!r} has no {name!r}.")
    return found


def load_application(target: str) -> Application:
    """The application that a target names.

    Raises:
        TargetNotFoundError: it leads to something else.
    """
    found = load(target)
    if not isinstance(found, Application):
        raise TargetNotFoundError(f"{target!r} is a {type(found).__name__}, not an Application.")
    return found


def agent_in(found: object) -> AgentDefinition | None:
    """The agent that was found, if it is one."""
    return AgentDefinition.get_or_none(found) if isinstance(found, type) else None


def applications_beside(agent: type[object]) -> list[tuple[str, Application]]:
    """The applications in the module of an agent that have it, each as its target."""
    module = sys.modules.get(agent.__module__)
    named = vars(module).items() if module is not None else ()
    return [
        (f"{agent.__module__}:{name}", each)
        for name, each in named
        if isinstance(each, Application) and each.contains(agent)
    ]


def configured_application(environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> str | None:
    """The application that PILOTAGE_APP names, else `app` in `[tool.pilotage]` of the project in the folder.

    Raises:
        CallerError: the project file cannot be read, or names something else than a text.
    """
    if named := environ.get(APP, "").strip():
        return named
    file = (folder or Path.cwd()) / _PROJECT
    if not file.is_file():
        return None
    try:
        project = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CallerError(f"{_PROJECT} cannot be read: {error}.") from error
    tools: dict[str, object] = project.get("tool", {})
    own = tools.get("pilotage", {})
    if not is_object(own):
        raise CallerError(f"{_PROJECT}: tool.pilotage is {own!r}. Write a table: [tool.pilotage].")
    found = own.get("app")
    if found is not None and not isinstance(found, str):
        raise CallerError(f"{_PROJECT}: app in [tool.pilotage] is {found!r}. Write MODULE:NAME.")
    return found
