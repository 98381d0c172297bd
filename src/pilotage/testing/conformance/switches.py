"""The promises of the switch port."""

from __future__ import annotations

import asyncio

import pytest

from pilotage.agent.ports.permissions import IAgentSwitches, Switch, SwitchKind
from pilotage.errors import AgentDefinitionError
from pilotage.testing.conformance.kit import Kit

PAY = Switch.tool("pay")
NAMES = ("pay", "Zahlung 💶", "a'b\"c\\d", "shop:Refunds")


class SwitchesConformance(Kit):
    """Conformance tests of every switch port.

    Fixtures to give: `switches`, over an empty store, and, where a store can be opened twice, `second_switches`:
    another adapter over the same store, as a second process has it.
    """

    @pytest.fixture
    def second_switches(self, switches: IAgentSwitches) -> IAgentSwitches:
        return switches

    async def test_everything_is_on_at_first(self, switches: IAgentSwitches) -> None:
        assert await switches.first_off([PAY, Switch.agent("shop"), Switch.tenant("acme")]) is None
        assert list(await switches.list_off()) == []

    async def test_nothing_asked_for_is_off(self, switches: IAgentSwitches) -> None:
        await switches.turn_off(PAY, reason="broken")
        assert await switches.first_off([]) is None

    @pytest.mark.parametrize("name", NAMES)
    async def test_what_is_off_says_why_since_when_and_by_whom(
        self, switches: IAgentSwitches, second_switches: IAgentSwitches, name: str
    ) -> None:
        off = await switches.turn_off(Switch.tool(name), reason=f"{name} is broken", by="ada")
        assert (off.switch, off.reason, off.by) == (Switch.tool(name), f"{name} is broken", "ada")
        assert off.since is not None
        assert off.since.utcoffset() is not None
        assert await switches.first_off([Switch.tool(name)]) == off
        assert await second_switches.first_off([Switch.tool(name)]) == off
        assert list(await second_switches.list_off()) == [off]

    async def test_the_person_may_be_unknown(self, switches: IAgentSwitches) -> None:
        assert (await switches.turn_off(PAY, reason="broken")).by is None

    async def test_a_switch_that_is_on_again_is_on_for_all_processes(
        self, switches: IAgentSwitches, second_switches: IAgentSwitches
    ) -> None:
        await switches.turn_off(PAY, reason="broken")
        assert await second_switches.turn_on(PAY)
        assert await switches.first_off([PAY]) is None
        assert list(await switches.list_off()) == []
        assert not await switches.turn_on(PAY)

    async def test_what_was_never_off_cannot_be_switched_on(self, switches: IAgentSwitches) -> None:
        assert not await switches.turn_on(PAY)

    async def test_what_is_off_stays_as_it_is(
        self, switches: IAgentSwitches, second_switches: IAgentSwitches
    ) -> None:
        first = await switches.turn_off(PAY, reason="broken", by="ada")
        assert await second_switches.turn_off(PAY, reason="still broken", by="bob") == first
        assert list(await switches.list_off()) == [first]

    async def test_many_callers_at_once_get_the_same_answer(
        self, switches: IAgentSwitches, second_switches: IAgentSwitches
    ) -> None:
        ports = [switches, second_switches] * 5
        switched_off = await asyncio.gather(
            *(port.turn_off(PAY, reason=f"reason {number}") for number, port in enumerate(ports))
        )
        assert len({off.reason for off in switched_off}) == 1
        assert list(await switches.list_off()) == [switched_off[0]]

    async def test_it_can_be_switched_off_again_for_another_reason(self, switches: IAgentSwitches) -> None:
        await switches.turn_off(PAY, reason="broken")
        await switches.turn_on(PAY)
        off = await switches.turn_off(PAY, reason="abused")
        assert off.reason == "abused"
        assert await switches.first_off([PAY]) == off

    @pytest.mark.parametrize("kind", list(SwitchKind))
    async def test_an_agent_a_tool_and_a_tenant_of_one_name_are_three_switches(
        self, switches: IAgentSwitches, kind: SwitchKind
    ) -> None:
        await switches.turn_off(Switch(kind, "pay"), reason="broken")
        others = [Switch(each, "pay") for each in SwitchKind if each is not kind]
        assert await switches.first_off(others) is None

    async def test_names_are_compared_by_every_letter(self, switches: IAgentSwitches) -> None:
        await switches.turn_off(PAY, reason="broken")
        assert await switches.first_off([Switch.tool("Pay"), Switch.tool("pay "), Switch.tool("pa_")]) is None

    async def test_the_first_of_several_is_the_first_that_was_asked_about(
        self, switches: IAgentSwitches
    ) -> None:
        shop, acme = Switch.agent("shop"), Switch.tenant("acme")
        for switch in (PAY, acme):
            await switches.turn_off(switch, reason="broken")
        assert [await self._first(switches, shop, acme, PAY), await self._first(switches, PAY, acme)] == [
            acme,
            PAY,
        ]

    async def test_they_are_listed_in_the_order_they_were_switched_off(
        self, switches: IAgentSwitches
    ) -> None:
        off = [Switch.tool("c"), Switch.agent("a"), Switch.tenant("b")]
        for switch in off:
            await switches.turn_off(switch, reason="broken")
        assert [each.switch for each in await switches.list_off()] == off

    async def test_a_reason_is_required(self, switches: IAgentSwitches) -> None:
        with pytest.raises(AgentDefinitionError):
            await switches.turn_off(PAY, reason=" ")
        assert await switches.first_off([PAY]) is None

    @staticmethod
    async def _first(switches: IAgentSwitches, *asked: Switch) -> Switch | None:
        off = await switches.first_off(asked)
        return off.switch if off else None
