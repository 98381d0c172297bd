"""`@provided_by`: a port says which package brings an implementation, and what its absence means."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, get_origin

from pilotage.errors import ApplicationStartError
from pilotage.values import value

_ATTRIBUTE = "__pilotage_provided_by__"

ClassT = TypeVar("ClassT", bound=type)


@value
class Provision:
    """Where an implementation comes from, and the family of the error when there is none."""

    requirement: str
    family: type[ApplicationStartError] = ApplicationStartError
    setup: str = ""


def provided_by(
    requirement: str, *, family: type[ApplicationStartError] = ApplicationStartError, setup: str = ""
) -> Callable[[ClassT], ClassT]:
    """Say what to install when nothing provides the port: `@provided_by("pilotage[sqlalchemy]")`.

    `setup` says what else there is to do, as half a sentence: "name its server in ...".
    """

    def mark(port: ClassT) -> ClassT:
        setattr(port, _ATTRIBUTE, Provision(requirement, family, setup))
        return port

    return mark


def provision_of(type_: object) -> Provision | None:
    """What was said about this very port; a base's words do not count."""
    port = get_origin(type_) or type_
    found: object = getattr(port, "__dict__", {}).get(_ATTRIBUTE)
    return found if isinstance(found, Provision) else None
