"""The applications and agents that a command line, or its project, names: `MODULE:NAME` or `FILE.py:NAME`."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType

from pilotage.agent.definition import AgentDefinition
from pilotage.container.application import Application
from pilotage.errors import CallerError, PilotageError
from pilotage.jsonvalue import is_object

APP = "PILOTAGE_APP"
_PROJECT = "pyproject.toml"
_FILE = ".py"
_OWN = str(Path(__file__).parents[1])


class TargetNotFoundError(CallerError):
    """`MODULE:NAME` does not name what the command needs."""

    message = "There is no such application."
    code = "target_not_found"


def load(target: str) -> object:
    """Return the object of `shop.main:app` or `shop/main.py:app`; modules are found as with `python -m`.

    Raises:
        TargetNotFoundError: the text has another form, the module cannot be imported, or has no such name.
    """
    place, _, name = target.rpartition(":")
    if not place or not name:
        raise TargetNotFoundError(
            f"{target!r} names no application. Write MODULE:NAME, for example shop.main:app, or FILE.py:NAME."
        )
    module = _imported(target, place)
    found: object = getattr(module, name, None)
    if found is None:
        raise TargetNotFoundError(f"{target!r}: module {module.__name__!r} has no {name!r}.")
    return found


def _imported(target: str, place: str) -> ModuleType:
    root, name = _module_of_file(target, Path(place)) if place.endswith(_FILE) else (Path.cwd(), place)
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    try:
        module = import_module(name)
    except PilotageError:
        raise
    except ModuleNotFoundError as error:
        missing = error.name or name
        if missing == name or name.startswith(f"{missing}."):
            way_out = f"Run this where {name!r} can be imported."
        else:
            way_out = f"{name!r} imports it: install it, or correct the import."
        raise TargetNotFoundError(f"{target!r}: {error}. {way_out}") from error
    except Exception as error:
        raise TargetNotFoundError(
            f"{target!r}: importing {name!r} failed: {type(error).__name__}: {error}{_line_of(error)}."
        ) from error
    if place.endswith(_FILE) and Path(module.__file__ or "").resolve() != Path(place).resolve():
        raise TargetNotFoundError(
            f"{target!r}: there is another module {name!r}, {module.__file__}. Rename the file."
        )
    return module


def _module_of_file(target: str, file: Path) -> tuple[Path, str]:
    """Return the folder to import from, and the name of the module in this file; its packages are part of the name."""
    if not file.is_file():
        raise TargetNotFoundError(f"{target!r}: there is no file {str(file)!r}.")
    folder, names = file.resolve().parent, [file.stem]
    while (folder / "__init__.py").exists():
        folder, names = folder.parent, [folder.name, *names]
    return folder, ".".join(names)


def _line_of(error: Exception) -> str:
    """Return the place in the imported code where an error was raised: the last one outside of Pilotage."""
    trace = error.__traceback__
    place = ""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<") and not file.startswith(_OWN) and "importlib" not in file:
            place = f" ({Path(file).name}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return "" if isinstance(error, SyntaxError) else place


def agent_in(found: object) -> AgentDefinition | None:
    """Return the definition of an agent class; None for any other object."""
    return AgentDefinition.get_or_none(found) if isinstance(found, type) else None


def applications_beside(agent: type[object], target: str) -> list[tuple[str, Application]]:
    """Return the applications with this agent in the agent's module, each with its target."""
    module = sys.modules.get(agent.__module__)
    named = vars(module).items() if module is not None else ()
    place, _, _ = target.rpartition(":")
    is_of_file = place.endswith(_FILE) and Path(place).stem == agent.__module__.rpartition(".")[2]
    return [
        (f"{place if is_of_file else agent.__module__}:{name}", each)
        for name, each in named
        if isinstance(each, Application) and each.contains(agent)
    ]


def configured_application(environ: Mapping[str, str] = os.environ, folder: Path | None = None) -> str | None:
    """Return the target in PILOTAGE_APP, else `app` in `[tool.pilotage]` of the folder's pyproject.toml.

    Raises:
        CallerError: the project file cannot be read, or `app` is no text.
    """
    if named := environ.get(APP, "").strip():
        return named
    file = (folder or Path.cwd()) / _PROJECT
    if not file.is_file():
        return None
    try:
        project = tomllib.loads(file.read_text())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise CallerError(f"{_PROJECT} cannot be read: {error}.") from error
    tools: dict[str, object] = project.get("tool", {})
    own = tools.get("pilotage", {})
    if not is_object(own):
        raise CallerError(f"{_PROJECT}: tool.pilotage is {own!r}. Write a table: [tool.pilotage].")
    found = own.get("app")
    if found is not None and not isinstance(found, str):
        raise CallerError(f"{_PROJECT}: app in [tool.pilotage] is {found!r}. Write MODULE:NAME.")
    return found
