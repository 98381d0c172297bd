"""The order in which stages look at an effect, for each kind of effect: the table against the running code.

Every stage is made to refuse at once. The one that stops the effect looked first; it is taken away, and the effect is
tried again, until it is carried out. The stages that refuse to the end do not look at the effect.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.behaviour.admission.scenes import SCENES, Stand
from tests.behaviour.admission.stages import ALL, Stage
from tests.behaviour.admission.table import ORDERS, AdmissionRow


async def order_of(
    effect: str, stages: Sequence[Stage] = ALL, *, has_ports: bool = True
) -> tuple[Stage, ...]:
    """The stages that look at an effect, the first one first."""
    scene = SCENES[effect]
    refusing = [stage for stage in stages if stage not in scene.cannot_refuse]
    order: list[Stage] = []
    while (stage := (await Stand(scene, refusing, has_ports=has_ports).attempt()).by) is not None:
        order.append(stage)
        refusing.remove(stage)
    return tuple(order)


def test_every_scene_has_a_row() -> None:
    assert sorted(row.effect for row in ORDERS) == sorted(SCENES)


@pytest.mark.parametrize("row", ORDERS, ids=lambda row: row.effect)
async def test_the_stages_look_at_an_effect_in_the_order_of_the_table(row: AdmissionRow) -> None:
    assert await order_of(row.effect) == row.order


@pytest.mark.parametrize("row", ORDERS, ids=lambda row: row.effect)
def test_the_order_is_the_same_for_every_effect(row: AdmissionRow) -> None:
    counted_first = row.effect == "tool calls of one reply"
    order = tuple(stage for stage in row.order if not (counted_first and stage is Stage.LIMITS))
    assert order == tuple(stage for stage in Stage if stage in order)


WITHOUT_PORTS = (Stage.ALIVE, Stage.DEADLINE, Stage.TRUST, Stage.LIMITS)


@pytest.mark.parametrize(
    "effect", ["tool call of a model", "tool call of a program", "model call", "summary", "step"]
)
async def test_an_application_without_ports_has_the_other_stages_in_the_same_order(effect: str) -> None:
    (row,) = (row for row in ORDERS if row.effect == effect)
    expected = tuple(stage for stage in row.order if stage in WITHOUT_PORTS)
    assert await order_of(effect, WITHOUT_PORTS, has_ports=False) == expected
