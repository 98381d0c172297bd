"""What `@ApiController` says of a class, before anybody looks at its methods."""

from __future__ import annotations

from dataclasses import dataclass

from pilotage.container.stereotypes import Controller
from pilotage.errors import PodDefinitionError


@dataclass(kw_only=True, eq=False)
class ControllerDefinition(Controller):
    """What is said of a controller as a whole.

    `prefix`   stands in front of every path
    `tags`     group the routes in the description; the name of the class by default
    `public`   lets everybody in, also where a principal resolver knows who asks
    """

    prefix: str = ""
    tags: tuple[str, ...] = ()
    public: bool = False

    def define(self) -> None:
        if self.prefix and (not self.prefix.startswith("/") or self.prefix.endswith("/")):
            raise PodDefinitionError(
                f"{self.target.__name__}: prefix {self.prefix!r} must begin with a slash and not end with one."
            )
        self.tags = tuple(self.tags)
