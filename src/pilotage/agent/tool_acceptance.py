"""`ToolAcceptance`: the tools of one server that an application accepts, by its pins and the rule in its code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pilotage.agent.ports.tool_pins import IToolPins, ToolPin
from pilotage.agent.tool_review import (
    FIRST_USE,
    ReviewedTool,
    ToolReview,
    ToolStanding,
    check_accept,
    first_to_pin,
    review_tools,
)
from pilotage.agent.tools.definition_text import visible
from pilotage.agent.tools.listed import ListedTool
from pilotage.errors import AgentDefinitionError, CallerError


class ToolAcceptance:
    """Reviews the lists of a server, and accepts definitions for all processes of the application.

    Without a store the first use is remembered for as long as the process lives; other rules need no store, or cannot
    do without one. With `only_looks` the first use pins nothing: it is shown what it would accept.
    """

    def __init__(
        self, source: str, accept: str | None, pins: IToolPins | None, *, only_looks: bool = False
    ) -> None:
        """Take the rule of a server, and the port with its pins.

        Raises:
            AgentDefinitionError: `accept` is no rule, or people accept the tools and nothing stores that they did.
        """
        check_accept(source, accept)
        if accept is None and pins is None and not only_looks:
            raise AgentDefinitionError(
                f"server {source!r}: its tools are off until a person accepts them, and nothing stores that. Install "
                'pilotage[sqlalchemy], or accept them in code: accept="first use", or accept="sha256:..." for one list.'
            )
        self.source, self.rule = source, accept
        self._pins, self._only_looks = pins, only_looks
        self._of_process: Sequence[ToolPin] = ()

    @property
    def is_by_code(self) -> bool:
        """Whether the code accepts one list, by its digest."""
        return self.rule not in (None, FIRST_USE)

    async def review(
        self,
        listed: Sequence[ListedTool],
        *,
        taken: Mapping[str, str] | None = None,
        offered_as: Callable[[str], str] = str,
    ) -> ToolReview:
        """Return which tools of a list are offered; the first use pins what it accepts.

        Raises:
            StoreUnreachableError, DamagedEntryError: the pins cannot be read, and nothing is offered.
        """
        pins: Sequence[ToolPin] = ()
        if not self.is_by_code:
            pins = await self._pins_of(listed, taken=taken, offered_as=offered_as)
        return review_tools(self.source, listed, pins, accept=self.rule, taken=taken, offered_as=offered_as)

    async def accept(self, tools: Sequence[ReviewedTool], *, by: str | None) -> None:
        """Pin the definitions that these tools had when they were reviewed.

        Raises:
            CallerError: one of them cannot be accepted, or the code accepts the tools of this server.
        """
        if self.is_by_code or self._pins is None:
            raise CallerError(
                f"server {self.source!r} offers what its code accepts: accept={self.rule!r}. Change it there; "
                '"pilotage mcp list" shows the digest of the list as it is.'
            )
        for each in tools:
            if each.listed is None or not each.can_be_accepted:
                raise CallerError(
                    f"tool {visible(each.name)!r} of {self.source!r} cannot be accepted: {each.why}."
                )
        await self._pins.accept(self.source, [each.listed for each in tools if each.listed], by=by)
        former = [each.pin.tool for each in tools if each.standing is ToolStanding.RENAMED and each.pin]
        await self._pins.withdraw(self.source, former)

    async def _pins_of(
        self,
        listed: Sequence[ListedTool],
        *,
        taken: Mapping[str, str] | None,
        offered_as: Callable[[str], str],
    ) -> Sequence[ToolPin]:
        known = self._of_process if self._pins is None else await self._pins.pins_of(self.source)
        if known or self.rule != FIRST_USE:
            return known
        first = first_to_pin(self.source, listed, taken=taken, offered_as=offered_as)
        if self._pins is not None and not self._only_looks:
            return await self._pins.accept_first(self.source, first)
        self._of_process = [ToolPin(self.source, tool) for tool in first]
        return self._of_process
