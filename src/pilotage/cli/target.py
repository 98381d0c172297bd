"""Finding what `MODULE:NAME` on the command line means."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from pilotage.container.application import Application
from pilotage.errors import CallerError


class TargetNotFoundError(CallerError):
    """`MODULE:NAME` does not lead to an application."""

    message = "There is no such application."
    code = "target_not_found"


def load_application(target: str) -> Application:
    """The application that `shop.main:app` names; the working directory is on the path, as with `python -m`.

    Raises:
        TargetNotFoundError: the text has another form, or leads to something else.
    """
    module_name, _, name = target.partition(":")
    if not module_name or not name:
        raise TargetNotFoundError(
            f"{target!r} names no application. Write MODULE:NAME, for example shop.main:app."
        )
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: object = getattr(import_module(module_name), name)
    except ModuleNotFoundError as error:
        raise TargetNotFoundError(
            f"{target!r}: {error}. Run this where {module_name!r} can be imported."
        ) from error
    except AttributeError as error:
        raise TargetNotFoundError(f"{target!r}: module {module_name!r} has no {name!r}.") from error
    if not isinstance(found, Application):
        raise TargetNotFoundError(f"{target!r} is a {type(found).__name__}, not an Application.")
    return found
