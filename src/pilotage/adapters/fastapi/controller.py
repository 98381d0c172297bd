"""`@ApiController`: what an application answers over HTTP, as pods."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from pilotage.adapters.fastapi.controller_check import ControllerCheck
from pilotage.adapters.fastapi.controller_definition import ControllerDefinition


@dataclass(kw_only=True, eq=False)
class ApiController(ControllerDefinition):
    """Marks a class whose methods are routes: `@ApiController(prefix="/agents")`.

    It is a pod like any other, with constructor injection. `controller_routes(app)` makes a router of all of them;
    what is wrong with one is reported when the application starts, with everything else.

    `prefix`   stands in front of every path
    `tags`     group the routes in the description; the name of the class by default
    `public`   lets everybody in, also where a principal resolver knows who asks
    """

    post_processors: ClassVar[tuple[type, ...]] = (ControllerCheck,)
