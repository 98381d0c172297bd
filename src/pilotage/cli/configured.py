"""What a project says about itself to the command line: which application is meant, and for whom it is asked."""

from __future__ import annotations

import getpass
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path

from pilotage.agent.principal import DEFAULT_TENANT, LOCAL, Principal
from pilotage.errors import CallerError
from pilotage.jsonvalue import is_object

APP = "PILOTAGE_APP"
TENANT = "PILOTAGE_TENANT"
AS = "PILOTAGE_AS"
_PROJECT = "pyproject.toml"


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


def principal_of(who: str | None, tenant: str | None, environ: Mapping[str, str] = os.environ) -> Principal:
    """Who acts: as the options say, else as the environment does, else the person at the keyboard."""
    return Principal(
        who or environ.get(AS, "").strip() or _login(),
        tenant or environ.get(TENANT, "").strip() or DEFAULT_TENANT,
    )


def _login() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container may have no name for its user
        return LOCAL.id
