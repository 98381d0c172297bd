"""The promises of the port for late outcomes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from pilotage.agent.ports.repositories import IAgentLateOutcomes, LateOutcome
from pilotage.jsonvalue import JsonObject
from pilotage.testing.conformance.samples import FOREIGN_RUN, OTHER_RUN, RUN

VIEW: JsonObject = {"capture": "structured", "result": {"paid": ["12.50", None, True], "note": "ärger\u0000"}}
PAID = LateOutcome(RUN, "run/tool:pay#1", 1, 1, VIEW)


class LateOutcomesConformance:
    """What every port for late outcomes must do.

    Fixtures to give: `late_outcomes`, over an empty store; and, where a store can be opened twice,
    `second_late_outcomes`: another adapter over the same store, as a second process has it.
    """

    pytestmark = pytest.mark.asyncio

    @pytest.fixture
    def second_late_outcomes(self, late_outcomes: IAgentLateOutcomes) -> IAgentLateOutcomes:
        """Another adapter over the same store; where there is no such thing, `late_outcomes` itself."""
        return late_outcomes

    async def test_nothing_is_known_of_an_action_that_nobody_told_of(
        self, late_outcomes: IAgentLateOutcomes
    ) -> None:
        assert list(await late_outcomes.list_by_action(RUN, PAID.action_id)) == []

    async def test_what_goes_in_comes_out_with_the_time_of_the_store(
        self, late_outcomes: IAgentLateOutcomes, second_late_outcomes: IAgentLateOutcomes
    ) -> None:
        await late_outcomes.append(PAID)
        (found,) = await second_late_outcomes.list_by_action(RUN, PAID.action_id)
        assert replace(found, created_at=None) == PAID
        assert found.created_at is not None
        assert found.created_at.utcoffset() is not None

    async def test_they_come_in_the_order_they_were_told(
        self, late_outcomes: IAgentLateOutcomes, second_late_outcomes: IAgentLateOutcomes
    ) -> None:
        for attempt, epoch in ((2, 3), (1, 1), (2, 2)):
            await late_outcomes.append(replace(PAID, attempt=attempt, epoch=epoch))
        found = await second_late_outcomes.list_by_action(RUN, PAID.action_id)
        assert [(each.attempt, each.epoch) for each in found] == [(2, 3), (1, 1), (2, 2)]

    async def test_the_first_word_of_an_owner_about_an_attempt_stays(
        self, late_outcomes: IAgentLateOutcomes
    ) -> None:
        for view in (VIEW, {"error": "no"}):
            await late_outcomes.append(replace(PAID, view=view))
        assert [each.view for each in await late_outcomes.list_by_action(RUN, PAID.action_id)] == [VIEW]

    async def test_of_many_at_once_one_stays(
        self, late_outcomes: IAgentLateOutcomes, second_late_outcomes: IAgentLateOutcomes
    ) -> None:
        ports = [late_outcomes, second_late_outcomes] * 5
        await asyncio.gather(*(port.append(PAID) for port in ports))
        assert len(await late_outcomes.list_by_action(RUN, PAID.action_id)) == 1

    async def test_actions_runs_and_tenants_are_kept_apart(self, late_outcomes: IAgentLateOutcomes) -> None:
        others = [
            replace(PAID, action_id="run/tool:pay#2"),
            replace(PAID, action_id="run/tool:pay#1/step:x#1"),
            replace(PAID, run=OTHER_RUN),
            replace(PAID, run=FOREIGN_RUN),
        ]
        for outcome in (PAID, *others):
            await late_outcomes.append(outcome)
        for outcome in (PAID, *others):
            (found,) = await late_outcomes.list_by_action(outcome.run, outcome.action_id)
            assert (found.run, found.action_id) == (outcome.run, outcome.action_id)
