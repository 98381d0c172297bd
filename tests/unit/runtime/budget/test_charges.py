"""What a row was paid for follows from its record."""

from __future__ import annotations

from decimal import Decimal

import pytest

from pilotage.agent.model_reply import ModelUsage
from pilotage.agent.ports.budget import BudgetAmount, ModelCost
from pilotage.agent.ports.costs import CostRole, ModelCharge, charges_in
from pilotage.jsonvalue import JsonObject
from pilotage.runtime.budget.charges import costs_of
from pilotage.runtime.effect import CONTEXT_CHANGE, DISCARDED_TRY, HOLD, MODEL_CALL, STEP, EffectKind
from pilotage.runtime.journal.records import encode_amount, encode_costs, encode_usage

PLAIN = ModelUsage(3, 2, 5)
CENT = ModelCost(Decimal("0.01"), "USD", "1")
USAGE = encode_usage(PLAIN)
DETAILED = ModelUsage(3, 2, 5, cached_tokens=1)


@pytest.mark.parametrize(
    ("kind", "record", "charges"),
    [
        (MODEL_CALL, {"model": "m", "result": {"usage": USAGE}}, [ModelCharge("m", CostRole.REPLY, PLAIN)]),
        (
            MODEL_CALL,
            {"model": 'm"\\', "result": {"content": "x", "usage": USAGE}},
            [ModelCharge('m"\\', CostRole.REPLY, PLAIN)],
        ),
        (
            MODEL_CALL,
            {"model": "m", "result": {"usage": USAGE}, "costs": encode_costs([CENT])},
            [ModelCharge("m", CostRole.REPLY, PLAIN, CENT)],
        ),
        (
            MODEL_CALL,
            {"model": "m", "result": {"usage": USAGE}, "costs": [None]},
            [ModelCharge("m", CostRole.REPLY, PLAIN)],
        ),
        (
            MODEL_CALL,
            {"model": "m", "result": {"usage": encode_usage(DETAILED)}},
            [ModelCharge("m", CostRole.REPLY, DETAILED)],
        ),
        (MODEL_CALL, {"model": "m", "result": {}}, [ModelCharge("m", CostRole.REPLY, ModelUsage())]),
        (
            MODEL_CALL,
            {"model": "m", "error": "x", "left": True, "usage": USAGE, "usage_estimated": True},
            [ModelCharge("m", CostRole.REPLY, PLAIN, is_estimated=True)],
        ),
        (
            MODEL_CALL,
            {"model": "m", "left": True, "result": {"usage": USAGE, "metadata": {"usage_estimated": True}}},
            [ModelCharge("m", CostRole.REPLY, PLAIN, is_estimated=True)],
        ),
        (
            MODEL_CALL,
            {
                "model": "m",
                "result": {
                    "usage": USAGE,
                    "metadata": {"passed_over": [{"model": "first", "usage": USAGE}, {"model": "silent"}]},
                },
                "costs": [None, *encode_costs([CENT])],
            },
            [
                ModelCharge("m", CostRole.REPLY, PLAIN),
                ModelCharge("first", CostRole.FALLBACK, PLAIN, CENT),
            ],
        ),
        (MODEL_CALL, {"error": "it was not asked"}, []),
        (MODEL_CALL, {"result": "given by a person"}, []),
        (
            DISCARDED_TRY,
            {"model": "m", "error": "lost", "usage": USAGE, "usage_estimated": False},
            [ModelCharge("m", CostRole.RETRY, PLAIN)],
        ),
        (DISCARDED_TRY, {"model": "m", "error": "busy"}, []),
        (
            DISCARDED_TRY,
            {
                "model": "m",
                "hold": 1,
                "spent": encode_amount(BudgetAmount(tokens=9, cost=Decimal("0.01"))),
                "costs": encode_costs([CENT]),
            },
            [ModelCharge("m", CostRole.RETRY, ModelUsage(total_tokens=9), CENT, is_estimated=True)],
        ),
        (
            CONTEXT_CHANGE,
            {"steps": [], "paid": [{"model": "m", "usage": USAGE}], "costs": encode_costs([CENT])},
            [ModelCharge("m", CostRole.COMPACTION, PLAIN, CENT)],
        ),
        (CONTEXT_CHANGE, {"steps": []}, []),
        (HOLD, {"model": "m", "result": {"usage": USAGE}}, []),
        (STEP, {"model": "m", "result": {"usage": USAGE}}, []),
    ],
)
def test_a_record_says_what_was_paid(
    kind: EffectKind, record: JsonObject, charges: list[ModelCharge]
) -> None:
    assert charges_in(costs_of(kind, "run/model#1", record, 1)) == tuple(charges)


@pytest.mark.parametrize(
    ("action", "tool"),
    [
        ("run/model#1", None),
        ("run/tool:pay#1/model#1", "pay"),
        ("run/tool:pay#1/tool:look#2/step:x#1/model#1", "look"),
        ("run/branch:a#1/model#2", None),
    ],
)
def test_a_charge_names_the_tool_that_it_was_made_in(action: str, tool: str | None) -> None:
    record: JsonObject = {"model": "m", "result": {"usage": USAGE}}
    for version in (1, 2):
        expected = ModelCharge("m", CostRole.REPLY, PLAIN, tool=tool, version=version)
        assert charges_in(costs_of(MODEL_CALL, action, record, version)) == (expected,)
