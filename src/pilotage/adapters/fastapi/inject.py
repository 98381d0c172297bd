"""`Inject()`: pods of the application as parameters of endpoints."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from fastapi.params import Depends
from starlette.requests import HTTPConnection

from pilotage.adapters.fastapi.lifespan import application_of


@dataclass(frozen=True)
class Inject(Depends):
    """Gives an endpoint the pod of the annotated type: `clerk: Annotated[Clerk, Inject()]`.

    `name` chooses among several. The application is the one of `pilotage_lifespan`.
    """

    name: str | None = None

    def __post_init__(self) -> None:
        # FastAPI replaces a dependency that is not given by the annotated type: here is where we learn it.
        if self.dependency is not None:
            object.__setattr__(self, "dependency", _pod_of(self.dependency, self.name))


def _pod_of(
    type_: Callable[..., Any], name: str | None
) -> Callable[[HTTPConnection], Coroutine[Any, Any, Any]]:
    async def pod(connection: HTTPConnection) -> Any:
        return application_of(connection).get(type_, name)

    return pod
