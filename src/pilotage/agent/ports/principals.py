"""Finding out who asks: the port in front of everything that lets people and programs in."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from pilotage.agent.principal import Principal


class IPrincipalResolver(ABC):
    """Says for whom a request is made. There is no default: an application that lets others in says who they are.

    It is asked before anything else of a request is looked at. What it raises keeps the request out.
    """

    @abstractmethod
    async def resolve(self, headers: Mapping[str, str]) -> Principal:
        """The principal behind a request, from its headers by lower-case name; repeated ones are joined by commas.

        Raises:
            NotAuthenticatedError: the headers name nobody that is known here.
        """
