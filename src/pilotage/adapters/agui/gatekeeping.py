"""Who stands behind a request, and for whom the runs of it act."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from starlette.requests import HTTPConnection

from pilotage.adapters.agui.driver import RunDriverFactory
from pilotage.adapters.agui.serving import AgentDriver
from pilotage.adapters.agui.settings import AgUiConfig
from pilotage.adapters.asgi.admission import Admission
from pilotage.adapters.asgi.common_end import CommonEnd
from pilotage.agent.ports.principals import IPrincipalResolver
from pilotage.agent.principal import Principal
from pilotage.ids import IClock, SystemClock


@runtime_checkable
class ActsForOthers(Protocol):
    """A factory of streams that can act for whoever asks; what `driver_for` makes can."""

    def for_principal(self, principal: Principal) -> RunDriverFactory:
        """The same streams, acting for somebody."""
        ...


class Gatekeeper:
    """Lets requests in to one factory of streams.

    Who asks is said by the resolver, else by the application's own. Where there is neither, the factory acts for the
    principal it was made with, for programs on this machine only.
    """

    def __init__(
        self, run_driver_factory: RunDriverFactory, config: AgUiConfig, principal: IPrincipalResolver | None
    ) -> None:
        self._factory = run_driver_factory
        self._principal = principal
        self._admission = Admission(self._resolver, config.allowed_origins)

    async def admitted(self, connection: HTTPConnection) -> RunDriverFactory:
        """The factory, acting for whoever asks.

        Raises:
            CallerError: nobody knows who that is, or it is a page that may not connect.
        """
        principal = await self._admission.principal_of(connection)
        if principal is None or not isinstance(self._factory, ActsForOthers):
            return self._factory
        return self._factory.for_principal(principal)

    @property
    def common_end(self) -> CommonEnd | None:
        """With what the streams end; None where no application is known whose server could stop."""
        return CommonEnd.of(self._factory.app) if isinstance(self._factory, AgentDriver) else None

    @property
    def clock(self) -> IClock:
        """The application's clock."""
        own = self._factory.app.get_or_none(IClock) if isinstance(self._factory, AgentDriver) else None
        return own or SystemClock()

    def _resolver(self) -> IPrincipalResolver | None:
        if self._principal is None and isinstance(self._factory, AgentDriver):
            return self._factory.app.get_or_none(IPrincipalResolver)
        return self._principal
